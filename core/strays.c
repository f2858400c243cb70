/* Groups of boxes that no record leads to: their run directory was taken away, or a kern of old forgot them. They are empty and cost
 * a little memory each. Only `kern recover` looks for them. Host side.
 *
 * Nothing says for certain whose they are. So one is taken for a stray only if it stands where this kern would make it, has a name
 * of kern's, belongs to the caller, holds neither process nor group, and names a kern that neither lives nor has a record. A kern
 * in a pid namespace of its own has other numbers, and its groups are empty until the box is in them: hence a second look. */
#include "strays.h"

#include "cleanup.h"
#include "registry.h"

#include "cgroup/cgroup_file.h"
#include "cgroup/cgroup_manager.h"
#include "cgroup/cgroup_map.h"
#include "cgroup/cgroup_sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define SECOND_LOOK_S 1 /* a box is in its groups some milliseconds after they were made */

/* kern.NAME.PID; returns the pid, or 0. */
static int pid_in(const char *entry, char *ret_name, size_t size)
{
    size_t prefix = strlen(CGROUP_NAME_PREFIX);
    const char *dot = strrchr(entry, '.');
    if (strncmp(entry, CGROUP_NAME_PREFIX, prefix) != 0 || dot < entry + prefix + 1)
        return 0;
    size_t digits = strspn(dot + 1, "0123456789"), length = (size_t)(dot - entry) - prefix;
    if (digits == 0 || digits > 9 || dot[1 + digits] != '\0' || length >= size)
        return 0;
    (void)snprintf(ret_name, size, "%.*s", (int)length, entry + prefix); /* fits */
    return atoi(dot + 1);
}

static bool has_record(const char *name)
{
    for (unsigned place = 0; place < CORE_RUN_PLACES; place++) {
        auto_fd run = core_registry_run(place);
        auto_fd boxes = run >= 0 ? core_registry_folder(run, "boxes") : -1;
        if (boxes >= 0 && faccessat(boxes, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return true;
    }
    return false;
}

static bool is_empty(int dir)
{
    char text[16];
    struct stat st; /* a group's links are its children and two */
    return cgroup_read(dir, "cgroup.procs", text, sizeof(text)) == 0 && text[0] == '\0' &&
           fstat(dir, &st) == 0 && st.st_nlink <= 2 && st.st_uid == geteuid();
}

static bool is_stray(const char *path)
{
    char name[CORE_NAME_MAX + 1];
    auto_fd dir = -1;
    int pid = pid_in(strrchr(path, '/') + 1, name, sizeof(name));
    return pid > 0 && kill(pid, 0) != 0 && errno == ESRCH && !has_record(name) &&
           cgroup_open_group(path, &dir) == 0 && is_empty(dir);
}

void core_strays_clear(struct core_strays *strays)
{
    for (size_t i = 0; i < strays->count; i++)
        free(strays->path[i]);
    free(strays->path);
    *strays = (struct core_strays){0};
}

static void note(struct core_strays *strays, const char *path)
{
    for (size_t i = 0; i < strays->count; i++)
        if (strcmp(strays->path[i], path) == 0)
            return; /* two controllers in one hierarchy */
    char **more = realloc(strays->path, (strays->count + 1) * sizeof(*more));
    if (more == NULL)
        return;
    strays->path = more;
    strays->path[strays->count] = strdup(path);
    if (strays->path[strays->count] != NULL)
        strays->count++;
}

static void look_below(const char *parent, struct core_strays *strays)
{
    char path[CGROUP_PATH_MAX + 300];
    auto_dir entries = parent[0] != '\0' ? opendir(parent) : NULL;
    if (entries == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        int length = snprintf(path, sizeof(path), "%s/%s", parent, entry->d_name);
        if (entry->d_type == DT_DIR && length > 0 && (size_t)length < sizeof(path) && is_stray(path))
            note(strays, path);
    }
}

static void look_at(const char *parent, struct core_strays *strays)
{
    char fleet[CGROUP_PATH_MAX + 16];
    look_below(parent, strays);
    (void)snprintf(fleet, sizeof(fleet), "%s/" CGROUP_FLEET, parent); /* fits */
    if (parent[0] != '\0')
        look_below(fleet, strays);
}

void core_strays_find(struct core_strays *ret_strays)
{
    struct cgroup_map map;
    char path[CGROUP_PATH_MAX], unit[2 * CGROUP_PATH_MAX];
    enum cgroup_reach reach;
    *ret_strays = (struct core_strays){0};
    if (cgroup_map_read(&map) < 0)
        return;
    for (enum cgroup_kind kind = 0; kind < CGROUP_KINDS; kind++)
        look_at(map.v1[kind].own, ret_strays);
    look_at(map.accounts.own, ret_strays);
    if (map.v2.own[0] == '\0')
        return;
    for (uint32_t i = 0; cgroup_place_ancestor(&map.v2, i, path) == 0; i++)
        look_at(path, ret_strays);
    look_at(map.v2.own, ret_strays);
    if (cgroup_manager_reach(geteuid(), map.v2.own + map.v2.mount_length, path, &reach) != 0)
        return;
    (void)snprintf(unit, sizeof(unit), "%.*s%s", (int)map.v2.mount_length, map.v2.own, path); /* fits */
    if (strlen(unit) < CGROUP_PATH_MAX)
        look_at(unit, ret_strays);
}

void core_strays_remove(const struct core_strays *strays)
{
    const struct timespec pause = {.tv_sec = SECOND_LOOK_S};
    if (strays->count > 0)
        (void)nanosleep(&pause, NULL); /* a shorter pause only looks sooner */
    for (size_t i = 0; i < strays->count; i++)
        if (is_stray(strays->path[i]))
            (void)rmdir(strays->path[i]); /* the kernel judges as well: none that anything is in */
}
