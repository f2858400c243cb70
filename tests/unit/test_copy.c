/* What kern makes of the stream of `kern cp`: good ones arrive, and no bad one writes anything outside its place. */
#include "copy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct stream {
    char folder[40], place[64]; /* `place` is to be made in `folder` */
    struct core_copy_io sender, receiver;
    struct kern_error err;
    int result;
    unsigned left;
};

static void begin(struct stream *stream)
{
    int pair[2];
    *stream = (struct stream){.folder = "/tmp/kern-copy-XXXXXX"};
    assert_non_null(mkdtemp(stream->folder));
    (void)snprintf(stream->place, sizeof(stream->place), "%s/place", stream->folder); /* fits */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(core_copy_open(&stream->sender, pair[0]), 0);
    assert_int_equal(core_copy_open(&stream->receiver, pair[1]), 0);
}

static void send_record(struct stream *stream, uint32_t kind, uint64_t size, const char *name)
{
    const struct core_copy_record record = {.kind = kind, .mode = 06777, .size = size};
    assert_int_equal(core_copy_record(&stream->sender, &record, name), 0);
}

static void send_bytes(struct stream *stream, const char *bytes)
{
    assert_int_equal(core_copy_write(&stream->sender, bytes, strlen(bytes)), 0);
}

static void count_left(void *context, const char *text)
{
    struct stream *stream = context;
    stream->left += text[0] != '\0';
}

static void receive(struct stream *stream)
{
    const struct core_copy_place here = {.root = -1};
    assert_int_equal(core_copy_flush(&stream->sender), 0);
    assert_int_equal(shutdown(stream->sender.fd, SHUT_WR), 0);
    stream->result =
        core_copy_receive(&here, stream->place, "base", &stream->receiver, count_left, stream, &stream->err);
}

static void end(struct stream *stream)
{
    char command[80];
    core_copy_close(&stream->sender);
    core_copy_close(&stream->receiver);
    (void)snprintf(command, sizeof(command), "rm -rf %s", stream->folder); /* fits */
    assert_int_equal(system(command), 0);
}

static mode_t mode_of(const struct stream *stream, const char *name)
{
    char path[128];
    struct stat st;
    (void)snprintf(path, sizeof(path), "%s/%s", stream->folder, name); /* fits */
    return lstat(path, &st) == 0 ? st.st_mode : 0;
}

static void a_tree_arrives(void **state)
{
    (void)state; /* no fixture */
    struct stream stream;
    begin(&stream);
    send_record(&stream, CORE_COPY_FOLDER, 0, NULL);
    send_record(&stream, CORE_COPY_FILE, 3, "file");
    send_record(&stream, CORE_COPY_DATA, 3, NULL);
    send_bytes(&stream, "abc");
    send_record(&stream, CORE_COPY_HOLE, 5, NULL);
    send_record(&stream, CORE_COPY_CLOSE, 0, NULL);
    send_record(&stream, CORE_COPY_LEFT, 4, NULL);
    send_bytes(&stream, "gone");
    send_record(&stream, CORE_COPY_LINK, 4, "link");
    send_bytes(&stream, "/etc");
    send_record(&stream, CORE_COPY_LEAVE, 0, NULL);
    send_record(&stream, CORE_COPY_DONE, 0, NULL);
    receive(&stream);
    assert_int_equal(stream.result, 0);
    assert_int_equal(stream.left, 1);
    assert_int_equal(mode_of(&stream, "place"), S_IFDIR | 0777); /* and no more than that */
    assert_int_equal(mode_of(&stream, "place/file"), S_IFREG | 0777);
    assert_int_equal(mode_of(&stream, "place/link") & S_IFMT, S_IFLNK);
    end(&stream);
}

static void names_that_lead_elsewhere(void **state)
{
    (void)state; /* no fixture */
    static const char *const names[] = {"", ".", "..", "../up", "/tmp/kern-copy-up", "a/b"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        static const uint32_t kinds[] = {CORE_COPY_FILE, CORE_COPY_FOLDER, CORE_COPY_LINK};
        for (size_t k = 0; k < 3; k++) {
            struct stream stream;
            begin(&stream);
            send_record(&stream, CORE_COPY_FOLDER, 0, NULL);
            send_record(&stream, kinds[k], kinds[k] == CORE_COPY_LINK ? 1 : 0, names[i]);
            send_bytes(&stream, "x");
            receive(&stream);
            assert_true(stream.result < 0);
            assert_int_equal(mode_of(&stream, "up"), 0);
            end(&stream);
        }
    }
    assert_int_not_equal(access("/tmp/kern-copy-up", F_OK), 0);
}

/* A link first, and then a name below it. */
static void links_are_not_entered(void **state)
{
    (void)state; /* no fixture */
    struct stream stream;
    begin(&stream);
    send_record(&stream, CORE_COPY_FOLDER, 0, NULL);
    send_record(&stream, CORE_COPY_LINK, 2, "link");
    send_bytes(&stream, "..");
    send_record(&stream, CORE_COPY_FOLDER, 0, "link");
    send_record(&stream, CORE_COPY_FILE, 0, "up");
    send_record(&stream, CORE_COPY_CLOSE, 0, NULL);
    receive(&stream);
    assert_true(stream.result < 0);
    assert_int_equal(mode_of(&stream, "up"), 0);
    end(&stream);
}

static void what_makes_no_sense(void **state)
{
    (void)state; /* no fixture */
    static const struct {
        uint32_t kind;
        uint64_t size;
        const char *name;
    } second[] = {
        {CORE_COPY_LEAVE, 0, NULL},   {CORE_COPY_PLACE, 0, "x"},       {99, 0, "x"},
        {CORE_COPY_DONE, 0, NULL},    {CORE_COPY_DATA, 1, NULL},       {CORE_COPY_LINK, 1 << 20, "x"},
        {CORE_COPY_LEFT, 1 << 20, 0}, {CORE_COPY_ERROR, 1 << 20, NULL}};
    for (size_t i = 0; i < sizeof(second) / sizeof(second[0]); i++) {
        struct stream stream;
        begin(&stream);
        send_record(&stream, CORE_COPY_FOLDER, 0, NULL);
        send_record(&stream, second[i].kind, second[i].size, second[i].name);
        receive(&stream);
        assert_true(stream.result < 0);
        end(&stream);
    }
    static const uint64_t holes[] = {UINT64_MAX, (uint64_t)INT64_MAX + 1};
    for (size_t i = 0; i < 2; i++) {
        struct stream stream;
        begin(&stream);
        send_record(&stream, CORE_COPY_FILE, 0, NULL);
        send_record(&stream, CORE_COPY_HOLE, 1, NULL);
        send_record(&stream, CORE_COPY_HOLE, holes[i], NULL);
        send_record(&stream, CORE_COPY_CLOSE, 0, NULL);
        receive(&stream);
        assert_true(stream.result < 0);
        end(&stream);
    }
}

static void too_deep(void **state)
{
    (void)state; /* no fixture */
    struct stream stream;
    begin(&stream);
    send_record(&stream, CORE_COPY_FOLDER, 0, NULL);
    for (int i = 0; i < CORE_COPY_DEEPEST; i++)
        send_record(&stream, CORE_COPY_FOLDER, 0, "d");
    receive(&stream);
    assert_true(stream.result < 0);
    end(&stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_arrives),
        cmocka_unit_test(names_that_lead_elsewhere),
        cmocka_unit_test(links_are_not_entered),
        cmocka_unit_test(what_makes_no_sense),
        cmocka_unit_test(too_deep),
    };
    return cmocka_run_group_tests_name("copy", tests, NULL, NULL);
}
