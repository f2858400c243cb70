/* What the two halves of the fake box share: its structure. The first half is what a test calls, the second what the plugin calls. In
 * a test program. */
#ifndef SDK_FAKE_BOX_H
#define SDK_FAKE_BOX_H

#include "kern/plugin_test.h"

#include "options.h"

#define FAKE_PROFILES 16
#define FAKE_MANY     32

struct fake_profile {
    char *name;
    struct kern_values values;
};

struct fake_wish {
    const char *function;
    uint32_t nth, seen;
    int code;
};

struct kern_box {
    const struct kern_plugin *plugin;
    void *state;
    const char *name;
    int32_t strict, bare;
    int root_fd;
    struct kern_values options;
    struct fake_profile profile[FAKE_PROFILES];
    uint32_t profile_count;
    struct kern_error err;
    char **line;
    uint32_t line_count;
    struct fake_wish wish[FAKE_MANY];
    uint32_t wish_count;
    struct {
        int32_t fd;
        kern_watch_fn fn;
    } watch[FAKE_MANY];
    uint32_t watch_count;
    struct {
        uint32_t tag;
        kern_fd_fn fn;
    } receiver[FAKE_MANY];
    uint32_t receiver_count;
    struct {
        int32_t call;
        kern_call_fn fn;
    } handler[FAKE_MANY];
    uint32_t handler_count;
    kern_event_fn on_event;
    kern_worker_fn worker;
    int32_t worker_fd[16];
    uint32_t worker_fd_count;
};

__attribute__((format(printf, 2, 3))) void fake_line(kern_box *box, const char *format, ...);
/* Not 0 when the test wants this call of the function to fail; err says so. */
int fake_fails(kern_box *box, const char *function, struct kern_error *err);

#endif
