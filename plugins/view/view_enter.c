/* Puts the generated files into the box. Runs in enter, in the box's first process, as root of the user namespace that owns
 * its mounts (CAP_SYS_ADMIN there), perhaps on kern's memory: raw calls only.
 *
 * The files stand on the tmpfs that is the box's /sys, before it becomes read-only: a file system of their own would cost more than
 * all the rest, and a second mount of this one would, too, because its end waits for an RCU grace period. */
#include "view_state.h"

#include "kern/cleanup.h"
#include "kern/foundation.h"
#include "kern/sys.h"

#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/vfs.h>

#define CPU_FOLDER "devices/system/cpu"

int view_open_place(int root, const char *name, unsigned long magic, int *ret_fd, struct kern_error *err)
{
    struct statfs fs;
    auto_fd fd = sys_open_beneath(root, name, O_PATH | O_DIRECTORY, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (fd < 0)
        return kern_fail(err, -fd, "cannot open \"/%s\" of the box", name);
    if (fstatfs(fd, &fs) != 0 || (unsigned long)fs.f_type != magic)
        return kern_fail(err, 0, "cannot use \"/%s\" of the box: it is not what was mounted there", name);
    *ret_fd = steal_fd(&fd);
    return 0;
}

static int make_folder(int store, const char *path, struct kern_error *err)
{
    int failed = sys_mkdirat(store, path, 0755);
    return failed == 0 || failed == -EEXIST
               ? 0
               : kern_fail(err, -failed, "cannot make \"/sys/%s\" in the box", path);
}

static int make_file(int store, const char *path, const char *text, size_t length, struct kern_error *err)
{
    auto_fd file = sys_open(store, path, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, 0644);
    long put = file < 0 ? file : sys_write(file, text, length);
    if (put == (long)length)
        return 0;
    return kern_fail(err, put < 0 ? (int)-put : ENOSPC, "cannot write \"/sys/%s\" in the box", path);
}

/* Older C libraries count the folders, newer ones read the lists. */
static int make_cpu_folder(const struct view_state *state, int store, struct kern_error *err)
{
    static const char *const folders[] = {"devices", "devices/system", CPU_FOLDER};
    static const char *const lists[] = {CPU_FOLDER "/online", CPU_FOLDER "/possible", CPU_FOLDER "/present"};
    char list[4096], path[48];
    int failed = 0;
    for (size_t i = 0; failed == 0 && i < sizeof(folders) / sizeof(folders[0]); i++)
        failed = make_folder(store, folders[i], err);
    size_t length = view_cpus_format(&state->shown, list, sizeof(list));
    for (size_t i = 0; failed == 0 && i < sizeof(lists) / sizeof(lists[0]); i++)
        failed = make_file(store, lists[i], list, length, err);
    for (uint32_t cpu = view_cpus_next(&state->shown, 0); failed == 0 && cpu < VIEW_CPU_MAX;
         cpu = view_cpus_next(&state->shown, cpu + 1)) {
        (void)snprintf(path, sizeof(path), CPU_FOLDER "/cpu%u", cpu); /* fits: a number is short */
        failed = make_folder(store, path, err);
    }
    return failed;
}

static int make_files(const struct view_state *state, int store, struct kern_error *err)
{
    char path[48];
    int failed = make_folder(store, "fs", err);
    if (failed == 0)
        failed = make_folder(store, VIEW_FOLDER, err);
    for (int i = 0; failed == 0 && i < VIEW_FILES; i++) {
        (void)snprintf(path, sizeof(path), VIEW_FOLDER "/%s", view_file_name[i]); /* all names are short */
        if (state->text[i] != NULL)
            failed = make_file(store, path, state->text[i], state->length[i], err);
    }
    if (failed == 0 && state->shows_cpus)
        failed = make_cpu_folder(state, store, err);
    return failed;
}

/* Names are relative to the working directory, which is a procfs. What is bound is as read-only as /sys is. */
static int cover(const struct view_state *state, int sys, int proc, struct kern_error *err)
{
    char source[80];
    int failed = sys_fchdir(proc);
    if (failed != 0)
        return kern_fail(err, -failed, "cannot enter \"/proc\" of the box");
    for (int i = 0; i < VIEW_FILES; i++) {
        if (state->text[i] == NULL)
            continue;
        (void)snprintf(source, sizeof(source), "/proc/self/fd/%d/" VIEW_FOLDER "/%s", sys,
                       view_file_name[i]); /* all names are short */
        failed = sys_mount(source, view_file_name[i], NULL, MS_BIND, NULL);
        if (failed != 0)
            return kern_fail(err, -failed, "cannot cover \"/proc/%s\" of the box", view_file_name[i]);
    }
    return 0;
}

int view_enter(kern_box *box, void *block, struct kern_error *err)
{
    const struct view_state *state = block;
    int sys = kern_child_get_sys(box);
    auto_fd proc = -1;
    if (state->has_files == 0)
        return 0;
    if (sys < 0)
        return kern_fail(err, 0, "the box has no \"/sys\" of its own");
    int failed = view_open_place(kern_box_root(box), "proc", PROC_SUPER_MAGIC, &proc, err);
    if (failed == 0)
        failed = make_files(state, sys, err);
    if (failed == 0)
        failed = kern_child_seal_sys(box, err);
    return failed == 0 ? cover(state, sys, proc, err) : failed;
}
