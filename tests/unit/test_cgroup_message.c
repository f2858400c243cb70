/* D-Bus messages: what is written is what the protocol says, byte by byte; what is read is bounded and checked. And for whom
 * systemd is asked. Needs no privilege. */
#include "plugins/cgroup/cgroup_manager.h"
#include "plugins/cgroup/cgroup_message.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* These bytes were made by another writer of the format. */
static const uint8_t a_call[] = {
    0x6c, 0x01, 0x00, 0x01, 0x48, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x4e, 0x00, 0x00, 0x00, 0x01,
    0x01, 0x6f, 0x00, 0x02, 0x00, 0x00, 0x00, 0x2f, 0x6f, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x01,
    0x73, 0x00, 0x03, 0x00, 0x00, 0x00, 0x61, 0x2e, 0x62, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x01, 0x73,
    0x00, 0x01, 0x00, 0x00, 0x00, 0x4d, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x06, 0x01, 0x73, 0x00,
    0x03, 0x00, 0x00, 0x00, 0x64, 0x2e, 0x65, 0x00, 0x00, 0x00, 0x00, 0x00, 0x08, 0x01, 0x67, 0x00, 0x08,
    0x73, 0x61, 0x28, 0x73, 0x76, 0x29, 0x61, 0x75, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x68, 0x69,
    0x00, 0x00, 0x2c, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x54, 0x79, 0x70,
    0x65, 0x00, 0x01, 0x73, 0x00, 0x07, 0x00, 0x00, 0x00, 0x6f, 0x6e, 0x65, 0x73, 0x68, 0x6f, 0x74, 0x00,
    0x08, 0x00, 0x00, 0x00, 0x44, 0x65, 0x6c, 0x65, 0x67, 0x61, 0x74, 0x65, 0x00, 0x01, 0x62, 0x00, 0x01,
    0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x04, 0x03, 0x02, 0x01, 0x05, 0x00, 0x00, 0x00,
};
static const uint8_t a_state[] = {
    0x6c, 0x02, 0x01, 0x01, 0x0f, 0x00, 0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x1f, 0x00, 0x00, 0x00,
    0x05, 0x01, 0x75, 0x00, 0x07, 0x00, 0x00, 0x00, 0x06, 0x01, 0x73, 0x00, 0x04, 0x00, 0x00, 0x00,
    0x3a, 0x31, 0x2e, 0x32, 0x00, 0x00, 0x00, 0x00, 0x08, 0x01, 0x67, 0x00, 0x01, 0x76, 0x00, 0x00,
    0x01, 0x73, 0x00, 0x00, 0x06, 0x00, 0x00, 0x00, 0x61, 0x63, 0x74, 0x69, 0x76, 0x65, 0x00,
};
static const uint8_t an_error[] = {
    0x6c, 0x03, 0x01, 0x01, 0x12, 0x00, 0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x4f, 0x00, 0x00, 0x00, 0x05,
    0x01, 0x75, 0x00, 0x08, 0x00, 0x00, 0x00, 0x04, 0x01, 0x73, 0x00, 0x23, 0x00, 0x00, 0x00, 0x6f, 0x72,
    0x67, 0x2e, 0x66, 0x72, 0x65, 0x65, 0x64, 0x65, 0x73, 0x6b, 0x74, 0x6f, 0x70, 0x2e, 0x73, 0x79, 0x73,
    0x74, 0x65, 0x6d, 0x64, 0x31, 0x2e, 0x55, 0x6e, 0x69, 0x74, 0x45, 0x78, 0x69, 0x73, 0x74, 0x73, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x06, 0x01, 0x73, 0x00, 0x04, 0x00, 0x00, 0x00, 0x3a, 0x31, 0x2e, 0x32, 0x00,
    0x00, 0x00, 0x00, 0x08, 0x01, 0x67, 0x00, 0x01, 0x73, 0x00, 0x00, 0x0d, 0x00, 0x00, 0x00, 0x55, 0x6e,
    0x69, 0x74, 0x20, 0x78, 0x20, 0x65, 0x78, 0x69, 0x73, 0x74, 0x73, 0x00,
};
static const uint8_t an_empty_answer[] = {
    0x6c, 0x02, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x15, 0x00,
    0x00, 0x00, 0x05, 0x01, 0x75, 0x00, 0x03, 0x00, 0x00, 0x00, 0x06, 0x01, 0x73, 0x00,
    0x04, 0x00, 0x00, 0x00, 0x3a, 0x31, 0x2e, 0x32, 0x00, 0x00, 0x00, 0x00,
};

static void write_call(void **unused)
{
    (void)unused;
    struct cgroup_message message;
    cgroup_message_call(&message, 7, "d.e", "/o", "a.b", "M", "sa(sv)au");
    cgroup_message_string(&message, "hi");
    size_t array = cgroup_message_array(&message, 8);
    cgroup_message_struct(&message);
    cgroup_message_string(&message, "Type");
    cgroup_message_signature(&message, "s");
    cgroup_message_string(&message, "oneshot");
    cgroup_message_struct(&message);
    cgroup_message_string(&message, "Delegate");
    cgroup_message_signature(&message, "b");
    cgroup_message_u32(&message, 1);
    cgroup_message_close(&message, array);
    array = cgroup_message_array(&message, 4);
    cgroup_message_u32(&message, 0x01020304);
    cgroup_message_u32(&message, 5);
    cgroup_message_close(&message, array);
    assert_int_equal(cgroup_message_end(&message), 0);
    assert_int_equal(message.length, sizeof(a_call));
    assert_memory_equal(message.bytes, a_call, sizeof(a_call));
}

static void write_too_much(void **unused)
{
    (void)unused;
    struct cgroup_message message;
    char *text = calloc(1, CGROUP_MESSAGE_MAX + 1);
    memset(text, 'x', CGROUP_MESSAGE_MAX);
    cgroup_message_call(&message, 1, NULL, "/o", "a.b", "M", "s");
    cgroup_message_string(&message, text);
    cgroup_message_close(&message, cgroup_message_array(&message, 8));
    assert_int_equal(cgroup_message_end(&message), -EMSGSIZE);
    free(text);
}

static void read_answers(void **unused)
{
    (void)unused;
    struct cgroup_reply reply;
    size_t length = 0;
    assert_int_equal(cgroup_reply_length(a_state, &length), 0);
    assert_int_equal(length, sizeof(a_state));
    assert_int_equal(cgroup_reply_parse(a_state, length, &reply), 0);
    assert_int_equal(reply.kind, CGROUP_REPLY_RETURN);
    assert_int_equal(reply.to, 7);
    assert_string_equal(reply.text, "active");
    assert_int_equal(cgroup_reply_parse(an_error, sizeof(an_error), &reply), 0);
    assert_int_equal(reply.kind, CGROUP_REPLY_ERROR);
    assert_int_equal(reply.to, 8);
    assert_string_equal(reply.error, "org.freedesktop.systemd1.UnitExists");
    assert_string_equal(reply.text, "Unit x exists");
    assert_int_equal(cgroup_reply_parse(an_empty_answer, sizeof(an_empty_answer), &reply), 0);
    assert_int_equal(reply.to, 3);
    assert_string_equal(reply.text, "");
}

/* Each byte wrong in turn, and each length short: never beyond the block (a sanitizer sees it), never a lie about kind. */
static void read_damaged(void **unused)
{
    (void)unused;
    for (size_t at = 0; at < sizeof(a_state); at++) {
        uint8_t *copy = malloc(sizeof(a_state));
        struct cgroup_reply reply = {.text = ""};
        memcpy(copy, a_state, sizeof(a_state));
        copy[at] ^= 0xff;
        if (cgroup_reply_parse(copy, sizeof(a_state), &reply) == 0)
            assert_true(strlen(reply.text) < sizeof(reply.text));
        free(copy);
        copy = malloc(at + 1);
        memcpy(copy, a_state, at);
        assert_int_equal(cgroup_reply_parse(copy, at, &reply), -EPROTO);
        free(copy);
    }
    uint8_t head[CGROUP_MESSAGE_HEAD] = {'l', 2, 0, 1, 0xff, 0xff, 0xff, 0xff};
    size_t length;
    assert_int_equal(cgroup_reply_length(head, &length), -EMSGSIZE);
    head[0] = 'B';
    assert_int_equal(cgroup_reply_length(head, &length), -EPROTO);
}

static void whom_systemd_is_asked_for(void **unused)
{
    (void)unused;
    char unit[CGROUP_PATH_MAX];
    enum cgroup_reach reach;
    static const char user_unit[] = "/user.slice/user-7.slice/user@7.service/kern.slice/kern-boxes.service";
    const struct {
        uint32_t uid;
        const char *own;
        int result;
        enum cgroup_reach reach;
    } rows[] = {
        {0, "/system.slice/cron.service", 0, CGROUP_DIRECTLY},
        {0, "", 0, CGROUP_DIRECTLY},
        {7, "/user.slice/user-7.slice/user@7.service/app.slice/t.scope", 0, CGROUP_DIRECTLY},
        {7, "/user.slice/user-7.slice/user@7.service", 0, CGROUP_DIRECTLY},
        {7, "/user.slice/user-7.slice/session-3.scope", 0, CGROUP_BY_MANAGER},
        {7, "/user.slice/user-7.slice/session-c1.scope", 0, CGROUP_BY_MANAGER},
        /* Somebody's service must end with its group; another user's tree is out of reach. */
        {7, "/system.slice/web.service", -ENOENT, 0},
        {7, "/user.slice/user-7.slice/user@7.service.d", -ENOENT, 0},
        {7, "/user.slice/user-8.slice/user@8.service/x", -ENOENT, 0},
        {7, "/user.slice/session-3.scope/x", -ENOENT, 0},
        {7, "/session-.scope", -ENOENT, 0},
        {7, "", -ENOENT, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(cgroup_manager_reach(rows[i].uid, rows[i].own, unit, &reach), rows[i].result);
        if (rows[i].result != 0)
            continue;
        assert_int_equal(reach, rows[i].reach);
        assert_string_equal(unit, rows[i].uid != 0 ? user_unit : "/kern.slice/kern-boxes.service");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write_call),
        cmocka_unit_test(write_too_much),
        cmocka_unit_test(read_answers),
        cmocka_unit_test(read_damaged),
        cmocka_unit_test(whom_systemd_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
