/* The egress plugin: a box that may reach some hosts by name, and nothing else. prepare (kern) reads the rules and asks for a worker;
 * enter (the box's first process) routes the synthetic addresses to the box's loopback and makes the sockets that the worker will
 * serve; kern only counts what was denied. */
#include "egress_manifest.h"

#include "egress_late.h"

#include "kern/cleanup.h"
#include "kern/foundation.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

/* ---- Rules ---- */

static int read_rules(kern_box *box, struct egress_state *state, struct kern_error *err)
{
    const kern_values *options = kern_options(box);
    int from_line = kern_get_source(options, "egress-allow") == KERN_FROM_FLAG;
    int failed = egress_rules_add(state->rules, options, "egress-allow", 0, from_line, err);
    if (failed == 0)
        failed = egress_rules_add(state->rules, options, "egress-deny", 1, 0, err);
    for (uint32_t i = 0; failed == 0 && i < kern_profile_count(box); i++) {
        const kern_values *profile = kern_profile(box, i);
        /* What [egress] of kern.toml allows is a default like that of [box]; what it denies, nobody takes back. */
        if (kern_get_string(profile, "name") != NULL || !from_line)
            failed = egress_rules_add(state->rules, profile, "allow", 0, 0, err);
        if (failed == 0)
            failed = egress_rules_add(state->rules, profile, "deny", 1, 0, err);
    }
    return failed;
}

static int check_network(kern_box *box, struct kern_error *err)
{
    const char *net = kern_get_string(kern_options(box), "net");
    if (net == NULL || strcmp(net, "host") != 0)
        return 0;
    kern_refuse(err, 0, "cannot use egress rules together with --net host: that network knows no rules");
    kern_hint(err, "leave out one of the two, or say --net none");
    return -EINVAL;
}

/* ---- What was denied, in kern ---- */

/* The worker reads hostile bytes and writes this memory: nothing in it is believed beyond its bounds. */
static void tell_denials(kern_box *box, struct egress_state *state)
{
    struct egress_denials *denials = state->denials;
    uint32_t rows = denials != NULL ? atomic_load_explicit(&denials->rows, memory_order_acquire) : 0;
    for (uint32_t i = 0; i < rows && i < EGRESS_DENIAL_ROWS; i++) {
        const struct egress_denial *row = &denials->row[i];
        uint64_t count = atomic_load_explicit(&row->count, memory_order_relaxed);
        if (count <= state->told[i])
            continue;
        char name[EGRESS_DENIAL_NAME];
        memcpy(name, row->name, sizeof(name));
        name[sizeof(name) - 1] = '\0';
        kern_report_denied_host(box, name, row->port, egress_denial_text(row->reason),
                                count - state->told[i]);
        state->told[i] = count;
    }
    uint64_t more = denials != NULL ? atomic_load_explicit(&denials->more, memory_order_relaxed) : 0;
    if (more > state->told_more)
        kern_report_denied_host(box, "(others)", 0, "denied as well: there were too many to name each",
                                more - state->told_more);
    state->told_more = more;
}

static void on_news(kern_box *box, void *data, int32_t fd, uint32_t events)
{
    uint64_t ignored;
    (void)events;                                /* it was watched for EPOLLIN only */
    if (read(fd, &ignored, sizeof(ignored)) > 0) /* the memory says what is new */
        tell_denials(box, data);
}

/* ---- Hooks ---- */

static int give_environment(kern_box *box, struct kern_error *err)
{
    static const char proxy[] = "http://127.0.0.1:3128";
    static const char *const variable[][2] = {
        {"http_proxy", proxy}, {"https_proxy", proxy}, {"HTTP_PROXY", proxy},       {"HTTPS_PROXY", proxy},
        {"no_proxy", ""},      {"NO_PROXY", ""},       {"NODE_USE_ENV_PROXY", "1"},
    };
    for (size_t i = 0; i < sizeof(variable) / sizeof(variable[0]); i++) {
        int failed = kern_set_env(box, variable[i][0], variable[i][1], err);
        if (failed != 0)
            return failed;
    }
    const kern_values *options = kern_options(box);
    if (kern_get_string(options, "rootfs") == NULL && kern_get_string(options, "image") == NULL)
        return 0; /* the host root has a resolv.conf that names our resolver */
    static const char resolver[] = "nameserver " KERN_BOX_RESOLVER "\n";
    return kern_add_file(box, "/etc/resolv.conf", 0644, resolver, sizeof(resolver) - 1, err);
}

static int make_state(struct egress_state *state, struct kern_error *err)
{
    int pair[2];
    state->late.near = state->late.far = state->late.bell = state->news = -1;
    state->active = 1;
    state->rules = calloc(1, sizeof(*state->rules));
    state->slot = calloc(EGRESS_MAX_SLOTS, sizeof(*state->slot));
    state->place = calloc(EGRESS_MAX_PLACES, sizeof(*state->place));
    if (state->rules == NULL || state->slot == NULL || state->place == NULL)
        return kern_fail(err, ENOMEM, "cannot keep egress rules");
    void *shared =
        mmap(NULL, sizeof(*state->denials), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return kern_fail(err, errno, "cannot map the memory shared with the egress worker");
    state->denials = shared;
    state->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (state->news < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return kern_fail(err, errno, "cannot make the channel to the egress worker");
    state->late.near = pair[0];
    state->late.far = pair[1];
    return 0;
}

static int32_t publish_worker(kern_box *box, void *data, const int32_t *fds, uint32_t count)
{
    const struct egress_state *state = data;
    (void)box, (void)fds, (void)count; /* the state has all: it was copied when this process began */
    return egress_publish_serve(&state->publish);
}

static int prepare_rules(kern_box *box, struct egress_state *state, struct kern_error *err)
{
    int cut = 0;
    int failed = make_state(state, err);
    if (failed == 0)
        failed = check_network(box, err);
    if (failed == 0)
        failed = read_rules(box, state, err);
    if (failed == 0)
        failed = egress_plan(state, &cut, err);
    if (failed == 0 && egress_host_read(&state->files) != 0)
        failed = kern_fail(err, ENOMEM, "cannot read how the host resolves names");
    if (failed == 0)
        failed = give_environment(box, err);
    if (failed == 0)
        failed = kern_watch(box, state->news, EPOLLIN, on_news, err);
    if (failed != 0)
        return failed;
    if (cut)
        kern_note(box,
                  "egress: there is room for %d addresses and ports: the largest networks are reached "
                  "through the proxy only (http_proxy), not by connecting to them",
                  EGRESS_NET_SLOTS);
    const int32_t fds[] = {state->late.far, state->news};
    return egress_late_add(box, &state->late, state->slot_count, egress_worker, fds, 2, err);
}

static int is_listening(const struct egress_state *state, uint32_t message, const void *bytes, uint32_t index)
{
    struct egress_message head;
    (void)message; /* all of them are of the same kind */
    memcpy(&head, bytes, sizeof(head));
    return state->slot[head.slot[index]].listening;
}

static int is_port(const struct egress_state *state, uint32_t message, const void *bytes, uint32_t index)
{
    (void)state, (void)bytes, (void)index;
    return message == 0; /* what follows is the box's network */
}

static void on_event(kern_box *box, void *data, const struct kern_event *event)
{
    struct egress_state *state = data;
    if (event->event == KERN_EVENT_STARTED) {
        egress_late_wait(box, state, &state->late, sizeof(struct egress_message), is_listening);
        egress_late_wait(box, state, &state->publish.late, sizeof(uint32_t), is_port);
    } else if (event->event == KERN_EVENT_ENDED) {
        if (state->active)
            egress_late_end(box, &state->late);
        if (state->publish.active)
            egress_late_end(box, &state->publish.late);
    }
}

static int egress_prepare(kern_box *box, void *data, struct kern_error *err)
{
    struct egress_state *state = data;
    int failed = kern_has_egress(box) ? prepare_rules(box, state, err) : 0;
    if (failed == 0 && kern_get_count(kern_options(box), "publish") > 0)
        failed = egress_publish_prepare(box, &state->publish, publish_worker, err);
    if (failed == 0 && (state->active || state->publish.active))
        failed = kern_on_event(box, on_event, err);
    return failed;
}

static int egress_enter(kern_box *box, void *data, struct kern_error *err)
{
    const struct egress_state *state = data;
    int failed = state->active ? egress_make_sockets(state, err) : 0;
    if (failed == 0 && state->publish.active)
        failed = egress_publish_enter(box, &state->publish, err);
    return failed;
}

static void egress_teardown(kern_box *box, void *data, const struct kern_outcome *outcome)
{
    struct egress_state *state = data;
    (void)outcome; /* the same whatever it was */
    egress_publish_clear(box, &state->publish);
    if (!state->active)
        return;
    tell_denials(box, state);
    egress_late_clear(box, &state->late);
    if (state->news >= 0)
        kern_unwatch(box, state->news);
    kern_close_fd(&state->news);
    kern_close_fd(&state->late.near);
    kern_close_fd(&state->late.far);
    if (state->denials != NULL)
        (void)munmap(state->denials, sizeof(*state->denials)); /* was mapped with this size */
    free(state->files.host);
    free(state->rules);
    free(state->slot);
    free(state->place);
}

KERN_PLUGIN(EGRESS_MANIFEST, .state_size = sizeof(struct egress_state), .prepare = egress_prepare,
            .enter = egress_enter, .teardown = egress_teardown, .check = egress_check_profile);
