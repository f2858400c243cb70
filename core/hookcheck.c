/* What a hook left behind that it should not have, for KERN_DEBUG=plugins; see guard.h. Reads /proc, so it is slow, and only for
 * whoever writes a plugin. Host side. */
#include "guard.h"

#include "cleanup.h"

#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

static uint64_t hex_after(const char *text, const char *field, int base)
{
    const char *at = strstr(text, field);
    return at != NULL ? strtoull(at + strlen(field), NULL, base) : 0;
}

static void read_text(const char *path, char *ret_text, size_t size)
{
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
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

void core_hookcheck_before(struct core_hook_state *ret_before)
{
    struct core_hook_state state = {0};
    char text[4096];
    read_text("/proc/self/status", text, sizeof(text));
    state.mask = hex_after(text, "\nSigBlk:", 16);
    state.ignored = hex_after(text, "\nSigIgn:", 16);
    /* 32 and 33 are libc's own, for threads. */
    state.caught = hex_after(text, "\nSigCgt:", 16) & ~(UINT64_C(3) << 31);
    state.threads = (uint32_t)hex_after(text, "\nThreads:", 10);
    state.umask = (uint32_t)hex_after(text, "\nUmask:", 8);
    read_text("/proc/thread-self/children", text, sizeof(text));
    state.children = count_words(text);
    if (getcwd(state.folder, sizeof(state.folder)) == NULL)
        state.folder[0] = '\0'; /* a folder that is gone is the same each time */
    const char *locale = setlocale(LC_ALL, NULL);
    (void)snprintf(state.locale, sizeof(state.locale), "%s", locale != NULL ? locale : ""); /* cut alike */
    *ret_before = state;
}

void core_hookcheck_after(kern_box *box, const struct core_plugin *plugin, const char *phase,
                          const struct core_hook_state *before)
{
    struct core_hook_state now;
    core_hookcheck_before(&now);
    const struct {
        bool differs;
        const char *what;
    } checks[] = {
        {now.threads > before->threads, "left a thread running"},
        {now.children > before->children, "left a child process"},
        {now.mask != before->mask, "changed the signal mask"},
        {now.ignored != before->ignored || now.caught != before->caught, "changed what signals do"},
        {now.umask != before->umask, "changed the umask"},
        {strcmp(now.folder, before->folder) != 0, "changed the working directory"},
        {strcmp(now.locale, before->locale) != 0, "changed the locale"},
    };
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
        if (checks[i].differs)
            kern_warn(box, "plugin %s: %s %s", plugin->name, phase, checks[i].what);
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

static void name_descriptor(int fd, char *ret_name, size_t size)
{
    char link[40];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd); /* fits: a number is short */
    ssize_t length = readlink(link, ret_name, size - 1);
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
        name_descriptor(fd, name, sizeof(name));
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
        name_descriptor(fd, name, sizeof(name));
        kern_warn(box, "plugin %s: left descriptor %d (%s) open after its teardown", plugin->name, fd, name);
    }
}
