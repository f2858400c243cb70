/* kern doctor's probe of limits: makes the groups that a box would get, by the functions of the cgroup plugin itself, writes
 * each limit, reads it back and removes them. What is made is written down first, as a box does, so that the next run of
 * kern sweeps it should this one be killed. Runs in kern; see doctor.h. */
#include "doctor.h"

#include "box.h"
#include "cleanup.h"
#include "engine.h"
#include "registry.h"

#include "cgroup/cgroup_file.h"
#include "cgroup/cgroup_sweep.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>

#define SWAP CGROUP_KINDS

static const char *const row_names[CGROUP_KINDS + 1] = {"limit-memory", "limit-pids", "limit-cpu",
                                                        "limit-cpuset", "limit-io",   "limit-swap"};

/* The first CPU that kern may use: a list that any group accepts. */
static void wish_for_a_cpu(struct cgroup_wish *wish, char *text, size_t size)
{
    cpu_set_t allowed;
    int cpu = 0;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
        while (cpu < CPU_SETSIZE - 1 && !CPU_ISSET(cpu, &allowed))
            cpu++;
    (void)snprintf(text, size, "%d", cpu); /* a number fits */
    wish->cpuset = text;
    (void)cgroup_cpus_parse(text, &wish->mask); /* a number is a list */
}

static int make_groups(kern_box *box, struct cgroup_state *state, const struct cgroup_map *map,
                       struct kern_error *err)
{
    for (enum cgroup_kind kind = 0; kind < CGROUP_KINDS; kind++)
        state->bound[kind] = (struct cgroup_bound){.by = "none"};
    state->swap = (struct cgroup_bound){.by = "none", .why = CGROUP_NO_FILE};
    int result = cgroup_v1_make(box, state, map, err);
    if (result == 0)
        result = cgroup_v2_make(box, state, map, err);
    if (result == 0)
        cgroup_apply(state);
    return result;
}

static void remove_groups(struct cgroup_state *state)
{
    for (uint32_t i = state->group_count; i-- > 0;) {
        kern_close_fd(&state->group[i].tasks);
        kern_close_fd(&state->group[i].dir);
        (void)cgroup_sweep(state->group[i].path); /* its path is written down: a later run tries again */
    }
    state->group_count = 0;
}

static bool machine_swaps(void)
{
    auto_free char *text = core_doctor_read("/proc/swaps");
    const char *first = text != NULL ? strchr(text, '\n') : NULL; /* after the heading */
    return first != NULL && first[1] != '\0';
}

static void report(struct core_doctor *doctor, const struct core_doctor_facts *facts,
                   const struct cgroup_state *state)
{
    for (enum cgroup_kind kind = 0; kind < CGROUP_KINDS; kind++)
        core_doctor_explain_limit(core_doctor_add(doctor, row_names[kind]), &state->bound[kind], kind, facts);
    struct core_doctor_check *check = core_doctor_add(doctor, row_names[SWAP]);
    /* Without a memory group nobody could try, and what mends the one mends the other. */
    const struct cgroup_bound *memory = &state->bound[CGROUP_MEMORY];
    core_doctor_explain_limit(check, memory->why != CGROUP_BOUND ? memory : &state->swap, SWAP, facts);
    if (check->status != CORE_DOCTOR_OK && !machine_swaps()) {
        size_t used = strlen(check->detail);
        (void)snprintf(check->detail + used, sizeof(check->detail) - used,
                       "; but this machine has no swap"); /* details are far shorter than their room */
        check->fix[0] = '\0';
    }
}

static void report_untried(struct core_doctor *doctor, const char *why)
{
    for (enum cgroup_kind kind = 0; kind <= SWAP; kind++)
        core_doctor_say(core_doctor_add(doctor, row_names[kind]), CORE_DOCTOR_WARN, "not tried: %s", why);
}

static void describe(struct core_doctor *doctor, const struct cgroup_map *map)
{
    char controllers[256] = "", path[CGROUP_PATH_MAX];
    auto_fd dir = -1;
    if (map->v2.own[0] != '\0' && cgroup_place_ancestor(&map->v2, 0, path) == 0 &&
        cgroup_open_group(path, &dir) == 0)
        (void)cgroup_read(dir, "cgroup.controllers", controllers, sizeof(controllers)); /* "": none */
    core_doctor_describe_groups(core_doctor_add(doctor, "control-groups"), map, controllers);
}

/* In the name of a box, which makes the run directory and a state file there. */
static void try_limits(struct core_doctor *doctor, const struct core_doctor_facts *facts, kern_box *box,
                       const struct cgroup_map *map)
{
    char cpu[16];
    struct kern_error err = {0};
    struct cgroup_state state = {.wish = {.kinds = CGROUP_ALL,
                                          .asked = CGROUP_ALL,
                                          .memory = INT64_C(64) << 20,
                                          .pids = 16,
                                          .cpus = 0.5,
                                          .weight = 50}};
    wish_for_a_cpu(&state.wish, cpu, sizeof(cpu));
    int result = core_registry_claim(box, &err);
    if (result == 0)
        result = make_groups(box, &state, map, &err);
    if (result == 0)
        report(doctor, facts, &state);
    else
        report_untried(doctor, err.message);
    remove_groups(&state);
    core_registry_release(box);
}

void core_doctor_groups(struct core_doctor *doctor, const struct core_doctor_facts *facts)
{
    struct cgroup_map map = {0};
    struct kern_error err = {0};
    kern_box box;
    core_box_init(&box);
    struct core_doctor_check *place = core_doctor_add(doctor, "run-directory");
    if (core_registry_open(&box, &err) == 0) {
        core_doctor_say(place, CORE_DOCTOR_OK, "\"%s\", private to uid %u", box.run_path, facts->uid);
    } else {
        core_doctor_say(place, CORE_DOCTOR_FAIL, "%s", err.message);
        core_doctor_fix(place, "%s",
                        err.hint[0] != '\0' ? err.hint
                        : facts->uid == 0   ? "make /run a directory that root may write to"
                                            : "set XDG_RUNTIME_DIR to a directory of yours");
    }
    (void)cgroup_map_read(&map); /* an empty map tells the same */
    describe(doctor, &map);
    if (box.run_fd >= 0)
        try_limits(doctor, facts, &box, &map);
    else
        report_untried(doctor, "there is no run directory");
    core_box_clear(&box);
}
