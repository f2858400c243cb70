/* `kern cp`: files and trees into a living box and out of it. What touches the box's files is a process in the box with the rights of
 * its command; this one touches the host's, and speaks with it over a socket (copy.h). Host side. */
#include "cmd.h"

#include "cleanup.h"
#include "client.h"
#include "copy.h"
#include "exec_client.h"
#include "log.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

struct copy {
    char box[CORE_NAME_MAX + 1];
    const char *host, *inside; /* the two paths */
    bool into_box;
    int client; /* the connection to the supervisor */
    bool left_out;
};

/* BOX:PATH. A path of the host that has a colon is written with a / before it. */
static bool is_in_box(const char *word, struct copy *copy, const char **ret_path)
{
    size_t length = strcspn(word, ":/");
    if (word[length] != ':' || length == 0 || length > CORE_NAME_MAX)
        return false;
    memcpy(copy->box, word, length);
    copy->box[length] = '\0';
    *ret_path = word[length + 1] != '\0' ? word + length + 1 : "/";
    return true;
}

static int read_words(char **word, struct copy *copy, struct kern_error *err)
{
    bool from = is_in_box(word[0], copy, &copy->inside);
    const char *other = NULL;
    copy->into_box = is_in_box(word[1], copy, from ? &other : &copy->inside);
    copy->host = from ? word[1] : word[0];
    if (from && copy->into_box) {
        kern_refuse(err, 0, "kern cp copies between the host and a box, not between two boxes");
        kern_hint(err, "copy to a directory of the host, and from there");
        return -EINVAL;
    }
    if (!from && !copy->into_box) {
        kern_refuse(err, 0, "kern cp takes one path in a box, as BOX:PATH");
        kern_hint(err, "kern cp web:/etc/motd . or kern cp page.html web:/srv/");
        return -EINVAL;
    }
    if (copy->host[0] == '\0')
        return kern_refuse(err, 0, "kern cp: an empty path names nothing");
    return 0;
}

/* What a tree is called where it arrives: the last name of its path; "" where only what is in it is meant. */
static void base_of(const char *path, char *ret_base, size_t size)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    (void)snprintf(ret_base, size, "%.*s", (int)(end - begin), path + begin); /* a longer one is no name */
    if (strcmp(ret_base, ".") == 0 || strcmp(ret_base, "..") == 0 || strcmp(ret_base, "/") == 0)
        ret_base[0] = '\0';
}

static void tell_left(void *context, const char *text)
{
    struct copy *copy = context;
    copy->left_out = true;
    core_log_failure("%s", text);
}

/* ---- The process in the box ---- */

static int await_news(const struct copy *copy, struct core_exec_told *ret_told)
{
    ssize_t got;
    while ((got = recv(copy->client, ret_told, sizeof(*ret_told), 0)) < 0 && errno == EINTR)
        continue;
    return got == (ssize_t)sizeof(*ret_told) ? 0 : -EPIPE;
}

static int ask(const struct copy *copy, const char *base, int stream, struct kern_error *err)
{
    struct core_list words = {0};
    auto_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int streams[3] = {stream, null, null};
    const char *const word[] = {copy->into_box ? "put" : "get", copy->inside, base, "/"}; /* with a workdir */
    int failed = null < 0 ? kern_refuse(err, errno, "cannot open /dev/null") : 0;
    for (size_t i = 0; failed == 0 && i < sizeof(word) / sizeof(word[0]); i++)
        if (core_list_add(&words, word[i]) != 0)
            failed = kern_refuse(err, ENOMEM, "cannot ask the supervisor of box '%s'", copy->box);
    struct core_exec_ask request = {
        .word = "exec", .version = KERN_VERSION, .flags = CORE_EXEC_COPY, .arguments = 3};
    if (failed == 0)
        failed = core_exec_ask(copy->client, copy->box, &request, &words, streams, err);
    core_list_clear(&words);
    return failed;
}

static int begin(struct copy *copy, const char *base, int *ret_stream, struct kern_error *err)
{
    cleanup(core_record_clear) struct core_record record = {0};
    struct core_exec_told told = {0};
    int pair[2];
    int failed = core_record_find(copy->box, &record, err);
    if (failed == 0)
        failed = core_client_connect(&record, &copy->client, err);
    if (failed == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        failed = kern_refuse(err, errno, "cannot make a channel to box '%s'", copy->box);
    if (failed != 0)
        return failed;
    *ret_stream = pair[0];
    auto_fd theirs = pair[1];
    failed = ask(copy, base, theirs, err);
    if (failed == 0 && await_news(copy, &told) != 0)
        failed = kern_refuse(err, 0, "box '%s' has ended", copy->box);
    if (failed == 0 && told.news != CORE_EXEC_STARTED) {
        *err = told.error;
        failed = err->category != KERN_ERROR_NONE ? -EIO
                                                  : kern_refuse(err, 0, "cannot copy in box '%s'", copy->box);
    }
    return failed;
}

/* A process that was killed says nothing on the channel. */
static int explain_end(struct copy *copy, struct kern_error *err)
{
    struct core_exec_told told = {0};
    if (await_news(copy, &told) != 0 || told.news != CORE_EXEC_ENDED || (told.status & 0x7f) == 0)
        return kern_refuse(err, 0, "the copy to box '%s' was cut off", copy->box);
    kern_refuse(err, 0, "the copy was ended in box '%s' by signal %d", copy->box, told.status & 0x7f);
    kern_hint(err, "what is copied into a file system in memory counts for the box's memory cap");
    return -EIO;
}

/* The last word of who receives in the box, which knows better why it stopped than who found the channel closed. */
static int await_done(struct copy *copy, struct core_copy_io *io, struct kern_error *err)
{
    struct core_copy_record record;
    char text[1024];
    for (;;) {
        if (core_copy_read(io, &record, sizeof(record)) != 0)
            return explain_end(copy, err);
        if (record.kind == CORE_COPY_DONE)
            return 0;
        if (record.kind == CORE_COPY_PLACE) /* of a tree whose first words did not get through */
            continue;
        if (record.kind != CORE_COPY_ERROR || core_copy_read_text(io, &record, text, sizeof(text)) != 0)
            return explain_end(copy, err);
        return kern_refuse(err, 0, "%s", text);
    }
}

static int send_all(struct copy *copy, struct core_copy_io *io, struct kern_error *err)
{
    const struct core_copy_place here = {.root = -1};
    struct kern_error own = {0};
    int failed = core_copy_send(&here, copy->host, io, tell_left, copy, &own);
    bool knows = failed != 0 && own.category == KERN_ERROR_REFUSED;
    if (!knows)
        failed = await_done(copy, io, err);
    if (knows)
        *err = own;
    return failed;
}

static int transfer(struct copy *copy, const char *base, int stream, struct kern_error *err)
{
    const struct core_copy_place here = {.root = -1};
    struct core_copy_io io;
    int failed = core_copy_open(&io, stream);
    if (failed != 0)
        kern_refuse(err, -failed, "cannot copy");
    else
        failed = copy->into_box ? send_all(copy, &io, err)
                                : core_copy_receive(&here, copy->host, base, &io, tell_left, copy, err);
    core_copy_close(&io);
    return failed;
}

static int copy_all(char **word, struct copy *copy, struct kern_error *err)
{
    char base[NAME_MAX + 2];
    int stream = -1;
    int failed = read_words(word, copy, err);
    if (failed != 0)
        return failed;
    base_of(copy->into_box ? copy->host : copy->inside, base, sizeof(base));
    failed = begin(copy, base, &stream, err);
    return failed == 0 ? transfer(copy, base, stream, err) : failed;
}

int core_cmd_cp(struct core_call *call, struct kern_error *err)
{
    struct copy copy = {.client = -1};
    int failed = core_secure_descriptors(err);
    if (failed == 0)
        failed = copy_all(call->word, &copy, err);
    kern_close_fd(&copy.client);
    return failed != 0 ? failed : copy.left_out;
}
