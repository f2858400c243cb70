/* A group from systemd; see cgroup_manager.h. Runs in kern, in prepare.
 *
 * systemd enables a controller for the children of a slice only while a unit in it wants that controller, and takes it away
 * again when none does, whoever else made groups there: caps would silently fall off. A unit with Delegate=yes is left
 * alone and holds the controllers above itself as well. So all boxes of a user stand in one such unit:
 *
 *   kern.slice/kern-boxes.service/           the unit: a service that has nothing to do and stays active
 *     supervisors/                           kerns that came out of a login session
 *     kern.BOXID/                            a box
 *
 * It is asked for once; later boxes of root and of what runs below the user's manager find it and make their groups
 * there with no further word to anybody. From a login session (session-N.scope, which the system's manager rules) nobody may
 * move a process to the user's tree but the managers; there each start costs one call. Only kerns in login sessions are
 * moved: one that runs for a service is to end with that service. */
#include "cgroup_manager.h"

#include "cgroup_bus.h"
#include "cgroup_file.h"
#include "cgroup_state.h"

#include "kern/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define SLICE        "kern.slice"
#define UNIT_PATH    "/org/freedesktop/systemd1/unit/kern_2dboxes_2eservice"
#define MANAGER_PATH "/org/freedesktop/systemd1"
#define MANAGER      "org.freedesktop.systemd1.Manager"
#define SUPERVISORS  "/supervisors"
#define PATIENCE_MS  3000
#define ROUNDS_MAX   400
#define ROUND_MS     5

struct talk {
    const struct cgroup_place *place;
    struct cgroup_bus bus;
    enum cgroup_reach reach;
    uint32_t need;
    char unit[CGROUP_PATH_MAX]; /* absolute */
};

static void nap(void)
{
    struct timespec pause = {.tv_nsec = ROUND_MS * 1000000L};
    (void)nanosleep(&pause, NULL); /* an early return only means an early look */
}

static int is_session(const char *relative)
{
    const char *last = strrchr(relative, '/');
    size_t length = last != NULL ? strlen(last) : 0;
    return length > strlen("/session-.scope") && strncmp(last, "/session-", 9) == 0 &&
           strcmp(last + length - 6, ".scope") == 0;
}

int cgroup_manager_reach(uint32_t uid, const char *relative, char ret_unit[CGROUP_PATH_MAX],
                         enum cgroup_reach *ret_reach)
{
    char base[128] = "";
    if (uid != 0)
        (void)snprintf(base, sizeof(base), "/user.slice/user-%u.slice/user@%u.service", uid, uid); /* fits */
    size_t length = strlen(base);
    int below = strncmp(relative, base, length) == 0 && (relative[length] == '/' || relative[length] == '\0');
    if (!below && !is_session(relative))
        return -ENOENT;
    (void)snprintf(ret_unit, CGROUP_PATH_MAX, "%s/" SLICE "/" CGROUP_UNIT, base); /* fits */
    *ret_reach = below ? CGROUP_DIRECTLY : CGROUP_BY_MANAGER;
    return 0;
}

/* ---- The group ---- */

static int enable(int unit, uint32_t need)
{
    char list[256];
    int result = cgroup_read(unit, "cgroup.controllers", list, sizeof(list));
    if (result < 0)
        return result;
    uint32_t there = cgroup_kinds_named(list, need);
    for (enum cgroup_kind kind = 0; kind < CGROUP_KINDS; kind++) {
        char order[16];
        if (!(there & CGROUP_BIT(kind)))
            continue;
        (void)snprintf(order, sizeof(order), "+%s",
                       cgroup_controller_v2(kind)); /* the longest is "+memory" */
        result = cgroup_write(unit, "cgroup.subtree_control", order);
        if (result < 0)
            return result;
    }
    return 0;
}

/* The unit's group hands on all that it has of what is needed. */
static int is_ready(const struct talk *talk)
{
    char list[256];
    auto_fd unit = -1;
    if (cgroup_open_group(talk->unit, &unit) < 0 ||
        cgroup_read(unit, "cgroup.controllers", list, sizeof(list)) < 0)
        return 0;
    uint32_t there = cgroup_kinds_named(list, talk->need);
    return there != 0 && cgroup_read(unit, "cgroup.subtree_control", list, sizeof(list)) == 0 &&
           cgroup_kinds_named(list, there) == there;
}

static int own_group_is(const struct talk *talk, const char *below)
{
    struct cgroup_map map;
    size_t length = strlen(talk->unit);
    return cgroup_map_read(&map) == 0 && strncmp(map.v2.own, talk->unit, length) == 0 &&
           strcmp(map.v2.own + length, below) == 0;
}

/* ---- What is said ---- */

static int attach(struct talk *talk, const char *below)
{
    struct cgroup_message message;
    struct cgroup_reply reply;
    cgroup_bus_call(&talk->bus, &message, MANAGER_PATH, MANAGER, "AttachProcessesToUnit", "ssau");
    cgroup_message_string(&message, CGROUP_UNIT);
    cgroup_message_string(&message, below);
    size_t pids = cgroup_message_array(&message, 4);
    cgroup_message_u32(&message, (uint32_t)getpid());
    cgroup_message_close(&message, pids);
    int result = cgroup_bus_ask(&talk->bus, &message, &reply);
    if (result < 0)
        return result;
    return reply.kind == CGROUP_REPLY_RETURN && own_group_is(talk, below) ? 0 : -EACCES;
}

static void add_text(struct cgroup_message *message, const char *name, const char *text)
{
    cgroup_message_struct(message);
    cgroup_message_string(message, name);
    cgroup_message_signature(message, "s");
    cgroup_message_string(message, text);
}

static void add_yes(struct cgroup_message *message, const char *name)
{
    cgroup_message_struct(message);
    cgroup_message_string(message, name);
    cgroup_message_signature(message, "b");
    cgroup_message_u32(message, 1);
}

/* A service needs a command; this one is over at once, and the unit stays. */
static void add_command(struct cgroup_message *message)
{
    cgroup_message_struct(message);
    cgroup_message_string(message, "ExecStart");
    cgroup_message_signature(message, "a(sasb)");
    size_t commands = cgroup_message_array(message, 8);
    cgroup_message_struct(message);
    cgroup_message_string(message, "/bin/sh");
    size_t words = cgroup_message_array(message, 4);
    cgroup_message_string(message, "/bin/sh");
    cgroup_message_string(message, "-c");
    cgroup_message_string(message, ":");
    cgroup_message_close(message, words);
    cgroup_message_u32(message, 0);
    cgroup_message_close(message, commands);
}

static int start_unit(struct talk *talk)
{
    struct cgroup_message message;
    struct cgroup_reply reply;
    cgroup_bus_call(&talk->bus, &message, MANAGER_PATH, MANAGER, "StartTransientUnit", "ssa(sv)a(sa(sv))");
    cgroup_message_string(&message, CGROUP_UNIT);
    cgroup_message_string(&message, "fail");
    size_t properties = cgroup_message_array(&message, 8);
    add_text(&message, "Description", "the control groups of kern's boxes");
    add_text(&message, "Slice", SLICE);
    add_text(&message, "Type", "oneshot");
    add_text(&message, "CollectMode", "inactive-or-failed");
    add_yes(&message, "RemainAfterExit");
    add_yes(&message, "Delegate");
    add_command(&message);
    cgroup_message_close(&message, properties);
    cgroup_message_close(&message, cgroup_message_array(&message, 8)); /* no further units */
    int result = cgroup_bus_ask(&talk->bus, &message, &reply);
    if (result < 0)
        return result;
    bool there =
        reply.kind == CGROUP_REPLY_ERROR && strcmp(reply.error, "org.freedesktop.systemd1.UnitExists") == 0;
    return reply.kind == CGROUP_REPLY_RETURN || there ? 0 : -EACCES;
}

static int get(struct talk *talk, const char *interface, const char *name, struct cgroup_reply *ret_reply)
{
    struct cgroup_message message;
    cgroup_bus_call(&talk->bus, &message, UNIT_PATH, "org.freedesktop.DBus.Properties", "Get", "ss");
    cgroup_message_string(&message, interface);
    cgroup_message_string(&message, name);
    return cgroup_bus_ask(&talk->bus, &message, ret_reply);
}

/* Its command has ended: until then its group may be taken away once more. */
static int await_unit(struct talk *talk)
{
    for (int round = 0; round < ROUNDS_MAX; round++) {
        struct cgroup_reply reply;
        int result = get(talk, "org.freedesktop.systemd1.Unit", "ActiveState", &reply);
        if (result < 0)
            return result;
        if (strcmp(reply.text, "active") == 0)
            return 0;
        if (reply.kind == CGROUP_REPLY_RETURN && strcmp(reply.text, "failed") == 0)
            return -ECANCELED;
        nap();
    }
    return -ETIMEDOUT;
}

/* ---- The way in ---- */

static int move_to(const char *group)
{
    auto_fd dir = -1;
    int result = cgroup_open_group(group, &dir);
    return result < 0 ? result : cgroup_write(dir, "cgroup.procs", "0");
}

/* The unit has no group until somebody is in it: this process is, and makes it what it is to be. */
static int furnish(struct talk *talk)
{
    char supervisors[CGROUP_PATH_MAX + sizeof(SUPERVISORS)];
    (void)snprintf(supervisors, sizeof(supervisors), "%s" SUPERVISORS, talk->unit); /* sized for it */
    /* By hand where a group is left of earlier: nobody can be put into one that hands controllers on. */
    if (mkdir(supervisors, 0755) < 0 && errno != EEXIST && errno != ENOENT)
        return -errno;
    int result = attach(talk, SUPERVISORS);
    if (result < 0) {
        result = attach(talk, "");
        if (result == 0 && mkdir(supervisors, 0755) < 0 && errno != EEXIST)
            result = -errno;
        if (result == 0)
            result = move_to(supervisors);
    }
    auto_fd unit = -1;
    if (result == 0)
        result = cgroup_open_group(talk->unit, &unit);
    if (result == 0)
        result = enable(unit, CGROUP_ALL);
    if (talk->reach == CGROUP_DIRECTLY) {
        int back = move_to(talk->place->own); /* it was there a moment ago */
        result = result < 0 ? result : back;
    }
    return result;
}

/* What is there already will do. */
static int is_found(struct talk *talk)
{
    if (talk->reach == CGROUP_BY_MANAGER && (talk->bus.fd < 0 || attach(talk, SUPERVISORS) < 0))
        return 0;
    return is_ready(talk);
}

static int open_manager(struct talk *talk, const char *folder)
{
    char manager[96], bus[96];
    (void)snprintf(manager, sizeof(manager), "%s/private", folder); /* all of these fit */
    if (geteuid() == 0)
        (void)snprintf(bus, sizeof(bus), "/run/dbus/system_bus_socket");
    else
        (void)snprintf(bus, sizeof(bus), "/run/user/%u/bus", (unsigned)geteuid());
    int result = cgroup_bus_open(manager, bus, PATIENCE_MS, &talk->bus);
    /* Nobody there: a user without a manager of their own, a container that shows the host's /run. */
    return result == -ECONNREFUSED || result == -EACCES ? -ENOENT : result;
}

/* Two first boxes at once: one makes the unit, the other finds it. Without the lock they get in each other's way. */
static int lock_manager(const char *folder)
{
    auto_fd lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int round = 0; lock >= 0 && round < ROUNDS_MAX && flock(lock, LOCK_EX | LOCK_NB) < 0; round++)
        nap();
    return steal_fd(&lock);
}

static int enter_unit(struct talk *talk)
{
    char folder[64];
    if (geteuid() == 0)
        (void)snprintf(folder, sizeof(folder), "/run/systemd"); /* both fit */
    else
        (void)snprintf(folder, sizeof(folder), "/run/user/%u/systemd", (unsigned)geteuid());
    int result = open_manager(talk, folder);
    if (result < 0 || is_found(talk))
        return result;
    auto_fd lock = lock_manager(folder);
    (void)lock;                   /* held to the end; clang does not count that as a use */
    cgroup_bus_close(&talk->bus); /* its patience may be used up */
    result = open_manager(talk, folder);
    if (result < 0 || is_found(talk))
        return result;
    result = start_unit(talk);
    if (result == 0)
        result = await_unit(talk);
    return result == 0 ? furnish(talk) : result;
}

int cgroup_manager_parent(const struct cgroup_place *place, uint32_t need, char ret_path[CGROUP_PATH_MAX])
{
    const char *unwanted = getenv("KERN_NO_SCOPE");
    struct talk talk = {.place = place, .need = need, .bus = {.fd = -1}};
    char unit[CGROUP_PATH_MAX];
    if ((unwanted != NULL && unwanted[0] != '\0' && strcmp(unwanted, "0") != 0) || place->read_only ||
        access("/run/systemd/system", F_OK) < 0)
        return -ENOENT;
    int result = cgroup_manager_reach(geteuid(), place->own + place->mount_length, unit, &talk.reach);
    if (result < 0)
        return result;
    int length = snprintf(talk.unit, sizeof(talk.unit), "%.*s%s", (int)place->mount_length, place->own, unit);
    if (length < 0 || (size_t)length >= sizeof(talk.unit))
        return -ENAMETOOLONG;
    if (!is_found(&talk))
        result = enter_unit(&talk);
    cgroup_bus_close(&talk.bus);
    if (result < 0)
        return result;
    memcpy(ret_path, talk.unit, (size_t)length + 1);
    return 0;
}
