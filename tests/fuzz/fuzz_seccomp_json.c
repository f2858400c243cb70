/* libFuzzer target: any bytes as a seccomp profile. Whatever compiles must be a program that ends, and must hold
 * the floor: TIOCSTI is not let through, nor a call of an architecture that no profile can list. */
#include "bpf_vm.h"
#include "seccomp_json.h"
#include "seccomp_names.h"

#include <linux/audit.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/ioctl.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t verdict(const struct sock_filter *program, size_t length, uint32_t audit, int nr,
                        uint64_t second)
{
    struct seccomp_data call = {.nr = nr, .arch = audit, .args = {0, second}};
    uint32_t action = 0;
    unsigned steps = 0;
    if (bpf_vm_run(program, length, &call, &action, &steps) != 0)
        abort();
    return action;
}

static void check(const struct sock_filter *program, size_t length)
{
    const struct seccomp_arch *native = seccomp_native();
    for (int nr = -1; nr < 500; nr += 7)
        (void)verdict(program, length, native->audit, nr, 0); /* that it ends is what is looked at */
    for (uint64_t garbage = 0; garbage < 2; garbage++)
        if (verdict(program, length, native->audit, native->ioctl, garbage << 32 | TIOCSTI) ==
            SECCOMP_RET_ALLOW)
            abort();
    if (verdict(program, length, AUDIT_ARCH_S390X, 4, 0) != SECCOMP_RET_KILL_PROCESS)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kern_error err = {.category = KERN_ERROR_NONE};
    struct sock_filter *program = NULL;
    size_t length = 0;
    uint32_t skipped = 0;
    int failed = seccomp_json_compile((const char *)data, size, "fuzz.json", 1ULL << CAP_SYS_CHROOT, &program,
                                      &length, &skipped, &err);
    if (failed == 0)
        check(program, length);
    else if (err.category == KERN_ERROR_NONE || err.message[0] == '\0' || program != NULL)
        abort();
    free(program);
    return 0;
}
