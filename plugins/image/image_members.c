/* The files of an archive of images; see image_members.h. The archive is read in a process without rights, which hands on what
 * it finds in frames: kind and lengths, names, bytes. The store is written by the process of the verb. */
#include "image_members.h"

#include "image_child.h"
#include "image_vet.h"

#include "kern/cleanup.h"
#include "kern/sys.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#define MEMBERS_MOST 20000u
#define BLOCK        ((size_t)1 << 18)
#define RATIO_FROM   ((uint64_t)64 << 20)

struct frame {
    uint32_t name, link; /* bytes that follow */
    uint64_t size;
};

/* ---- The process that reads ---- */

struct reading {
    struct archive *tar;
    int out;
    uint64_t ratio, sent; /* sent: bytes of files */
    char *buffer;
    struct kern_error *err;
};

/* A few bytes of an archive may stand for a disk full: compressed, or as the hole of a file that is sparse. */
static int judge_ratio(const struct reading *r)
{
    if (r->sent <= RATIO_FROM || r->sent / r->ratio <= (uint64_t)archive_filter_bytes(r->tar, -1))
        return 0;
    kern_refuse(r->err, 0, "cannot read the archive: it grows to more than %llu times its size",
                (unsigned long long)r->ratio);
    return image_hint_limit(r->err, "max-ratio");
}

static int send_data(struct reading *r, uint64_t size)
{
    for (uint64_t left = size; left > 0;) {
        la_ssize_t got = archive_read_data(r->tar, r->buffer, left < BLOCK ? (size_t)left : BLOCK);
        if (got <= 0)
            return -EBADMSG;
        left -= (uint64_t)got;
        r->sent += (uint64_t)got;
        int failed = judge_ratio(r);
        if (failed == 0)
            failed = image_write_all(r->out, r->buffer, (size_t)got);
        if (failed != 0)
            return failed;
    }
    return 0;
}

static int send_entry(struct reading *r, struct archive_entry *entry)
{
    const char *name = archive_entry_pathname(entry), *link = archive_entry_hardlink(entry);
    if (link == NULL && archive_entry_filetype(entry) == AE_IFLNK)
        link = archive_entry_symlink(entry);
    if (name == NULL || (link == NULL && archive_entry_filetype(entry) != AE_IFREG))
        return 0; /* nothing that an image could be made of */
    struct frame frame = {.name = (uint32_t)strlen(name),
                          .link = link != NULL ? (uint32_t)strlen(link) : 0,
                          .size = link != NULL ? 0 : (uint64_t)archive_entry_size(entry)};
    if (frame.name == 0 || frame.name >= PATH_MAX || frame.link >= PATH_MAX)
        return -ENAMETOOLONG;
    int failed = image_write_all(r->out, &frame, sizeof(frame));
    if (failed == 0)
        failed = image_write_all(r->out, name, frame.name);
    if (failed == 0 && link != NULL)
        failed = image_write_all(r->out, link, frame.link);
    return failed == 0 ? send_data(r, frame.size) : failed;
}

static int refuse_archive(struct archive *tar, struct kern_error *err)
{
    kern_refuse(err, 0, "cannot read the archive: %s", tar != NULL ? archive_error_string(tar) : "no memory");
    kern_hint(err, "kern load -i FILE reads what docker, podman, skopeo and kern save write");
    return -EINVAL;
}

static int send_all(int in, int out, uint64_t ratio, struct kern_error *err)
{
    struct archive *tar = archive_read_new();
    struct archive_entry *entry = NULL;
    auto_free char *buffer = malloc(BLOCK);
    static const struct frame last = {0};
    (void)setlocale(LC_CTYPE, "C.UTF-8"); /* names of images are plain ASCII anyway */
    if (tar == NULL || buffer == NULL || archive_read_support_filter_gzip(tar) != ARCHIVE_OK ||
        archive_read_support_filter_zstd(tar) != ARCHIVE_OK ||
        archive_read_support_filter_xz(tar) != ARCHIVE_OK ||
        archive_read_support_format_tar(tar) != ARCHIVE_OK ||
        archive_read_open_fd(tar, in, BLOCK) != ARCHIVE_OK)
        return refuse_archive(tar, err);
    struct reading r = {.tar = tar, .out = out, .ratio = ratio, .buffer = buffer, .err = err};
    for (bool begun = false;; begun = true) {
        int result = archive_read_next_header(tar, &entry);
        if (result == ARCHIVE_EOF)
            break;
        if (result != ARCHIVE_OK && result != ARCHIVE_WARN)
            return begun ? kern_refuse(err, 0, "cannot read the archive: %s", archive_error_string(tar))
                         : refuse_archive(tar, err);
        int failed = send_entry(&r, entry); /* the first cause wins */
        if (failed != 0)
            return kern_refuse(err, -failed, "cannot read the archive");
    }
    (void)archive_read_free(tar); /* all was read */
    return image_write_all(out, &last, sizeof(last));
}

_Noreturn static void read_archive(pid_t parent, int in, int out, uint64_t ratio, struct kern_error *told)
{
    const int keep[2] = {in, out};
    sys_end_with(parent);
    int failed = image_confine(-1, keep, 2, 0);
    if (failed != 0)
        kern_refuse(told, -failed, "cannot give up rights before an archive is read");
    else
        failed = send_all(IMAGE_KEPT(0), IMAGE_KEPT(1), ratio, told);
    _exit(failed == 0 ? 0 : 1);
}

/* ---- The process of the verb ---- */

static struct image_member *new_member(struct image_members *members)
{
    if (members->count == members->room) {
        size_t room = members->room > 0 ? members->room * 2 : 64;
        struct image_member *grown = reallocarray(members->member, room, sizeof(*grown));
        if (grown == NULL)
            return NULL;
        members->member = grown;
        members->room = room;
    }
    struct image_member *member = &members->member[members->count++];
    *member = (struct image_member){0};
    return member;
}

/* -EPIPE: the other side ended. */
static int take(int in, void *bytes, size_t length)
{
    char *at = bytes;
    while (length > 0) {
        ssize_t got = read(in, at, length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : -EPIPE;
        at += got;
        length -= (size_t)got;
    }
    return 0;
}

static int take_blob(struct image_store *store, int in, uint64_t size, struct image_member *member,
                     struct kern_error *err)
{
    struct image_ingest *ingest = NULL;
    auto_free char *buffer = malloc(BLOCK);
    int failed = buffer == NULL ? kern_refuse(err, ENOMEM, "cannot take a blob into the image store")
                                : image_ingest_begin(store, NULL, &ingest, err);
    for (uint64_t have = 0; failed == 0 && have < size;) {
        size_t want = size - have < BLOCK ? (size_t)(size - have) : BLOCK;
        failed = take(in, buffer, want);
        if (failed == 0)
            failed = image_ingest_write(ingest, buffer, want, err);
        have += want;
    }
    if (failed != 0) {
        image_ingest_close(ingest);
        return failed;
    }
    member->size = size;
    return image_ingest_commit_as(ingest, member->digest, err);
}

static int take_name(int in, uint32_t length, char **ret_name)
{
    auto_free char *name = calloc(1, (size_t)length + 1);
    int failed = length >= PATH_MAX ? -ENAMETOOLONG : name == NULL ? -ENOMEM : take(in, name, length);
    if (failed == 0)
        *ret_name = steal_ptr(name);
    return failed;
}

/* What an archive holds becomes a blob before anybody knows whether it is a layer, so the caps of layers count for all of it. */
static int judge_size(const struct image_store *store, uint64_t size, uint64_t *all, struct kern_error *err)
{
    const struct image_limits *limits = &store->limits;
    if (size > limits->bytes + limits->bytes / 4) {
        kern_refuse(err, 0, "cannot read the archive: a file of it is larger than %llu bytes",
                    (unsigned long long)limits->bytes);
        return image_hint_limit(err, "max-size");
    }
    *all += size;
    if (*all <= limits->all_bytes + limits->all_bytes / 4)
        return 0;
    kern_refuse(err, 0, "cannot read the archive: its files together are larger than %llu bytes",
                (unsigned long long)limits->all_bytes);
    return image_hint_limit(err, "max-image-size");
}

static int take_members(struct image_store *store, int in, struct image_members *members,
                        struct kern_error *err)
{
    for (uint64_t all = 0;;) {
        struct frame frame;
        int failed = take(in, &frame, sizeof(frame));
        if (failed != 0 || frame.name == 0)
            return failed;
        if (members->count == MEMBERS_MOST)
            return kern_refuse(err, 0, "cannot read the archive: it has more than %u files", MEMBERS_MOST);
        struct image_member *member = new_member(members);
        auto_free char *name = NULL;
        char path[PATH_MAX];
        failed = member == NULL ? -ENOMEM : take_name(in, frame.name, &name);
        if (failed == 0 && frame.link > 0)
            failed = take_name(in, frame.link, &member->link);
        if (failed != 0)
            return failed;
        const char *why = image_vet_name(name, path);
        if (why != NULL)
            return kern_refuse(err, 0, "cannot read \"%.200s\" of the archive: %s", name, why);
        member->name = strdup(path);
        failed = member->name == NULL ? -ENOMEM : 0;
        if (failed == 0 && member->link == NULL)
            failed = judge_size(store, frame.size, &all, err);
        if (failed == 0 && member->link == NULL)
            failed = take_blob(store, in, frame.size, member, err);
        if (failed != 0)
            return failed;
    }
}

static int read_tar(struct image_store *store, int in, struct image_members *members, struct kern_error *err)
{
    int pipe_fd[2];
    struct kern_error *told =
        mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED || pipe2(pipe_fd, O_CLOEXEC) != 0)
        return kern_refuse(err, errno, "cannot read the archive");
    auto_fd from = pipe_fd[0], to = pipe_fd[1];
    (void)fcntl(to, F_SETPIPE_SZ, 1 << 20); /* a smaller one is only slower */
    (void)fflush(NULL);                     /* or the child would print it, too */
    pid_t self = getpid(), pid = fork();
    if (pid == 0)
        read_archive(self, in, to, store->limits.ratio, told);
    kern_close_fd(&to);
    int failed = pid < 0 ? kern_refuse(err, errno, "cannot start a process to read the archive")
                         : take_members(store, from, members, err);
    kern_close_fd(&from);
    int code = pid > 0 ? image_wait_child(pid) : 0;
    if (code != 0 && told->category != KERN_ERROR_NONE && (failed == 0 || failed == -EPIPE)) {
        told->message[sizeof(told->message) - 1] = '\0';
        told->hint[sizeof(told->hint) - 1] = '\0';
        failed = kern_refuse(err, 0, "%s", told->message);
        if (told->hint[0] != '\0')
            kern_hint(err, "%s", told->hint);
    }
    (void)munmap(told, sizeof(*told));
    if (failed != 0 && err->category == KERN_ERROR_NONE)
        kern_refuse(err, failed == -EPIPE ? 0 : -failed, "cannot read the archive");
    return failed;
}

/* ---- A directory ---- */

static int take_file(struct image_store *store, int folder, const char *name, uint64_t *all,
                     struct image_members *members, struct kern_error *err)
{
    auto_fd fd =
        sys_open_beneath(folder, name, O_RDONLY | O_NONBLOCK, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return fd == -ENOENT ? 0
                             : kern_refuse(err, fd < 0 ? -fd : 0, "cannot read \"%s\" of the layout", name);
    int failed = judge_size(store, (uint64_t)st.st_size, all, err);
    if (failed != 0)
        return failed;
    struct image_member *member = new_member(members);
    if (member == NULL || (member->name = strdup(name)) == NULL)
        return kern_refuse(err, ENOMEM, "cannot read the layout");
    return image_take_stream(store, fd, member->digest, &member->size, err);
}

static int take_folder(struct image_store *store, int folder, struct image_members *members,
                       struct kern_error *err)
{
    uint64_t all = 0;
    int failed = take_file(store, folder, "index.json", &all, members, err);
    if (failed == 0)
        failed = take_file(store, folder, "oci-layout", &all, members, err);
    int blobs = failed != 0 ? -1
                            : sys_open_beneath(folder, "blobs/sha256", O_RDONLY | O_DIRECTORY, 0,
                                               RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    auto_dir dir = blobs >= 0 ? fdopendir(blobs) : NULL;
    if (failed == 0 && dir == NULL) {
        kern_refuse(err, 0, "cannot load a directory that is no OCI layout: it has no \"blobs/sha256\"");
        kern_hint(err, "kern import DIR REF makes an image of a root file system");
        return -EINVAL;
    }
    for (struct dirent *entry = dir != NULL ? readdir(dir) : NULL; failed == 0 && entry != NULL;
         entry = readdir(dir)) {
        char name[NAME_MAX + 32];
        if (entry->d_name[0] == '.')
            continue;
        if (members->count == MEMBERS_MOST)
            return kern_refuse(err, 0, "cannot read the layout: it has more than %u files", MEMBERS_MOST);
        (void)snprintf(name, sizeof(name), "blobs/sha256/%s", entry->d_name); /* sized for it */
        failed = take_file(store, folder, name, &all, members, err);
    }
    return failed;
}

int image_members_read(struct image_store *store, int in, struct image_members *ret_members,
                       struct kern_error *err)
{
    struct stat st;
    struct image_members members = {0};
    if (fstat(in, &st) != 0)
        return kern_refuse(err, errno, "cannot read the archive");
    int failed =
        S_ISDIR(st.st_mode) ? take_folder(store, in, &members, err) : read_tar(store, in, &members, err);
    if (failed != 0)
        image_members_clear(&members);
    else
        *ret_members = members;
    return failed;
}

/* ---- Names ---- */

static const struct image_member *by_name(const struct image_members *members, const char *name)
{
    /* The last of one name counts, as when an archive is unpacked. */
    for (size_t i = members->count; i-- > 0;)
        if (members->member[i].name != NULL && strcmp(members->member[i].name, name) == 0)
            return &members->member[i];
    return NULL;
}

/* "a/b" and a link to "../c/d" in it: "c/d". Only such steps lead up, and none above the top. */
static int resolve(const char *from, const char *link, char *ret_path)
{
    char folder[PATH_MAX];
    (void)snprintf(folder, sizeof(folder), "%s", from); /* a name of a member is shorter */
    char *slash = strrchr(folder, '/');
    *(slash != NULL ? slash : folder) = '\0';
    for (; strncmp(link, "../", 3) == 0; link += 3) {
        if (folder[0] == '\0')
            return -EINVAL;
        slash = strrchr(folder, '/');
        *(slash != NULL ? slash : folder) = '\0';
    }
    if (strlen(folder) + strlen(link) + 2 > PATH_MAX)
        return -ENAMETOOLONG;
    char joined[2 * PATH_MAX];
    (void)snprintf(joined, sizeof(joined), "%s%s%s", folder, folder[0] != '\0' ? "/" : "",
                   link); /* sized for it */
    return image_vet_name(joined, ret_path) == NULL ? 0 : -EINVAL;
}

const struct image_member *image_members_find(const struct image_members *members, const char *name)
{
    char path[PATH_MAX];
    if (image_vet_name(name, path) != NULL)
        return NULL;
    const struct image_member *member = by_name(members, path);
    for (int steps = 0; member != NULL && member->link != NULL; steps++) {
        char next[PATH_MAX];
        if (steps == 8 || resolve(member->name, member->link, next) != 0)
            return NULL;
        const struct image_member *found = by_name(members, next);
        /* A hard link names its target from the top. */
        member = found != NULL ? found : by_name(members, member->link);
    }
    return member;
}

void image_members_clear(struct image_members *members)
{
    for (size_t i = 0; i < members->count; i++) {
        free(members->member[i].name);
        free(members->member[i].link);
    }
    free(members->member);
    *members = (struct image_members){0};
}
