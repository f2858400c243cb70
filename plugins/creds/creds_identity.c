/* Ids and capabilities of the command; see creds_identity.h. In the box's first process: no malloc, no errno, and no
 * name service: getpwnam() would load code that the box's own files choose. */
#include "creds_identity.h"

#include "creds_caps.h"
#include "creds_fd.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

/* An account file larger than this is not worth a start's time; real ones stay below a few hundred kB. */
#define ACCOUNTS_MAX (4u << 20)

/* One pass over an account file, looking for one line. */
struct search {
    const struct creds_id *wanted;
    struct creds_account *account; /* passwd */
    uint32_t *gid;                 /* group */
};

static int match(const struct search *search, const char *line, size_t length)
{
    if (search->account != NULL)
        return creds_user_match_passwd(line, length, search->wanted, search->account);
    return creds_user_match_group(line, length, search->wanted, search->gid);
}

/* Matches each whole line in the buffer. Returns what match() said of the first line that is not a 0; moves the rest,
 * a line whose end was not read yet, to the front. */
static int match_lines(const struct search *search, char *buffer, size_t *used)
{
    size_t at = 0;
    for (;;) {
        const char *newline = memchr(buffer + at, '\n', *used - at);
        if (newline == NULL)
            break;
        size_t length = (size_t)(newline - buffer) - at;
        int verdict = match(search, buffer + at, length);
        if (verdict != 0)
            return verdict;
        at += length + 1;
    }
    memmove(buffer, buffer + at, *used - at);
    *used -= at;
    return 0;
}

/* Returns what match() said of the first line that counts, -ENOENT when no line did, or why reading failed. A line
 * longer than the buffer belongs to nobody: its pieces must not be taken for lines, so it ends the search. */
static int search_file(int fd, const struct search *search, char *buffer, size_t size)
{
    size_t used = 0;
    size_t total = 0;
    for (;;) {
        long got = sys_read(fd, buffer + used, size - used);
        if (got == -EINTR)
            continue;
        if (got < 0)
            return (int)got;
        if (got == 0)
            break;
        used += (size_t)got;
        total += (size_t)got;
        int verdict = match_lines(search, buffer, &used);
        if (verdict != 0)
            return verdict;
        if (used == size || total > ACCOUNTS_MAX)
            return -EFBIG;
    }
    int verdict = used > 0 ? match(search, buffer, used) : 0; /* the last line may lack its newline */
    return verdict != 0 ? verdict : -ENOENT;
}

/* The image may have made its account file a link to anywhere, a pipe that never ends, or a directory. */
static int open_accounts(int root, const char *path)
{
    auto_raw_fd fd = sys_open_beneath(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, RESOLVE_IN_ROOT);
    if (fd < 0)
        return fd;
    struct statx what;
    long result = sys_call(SYS_statx, fd, SYS_P(""), AT_EMPTY_PATH, STATX_TYPE, SYS_P(&what), 0);
    if (result < 0)
        return (int)result;
    return S_ISREG(what.stx_mode) ? steal_fd(&fd) : -EINVAL;
}

static int search_accounts(int root, const char *path, const struct search *search, char *buffer, size_t size)
{
    auto_raw_fd fd = open_accounts(root, path);
    return fd < 0 ? fd : search_file(fd, search, buffer, size);
}

static bool is_missing(int result)
{
    return result == -ENOENT || result == -ENOTDIR;
}

/* `spelled` is the whole of --user, `name` the part of it that was looked up. */
static int explain(const char *spelled, const char *name, const char *path, int result,
                   struct kern_error *err)
{
    if (is_missing(result)) {
        (void)kern_fail(err, 0, "cannot map user \"%s\": no \"%s\" in the box's /%s", spelled, name, path);
        kern_hint(err, "give a number, such as --user 1000:1000, or a name that the box has");
        return -ENOENT;
    }
    if (result == -EINVAL)
        return kern_fail(err, 0, "cannot map user \"%s\": the box's /%s is not sound", spelled, path);
    return kern_fail(err, -result, "cannot map user \"%s\": cannot read the box's /%s", spelled, path);
}

int creds_identity_find(int root, const struct creds_user *wanted, const char *spelled, char *buffer,
                        size_t size, struct creds_account *ret_account, struct kern_error *err)
{
    /* A number that no line has is still a user. As with other runtimes its group is then 0, its home is /. */
    struct creds_account account = {.uid = wanted->user.number, .gid = 0, .home = "/"};
    const struct search users = {.wanted = &wanted->user, .account = &account};
    int result = search_accounts(root, "etc/passwd", &users, buffer, size);
    bool by_name = wanted->user.name[0] != '\0';
    if (result < 0 && (by_name || !is_missing(result)))
        return explain(spelled, wanted->user.name, "etc/passwd", result, err);

    if (wanted->group.given && wanted->group.name[0] == '\0')
        account.gid = wanted->group.number;
    if (wanted->group.given && wanted->group.name[0] != '\0') {
        const struct search groups = {.wanted = &wanted->group, .gid = &account.gid};
        result = search_accounts(root, "etc/group", &groups, buffer, size);
        if (result < 0)
            return explain(spelled, wanted->group.name, "etc/group", result, err);
    }
    *ret_account = account;
    return 0;
}

int creds_identity_bound(uint64_t kept, struct kern_error *err)
{
    int result = sys_prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (result < 0)
        return kern_fail(err, -result, "cannot clear the ambient capabilities");
    for (int number = 0; number < 64; number++) {
        if ((kept >> number & 1) != 0)
            continue;
        result = sys_prctl(PR_CAPBSET_DROP, (unsigned long)number, 0, 0, 0);
        if (result == -EINVAL)
            break; /* past the last capability of this kernel */
        if (result < 0)
            return kern_fail(err, -result, "cannot drop capability %d from the bounding set", number);
    }
    return 0;
}

int creds_identity_shed_groups(struct kern_error *err)
{
    /* Where only one id is mapped the kernel refuses setgroups (since 3.19, so that nobody sheds a group that denies
     * them something), and the groups that the caller had outside stay. */
    int result = sys_setgroups(0, NULL);
    if (result < 0 && result != -EPERM)
        return kern_fail(err, -result, "cannot shed the supplementary groups");
    return 0;
}

static int explain_id(const char *kind, uint32_t id, const char *spelled, uint32_t count, int result,
                      struct kern_error *err)
{
    if (result != -EINVAL)
        return kern_fail(err, -result, "cannot map user \"%s\": cannot take %s id %u", spelled, kind, id);
    (void)kern_fail(err, 0, "cannot map user \"%s\": %s id %u is not among the ids of the box", spelled, kind,
                    id);
    if (count <= 1)
        kern_hint(err, "map your subordinate ids: kern box --uid-range --user %s ...", spelled);
    else
        kern_hint(err, "this box has %u ids; a larger range in /etc/subuid and /etc/subgid gives it more",
                  count);
    return -EINVAL;
}

int creds_identity_take(const struct creds_account *account, const char *spelled, uint32_t count,
                        struct kern_error *err)
{
    /* The user comes last: it takes the right to change groups away. */
    int result = sys_setresgid(account->gid);
    if (result < 0)
        return explain_id("group", account->gid, spelled, count, result, err);
    result = sys_setresuid(account->uid);
    if (result < 0)
        return explain_id("user", account->uid, spelled, count, result, err);
    return 0;
}

int creds_identity_keep(uint64_t kept, uint64_t asked, struct kern_error *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{.effective = 0}};
    long result = sys_call(SYS_capget, SYS_P(&header), SYS_P(data), 0, 0, 0, 0);
    if (result < 0)
        return kern_fail(err, (int)-result, "cannot read the capabilities");
    uint64_t held = data[0].permitted | (uint64_t)data[1].permitted << 32;
    if ((asked & ~held) != 0)
        return kern_fail(err, 0, "cannot keep capability \"%s\": kern itself does not hold it",
                         creds_cap_name(__builtin_ctzll(asked & ~held)));
    kept &= held;
    for (int word = 0; word < 2; word++) {
        uint32_t bits = (uint32_t)(kept >> (32 * word));
        /* Inheritable stays empty (CVE-2022-27650): with it, file capabilities of the image would count double. The
         * securebits stay as they are: with NOROOT a root of the box would lose `kept` at exec. */
        data[word] = (struct __user_cap_data_struct){.effective = bits, .permitted = bits, .inheritable = 0};
    }
    result = sys_call(SYS_capset, SYS_P(&header), SYS_P(data), 0, 0, 0, 0);
    if (result < 0)
        return kern_fail(err, (int)-result, "cannot set the capabilities");
    return 0;
}
