/* What the tests of the seccomp plugin share: both architectures' generated programs, a run through the
 * interpreter, and the list that no test takes from the code under test. Included once by each. */
#ifndef TESTS_SECCOMP_KIT_H
#define TESTS_SECCOMP_KIT_H

#include "bpf_vm.h"
#include "seccomp_filter.h"
#include "seccomp_names.h"
#include "seccomp_names_aarch64.h"
#include "seccomp_names_x86_64.h"
#include "seccomp_programs_aarch64.h"
#include "seccomp_programs_x86_64.h"

#include <errno.h>
#include <linux/audit.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define ALLOW  SECCOMP_RET_ALLOW
#define KILL   SECCOMP_RET_KILL_PROCESS
#define NOTIFY SECCOMP_RET_USER_NOTIF
#define NOSYS  (SECCOMP_RET_ERRNO | ENOSYS)
#define DENIED (SECCOMP_RET_ERRNO | EPERM)
#define NO_ONE (SECCOMP_RET_ERRNO | EAFNOSUPPORT)

#define GARBAGE 0xdeadbeef00000000u /* what the kernel never looks at */

struct machine {
    const char *name;
    const struct seccomp_arch *arch;
    const struct sock_filter *code;
    const struct seccomp_span (*spans)[2][2];
    uint32_t foreign; /* the 32-bit architecture that the same kernel runs */
    int is_x86;
};

static const struct machine machines[] = {
    {"x86_64", &seccomp_arch_x86_64, seccomp_code_x86_64, seccomp_spans_x86_64, AUDIT_ARCH_I386, 1},
    {"aarch64", &seccomp_arch_aarch64, seccomp_code_aarch64, seccomp_spans_aarch64, AUDIT_ARCH_ARM, 0},
};

#define EACH_MACHINE(machine)                 \
    const struct machine *machine = machines; \
    machine < machines + 2;                   \
    machine++

struct program {
    const struct machine *machine;
    const struct sock_filter *code;
    size_t length;
};

static inline struct program built_in(const struct machine *machine, uint32_t mode, int privileged,
                                      int listener)
{
    struct seccomp_span span = machine->spans[mode][privileged][listener];
    return (struct program){machine, machine->code + span.start, span.length};
}

static inline int number_of(const struct machine *machine, const char *name)
{
    for (int nr = 0; nr < 600; nr++) {
        const char *found = seccomp_name_in(machine->arch, nr);
        if (found != NULL && strcmp(found, name) == 0)
            return nr;
    }
    return -1;
}

static inline uint32_t run(const struct program *program, uint32_t audit, int64_t nr, uint64_t first,
                           uint64_t second, unsigned *ret_steps)
{
    struct seccomp_data data = {.nr = (int)nr, .arch = audit, .args = {first, second}};
    uint32_t action = 0;
    if (bpf_vm_run(program->code, program->length, &data, &action, ret_steps) != 0)
        fail_msg("%s: not a program the kernel would take (call %d)", program->machine->name, (int)nr);
    return action;
}

static inline void expect_number(const struct program *program, int64_t nr, uint64_t first, uint64_t second,
                                 uint32_t action)
{
    unsigned steps = 0;
    uint32_t got = run(program, program->machine->arch->audit, nr, first, second, &steps);
    if (got != action)
        fail_msg("%s: call %lld (0x%llx, 0x%llx): 0x%08x, expected 0x%08x", program->machine->name,
                 (long long)nr, (unsigned long long)first, (unsigned long long)second, got, action);
}

static inline void expect(const struct program *program, const char *name, uint64_t first, uint64_t second,
                          uint32_t action)
{
    int nr = number_of(program->machine, name);
    if (nr < 0)
        fail_msg("%s: no number for %s", program->machine->name, name);
    expect_number(program, nr, first, second, action);
}

/* Written out here, not taken from seccomp_table.h: the lists are a promise to users. */
static const char *const the_24[] = {"ptrace",       "process_vm_readv", "process_vm_writev",
                                     "kexec_load",   "kexec_file_load",  "init_module",
                                     "finit_module", "delete_module",    "reboot",
                                     "swapon",       "swapoff",          "open_tree",
                                     "move_mount",   "fsopen",           "fsconfig",
                                     "fsmount",      "fspick",           "mount_setattr",
                                     "bpf",          "unshare",          "setns",
                                     "mount",        "umount2",          "pivot_root"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static inline int stands_in(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return 1;
    return 0;
}

#endif
