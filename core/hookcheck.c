/* What a hook left behind that it should not have, for KERN_DEBUG=plugins; see guard.h. Reads /proc, so it is slow, and only for
 * whoever writes a plugin. Host side. */
#include "guard.h"

#include "cleanup.h"

#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static uint64_t hex_after(const char *text, const char *field, int base)
{
    const char *at = strstr(text, field);
    return at != NULL ? strtoull(at + strlen(field), NULL, base) : 0;
}

static int open_proc(int proc, const char *name)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%s", name); /* fits: names are short */
    return proc >= 0 ? openat(proc, name, O_RDONLY | O_CLOEXEC) : open(path, O_RDONLY | O_CLOEXEC);
}

static void read_text(int proc, const char *name, char *ret_text, size_t size)
{
    auto_fd fd = open_proc(proc, name);
    ssize_t got = fd < 0 ? 0 : read(fd, ret_text, size - 1);
    ret_text[got > 0 ? got : 0] = '\0';
}

static uint32_t count_words(const char *text)
{
    uint32_t count = 0;
    for (; *text != '\0'; text += *text == ' ')
        count += strcspn(text, " ") > 0, text += strcspn(text, " ");
    return count;
}

/* One number for what all signals do: a handler in the place of kern's own changes no bit of /proc/self/status. */
static uint64_t sum_handlers(void)
{
    uint64_t sum = 0;
    struct sigaction now;
    for (int number = 1; number < NSIG; number++)
        if (sigaction(number, NULL, &now) == 0)
            sum = sum * 31 + (uintptr_t)now.sa_handler;
    return sum;
}

void core_hookcheck_before(int proc, struct core_hook_state *ret_before)
{
    struct core_hook_state state = {0};
    char text[4096];
    read_text(proc, "self/status", text, sizeof(text));
    state.mask = hex_after(text, "\nSigBlk:", 16);
    state.ignored = hex_after(text, "\nSigIgn:", 16);
    /* 32 and 33 are libc's own, for threads. */
    state.caught = hex_after(text, "\nSigCgt:", 16) & ~(UINT64_C(3) << 31);
    state.handlers = sum_handlers();
    state.threads = (uint32_t)hex_after(text, "\nThreads:", 10);
    state.umask = (uint32_t)hex_after(text, "\nUmask:", 8);
    read_text(proc, "thread-self/children", text, sizeof(text));
    state.children = count_words(text);
    if (getcwd(state.folder, sizeof(state.folder)) == NULL)
        state.folder[0] = '\0'; /* a folder that is gone is the same each time */
    const char *locale = setlocale(LC_ALL, NULL);
    (void)snprintf(state.locale, sizeof(state.locale), "%s", locale != NULL ? locale : ""); /* cut alike */
    *ret_before = state;
}

uint32_t core_hookcheck_differs(int proc, const struct core_hook_state *before)
{
    struct core_hook_state now;
    core_hookcheck_before(proc, &now);
    const bool differs[] = {
        now.threads > before->threads,
        now.children > before->children,
        now.mask != before->mask,
        now.ignored != before->ignored || now.caught != before->caught || now.handlers != before->handlers,
        now.umask != before->umask,
        strcmp(now.folder, before->folder) != 0,
        strcmp(now.locale, before->locale) != 0,
    };
    uint32_t bits = 0;
    for (size_t i = 0; i < sizeof(differs) / sizeof(differs[0]); i++)
        bits |= (uint32_t)differs[i] << i;
    return bits;
}

void core_hookcheck_tell(kern_box *box, const char *plugin, const char *phase, uint32_t differs)
{
    static const char *const words[] = {"left a thread running",   "left a child process",
                                        "changed the signal mask", "changed what signals do",
                                        "changed the umask",       "changed the working directory",
                                        "changed the locale"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if ((differs >> i & 1) != 0)
            kern_warn(box, "plugin %s: %s %s", plugin, phase, words[i]);
}

/* ---- Descriptors: the first 1024 numbers are enough to find a leak ---- */

static bool in_set(const uint64_t set[16], int fd)
{
    return (set[fd / 64] >> (fd % 64) & 1) != 0;
}

void core_hookcheck_mark(uint64_t held[16])
{
    memset(held, 0, 16 * sizeof(held[0]));
    for (int fd = 0; fd < 1024; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            held[fd / 64] |= UINT64_C(1) << (fd % 64);
}

static void name_descriptor(int proc, int fd, char *ret_name, size_t size)
{
    char link[40];
    (void)snprintf(link, sizeof(link), "%sself/fd/%d", proc >= 0 ? "" : "/proc/",
                   fd);                                          /* fits: a number is short */
    ssize_t length = readlinkat(proc, link, ret_name, size - 1); /* an absolute path needs no place */
    ret_name[length > 0 ? length : 0] = '\0';
}

void core_hookcheck_new(kern_box *box, const struct core_plugin *plugin, const uint64_t held[16],
                        uint64_t ret_own[16])
{
    char name[200];
    core_hookcheck_mark(ret_own);
    for (size_t i = 0; i < 16; i++)
        ret_own[i] &= ~held[i];
    for (int fd = 0; fd < 1024; fd++) {
        if (!in_set(ret_own, fd) || (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0)
            continue;
        name_descriptor(-1, fd, name, sizeof(name));
        kern_warn(box, "plugin %s: prepare opened descriptor %d (%s) without O_CLOEXEC", plugin->name, fd,
                  name);
    }
}

/* A copy that the box keeps (kern_add_bind) was made in prepare as well, and is the core's. */
static bool is_of_the_box(const kern_box *box, int fd)
{
    for (size_t i = 0; i < box->mount_count; i++)
        if (box->mount[i].kind == CORE_BIND && box->mount[i].fd == fd)
            return true;
    return fd == box->root_source.fd || fd == box->ids_fd || fd == box->disk_fd;
}

void core_hookcheck_closed(kern_box *box, const struct core_plugin *plugin, const uint64_t own[16])
{
    char name[200];
    for (int fd = 0; fd < 1024; fd++) {
        if (!in_set(own, fd) || is_of_the_box(box, fd) || fcntl(fd, F_GETFD) < 0)
            continue;
        name_descriptor(-1, fd, name, sizeof(name));
        kern_warn(box, "plugin %s: left descriptor %d (%s) open after its teardown", plugin->name, fd, name);
    }
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

void core_hookcheck_keep(struct core_plugin *plugin, const uint64_t held[16])
{
    for (int fd = 0; fd < 1024; fd++)
        if (!in_set(held, fd) && is_open(fd))
            plugin->held[fd / 64] |= UINT64_C(1) << (fd % 64);
}

void core_hookcheck_opened(kern_box *box, const struct core_plugin *plugin, const char *phase,
                           const uint64_t held[16])
{
    char name[200];
    for (int fd = 0; fd < 1024; fd++) {
        if (in_set(held, fd) || !is_open(fd))
            continue;
        name_descriptor(-1, fd, name, sizeof(name));
        kern_warn(box, "plugin %s: %s left descriptor %d (%s) open", plugin->name, phase, fd, name);
    }
}

/* ---- enter ---- */

int core_hookcheck_enter(kern_box *box, struct core_plugin *plugin, struct kern_error *err)
{
    struct core_hook_state state;
    uint64_t held[16];
    int proc = box->host_proc_fd;
    core_hookcheck_mark(held);
    core_hookcheck_before(proc, &state);
    int failed = plugin->table->enter(box, plugin->state, err);
    struct core_left_behind left = {.differs = core_hookcheck_differs(proc, &state), .fd = -1};
    for (int fd = 0; fd < 1024 && left.fd < 0; fd++)
        if (!in_set(held, fd) && !in_set(box->sent_fd, fd) && is_open(fd))
            left.fd = fd;
    if (left.fd >= 0)
        name_descriptor(proc, left.fd, left.link, sizeof(left.link));
    (void)snprintf(left.plugin, sizeof(left.plugin), "%s", plugin->name); /* names are short */
    struct core_shared *shared = box->shared;
    if ((left.differs != 0 || left.fd >= 0) &&
        shared->left_count < sizeof(shared->left) / sizeof(shared->left[0]))
        shared->left[shared->left_count++] = left;
    return failed;
}

void core_hookcheck_entered(kern_box *box)
{
    for (uint32_t i = 0; i < box->shared->left_count; i++) {
        const struct core_left_behind *left = &box->shared->left[i];
        core_hookcheck_tell(box, left->plugin, "enter", left->differs);
        if (left->fd >= 0)
            kern_warn(box, "plugin %s: enter left descriptor %d (%s) open", left->plugin, left->fd,
                      left->link);
    }
}
