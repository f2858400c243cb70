/* Whether this machine runs the programs of an image; see image_machine.h. In kern, on the host. */
#include "image_machine.h"

#include "kern/cleanup.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
static const char *const own[] = {"amd64", "x86_64", "386"};
const char image_machine_name[] = "linux/amd64";
#else
static const char *const own[] = {"arm64", "aarch64", "arm"};
const char image_machine_name[] = "linux/arm64";
#endif

static bool is_word(const char *word, const char *text, size_t length)
{
    return strlen(word) == length && strncmp(word, text, length) == 0;
}

static bool is_emulated(const char *arch, size_t length)
{
    static const char *const names[][2] = {
        {"amd64", "x86_64"}, {"arm64", "aarch64"},     {"arm", "arm"},
        {"386", "i386"},     {"riscv64", "riscv64"},   {"ppc64le", "ppc64le"},
        {"s390x", "s390x"},  {"mips64le", "mips64el"}, {"loong64", "loongarch64"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!is_word(names[i][0], arch, length))
            continue;
        char path[80], text[512] = "";
        (void)snprintf(path, sizeof(path), "/proc/sys/fs/binfmt_misc/qemu-%s", names[i][1]); /* fits */
        auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
            return false;
        /* Only with F has the kernel opened the emulator already: a box does not have it. */
        const char *flags = strstr(text, "flags:");
        return strncmp(text, "enabled", 7) == 0 && flags != NULL &&
               memchr(flags, 'F', strcspn(flags, "\n")) != NULL;
    }
    return false;
}

int image_machine_runs(const char *platform)
{
    const char *arch = strchr(platform, '/');
    if (arch == NULL || strncmp(platform, "linux/", 6) != 0)
        return IMAGE_RUNS_NEVER;
    size_t length = strcspn(++arch, "/");
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (is_word(own[i], arch, length))
            return IMAGE_RUNS;
    return is_emulated(arch, length) ? IMAGE_RUNS_EMULATED : IMAGE_RUNS_NOT;
}
