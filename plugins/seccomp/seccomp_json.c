/* From a profile to one program; see seccomp_json.h.
 *
 * Each architecture gets a libseccomp filter of its own, and a few instructions in front choose among them: one
 * filter for all would refuse the calls that are younger than libseccomp. */
#include "seccomp_json.h"

#include "kern/cleanup.h"
#include "seccomp_merge.h"
#include "seccomp_profile.h"
#include "seccomp_table.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define X32_BIT       0x40000000
#define I386_IOCTL    54
#define ARM_IOCTL     54
#define X32_IOCTL     (X32_BIT | 514)
#define X32_IOCTL_OLD (X32_BIT | 16) /* Linux before 5.4 took the 64-bit number too */

#if defined(__x86_64__)
#define IS_X86 1
#else
#define IS_X86 0
#endif

struct compiler {
    const struct seccomp_profile *profile;
    const char *file;
    uint32_t skipped;
    struct kern_error *err;
};

/* A program of at most BPF_MAXINSNS instructions. */
struct program {
    struct sock_filter *code;
    size_t length;
};

static void free_program(struct program *program)
{
    free(program->code);
    program->code = NULL;
}

static void release_filter(scmp_filter_ctx *filter)
{
    if (*filter != NULL)
        seccomp_release(*filter);
}

static int cannot_build(const struct compiler *compiler, int code)
{
    return kern_fail(compiler->err, code, "cannot build a filter from the seccomp profile \"%s\"",
                     compiler->file);
}

static int add_rule(const struct compiler *compiler, scmp_filter_ctx filter,
                    const struct seccomp_profile_call *call, const char *name, int nr)
{
    int failed = 0;
    if (!call->any_suffices)
        failed = seccomp_rule_add_array(filter, call->action, nr, call->condition_count, call->conditions);
    for (unsigned i = 0; call->any_suffices && i < call->condition_count && failed == 0; i++)
        failed = seccomp_rule_add_array(filter, call->action, nr, 1, &call->conditions[i]);
    if (failed == -EEXIST)
        return kern_refuse(compiler->err, 0,
                           "cannot use the seccomp profile \"%s\": two actions for \"%s\" under the same "
                           "conditions",
                           compiler->file, name);
    if (failed != 0)
        return kern_fail(compiler->err, -failed,
                         "cannot add the call \"%s\" of the seccomp profile \"%s\" to the filter", name,
                         compiler->file);
    return 0;
}

/* libseccomp translates native numbers for a foreign filter, also the negative ones that it gives to calls that
 * only others have; a call that it does not know has a true number on the native architecture alone. */
static int add_name(struct compiler *compiler, scmp_filter_ctx filter, int foreign,
                    const struct seccomp_profile_call *call, const char *name)
{
    int nr = seccomp_syscall_resolve_name(name);
    int newer = nr == __NR_SCMP_ERROR ? seccomp_newer_number(name, IS_X86) : -1;
    if (nr == __NR_SCMP_ERROR && newer < 0) {
        compiler->skipped += !foreign;
        return 0;
    }
    if (foreign ? newer >= 0 : nr < 0 && newer < 0)
        return 0;
    if (call->action == compiler->profile->default_action)
        return 0; /* libseccomp refuses a rule that says what the filter does anyway */
    return add_rule(compiler, filter, call, name, newer >= 0 ? newer : nr);
}

static int add_calls(struct compiler *compiler, scmp_filter_ctx filter, int foreign)
{
    for (size_t i = 0; i < compiler->profile->call_count; i++) {
        const struct seccomp_profile_call *call = &compiler->profile->calls[i];
        size_t count = json_is_string(call->names) ? 1 : json_array_size(call->names);
        for (size_t n = 0; n < count; n++) {
            const json_t *name = json_is_string(call->names) ? call->names : json_array_get(call->names, n);
            int failed = add_name(compiler, filter, foreign, call, json_string_value(name));
            if (failed != 0)
                return failed;
        }
    }
    return 0;
}

/* libseccomp 2.5 hands its program out through a descriptor only. */
static int export_program(const struct compiler *compiler, scmp_filter_ctx filter,
                          struct program *ret_program)
{
    auto_fd fd = memfd_create("kern-seccomp", MFD_CLOEXEC);
    if (fd < 0)
        return cannot_build(compiler, errno);
    int failed = seccomp_export_bpf(filter, fd);
    if (failed != 0)
        return cannot_build(compiler, -failed);
    struct stat about;
    if (fstat(fd, &about) != 0)
        return cannot_build(compiler, errno);
    size_t size = (size_t)about.st_size;
    cleanup(free_program) struct program program = {.code = malloc(size),
                                                    .length = size / sizeof(struct sock_filter)};
    if (program.code == NULL)
        return cannot_build(compiler, ENOMEM);
    if (pread(fd, program.code, size, 0) != (ssize_t)size)
        return cannot_build(compiler, EIO);
    ret_program->code = steal_ptr(program.code);
    ret_program->length = program.length;
    return 0;
}

/* `token` is libseccomp's name of the architecture, SCMP_ARCH_NATIVE for the native one. */
static int build_for(struct compiler *compiler, uint32_t token, struct program *ret_program)
{
    int foreign = token != SCMP_ARCH_NATIVE;
    cleanup(release_filter) scmp_filter_ctx filter = seccomp_init(compiler->profile->default_action);
    if (filter == NULL)
        return cannot_build(compiler, ENOMEM);
    int failed = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    if (failed == 0)
        failed = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a tree, not a chain */
    if (failed == 0 && foreign)
        failed = seccomp_arch_add(filter, token);
    if (failed == 0 && foreign)
        failed = seccomp_arch_remove(filter, SCMP_ARCH_NATIVE);
    if (failed != 0)
        return cannot_build(compiler, -failed);
    failed = add_calls(compiler, filter, foreign);
    return failed != 0 ? failed : export_program(compiler, filter, ret_program);
}

static seccomp_label put_behind(struct seccomp_code *code, const struct program *program)
{
    for (size_t i = program->length; i > 0; i--)
        (void)seccomp_emit(code, program->code[i - 1]); /* what did not fit is seen once, by join() */
    return code->used;
}

static int too_long(const struct compiler *compiler)
{
    return kern_refuse(compiler->err, 0,
                       "cannot use the seccomp profile \"%s\": its filter is longer than the %d instructions "
                       "that the kernel takes",
                       compiler->file, BPF_MAXINSNS);
}

/* The native program stands last, and decides on all that the others are not for. */
static int join(const struct compiler *compiler, const struct program *native, const struct program *compat,
                const struct program *x32, struct program *program)
{
    struct seccomp_code code = {.slots = program->code, .capacity = BPF_MAXINSNS};
    seccomp_label start = put_behind(&code, native), own = start;
    if (x32->code != NULL) {
        seccomp_label other = put_behind(&code, x32);
        own = seccomp_emit_branch(&code, BPF_JGE, X32_BIT, other, start);
        own = seccomp_emit_load(&code, offsetof(struct seccomp_data, nr), own);
    }
    if (compat->code != NULL) {
        seccomp_label other = put_behind(&code, compat);
        own = seccomp_emit_branch(&code, BPF_JEQ, IS_X86 ? AUDIT_ARCH_I386 : AUDIT_ARCH_ARM, other, own);
    } else if (x32->code != NULL) {
        own = seccomp_emit_branch(&code, BPF_JEQ, AUDIT_ARCH_X86_64, own, start);
    }
    if (own != start)
        (void)seccomp_emit_load(&code, offsetof(struct seccomp_data, arch), own); /* the program's start */
    if (code.overflowed)
        return too_long(compiler);
    memmove(program->code, program->code + (BPF_MAXINSNS - code.used), code.used * sizeof(*program->code));
    program->length = code.used;
    return 0;
}

static int guard(const struct compiler *compiler, uint32_t audit_arch, int32_t nr, struct program *program)
{
    cleanup(free_program) struct program guarded = {.code = calloc(BPF_MAXINSNS, sizeof(*guarded.code))};
    if (guarded.code == NULL)
        return cannot_build(compiler, ENOMEM);
    if (seccomp_guard_terminal(audit_arch, nr, program->code, program->length, guarded.code, BPF_MAXINSNS,
                               &guarded.length, NULL) != 0)
        return too_long(compiler); /* the one way in which this can fail */
    memcpy(program->code, guarded.code, guarded.length * sizeof(*program->code));
    program->length = guarded.length;
    return 0;
}

static int guard_all(const struct compiler *compiler, struct program *program)
{
    uint32_t arches = compiler->profile->arches;
    int failed = 0;
    if (arches & SECCOMP_PROFILE_X86)
        failed = guard(compiler, AUDIT_ARCH_I386, I386_IOCTL, program);
    if (failed == 0 && (arches & SECCOMP_PROFILE_ARM))
        failed = guard(compiler, AUDIT_ARCH_ARM, ARM_IOCTL, program);
    if (failed == 0 && (arches & SECCOMP_PROFILE_X32))
        failed = guard(compiler, AUDIT_ARCH_X86_64, X32_IOCTL, program);
    if (failed == 0 && (arches & SECCOMP_PROFILE_X32))
        failed = guard(compiler, AUDIT_ARCH_X86_64, X32_IOCTL_OLD, program);
    const struct seccomp_arch *native = seccomp_native();
    return failed != 0 ? failed : guard(compiler, native->audit, native->ioctl, program);
}

static int compile(struct compiler *compiler, struct program *program)
{
    cleanup(free_program) struct program native = {.code = NULL};
    cleanup(free_program) struct program compat = {.code = NULL};
    cleanup(free_program) struct program x32 = {.code = NULL};
    uint32_t arches = compiler->profile->arches;
    int failed = build_for(compiler, SCMP_ARCH_NATIVE, &native);
    if (failed == 0 && (arches & SECCOMP_PROFILE_X86))
        failed = build_for(compiler, SCMP_ARCH_X86, &compat);
    if (failed == 0 && (arches & SECCOMP_PROFILE_ARM))
        failed = build_for(compiler, SCMP_ARCH_ARM, &compat);
    if (failed == 0 && (arches & SECCOMP_PROFILE_X32))
        failed = build_for(compiler, SCMP_ARCH_X32, &x32);
    if (failed == 0)
        failed = join(compiler, &native, &compat, &x32, program);
    return failed != 0 ? failed : guard_all(compiler, program);
}

int seccomp_json_compile(const char *text, size_t len, const char *file, uint64_t caps,
                         struct sock_filter **ret_prog, size_t *ret_len, uint32_t *ret_skipped,
                         struct kern_error *err)
{
    cleanup(seccomp_profile_clear) struct seccomp_profile profile = {.root = NULL};
    int failed = seccomp_profile_read(text, len, file, caps, &profile, err);
    if (failed != 0)
        return failed;
    struct compiler compiler = {.profile = &profile, .file = file, .err = err};
    cleanup(free_program) struct program program = {.code = calloc(BPF_MAXINSNS, sizeof(*program.code))};
    if (program.code == NULL)
        return cannot_build(&compiler, ENOMEM);
    failed = compile(&compiler, &program);
    if (failed != 0)
        return failed;
    *ret_prog = steal_ptr(program.code);
    *ret_len = program.length;
    *ret_skipped = compiler.skipped;
    return 0;
}
