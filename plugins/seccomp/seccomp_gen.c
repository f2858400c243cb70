/* Build-time tool: `seccomp_gen ARCH [programs|names]` prints the header with the built-in filters of x86_64 or
 * aarch64, or the one with its call names. Runs on the build machine for any target (libseccomp knows the
 * numbers of all), so a cross build needs no emulator.
 *
 * A program is a balanced tree over ranges of call numbers. Since Linux 5.11 attaching a filter emulates it once for
 * each number, and a chain of 180 comparisons made that cost 0.7 ms where the tree costs 0.08. */
#include "seccomp_assemble.h"
#include "seccomp_table.h"

#include <asm/ioctls.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define NUMBERS       512u /* above every number that any architecture has given out */
#define X32_LOW_FIRST 512u /* x32's own calls; before Linux 5.4 they ran without the x32 bit as well */
#define X32_LOW_LAST  547u
#define X32_BIT       0x40000000u
#define PROGRAM_MAX   1024u

/* What is to be said about a number, apart from mode and listener. */
enum answer {
    ANSWER_UNLISTED,
    ANSWER_ALLOW,
    ANSWER_KILLING, /* the 24 */
    ANSWER_NESTING, /* those of the 24 that --privileged relaxes */
    ANSWER_HIDDEN,  /* ENOSYS in every mode */
    ANSWER_FOREIGN, /* another architecture's call: see foreign_action */
    ANSWER_CLONE,
    ANSWER_IOCTL,
    ANSWER_PERSONALITY,
    ANSWER_SOCKET,
    ANSWER_COUNT
};

enum mode { MODE_ALLOWLIST, MODE_DENYLIST, MODE_AUDIT, MODE_COUNT }; /* as SECCOMP_MODE_* number them */

struct arch {
    const char *name;
    uint32_t token; /* libseccomp's */
    uint32_t audit;
    int is_x86;
};

static const struct arch known[] = {
    {"x86_64", SCMP_ARCH_X86_64, AUDIT_ARCH_X86_64, 1},
    {"aarch64", SCMP_ARCH_AARCH64, AUDIT_ARCH_AARCH64, 0},
};

struct variant {
    enum mode mode;
    int privileged;
    int listener;
};

/* Killing at once rather than notifying: under another architecture a number means another call, so nobody could
 * be told a true name, and there is nothing that a supervisor might want to let through. It also works where a
 * signal from outside would not, on a box's PID 1. */
static const uint32_t foreign_action = SECCOMP_RET_KILL_PROCESS;

static _Noreturn void die(const char *what, const char *name)
{
    (void)fprintf(stderr, "seccomp_gen: %s: %s\n", what, name); /* the build shows it or nobody does */
    exit(1);
}

static int number_of(const struct arch *arch, const char *name)
{
    int nr = seccomp_syscall_resolve_name_arch(arch->token, name);
    int newer = seccomp_newer_number(name, arch->is_x86);
    if (nr >= 0 && newer >= 0 && nr != newer)
        die("libseccomp has another number for a call of seccomp_table.c", name);
    nr = nr >= 0 ? nr : newer;
    if (nr >= (int)NUMBERS)
        die("a number is above what this tool plans for", name);
    return nr;
}

/* A list may name calls that this architecture lacks (aarch64 has no open), but none that both lack. */
static void mark(const struct arch *arch, const struct seccomp_list *list, enum answer answer,
                 enum answer *answers)
{
    for (size_t i = 0; i < list->count; i++) {
        const char *name = list->names[i];
        if (number_of(&known[0], name) < 0 && number_of(&known[1], name) < 0)
            die("no such call", name);
        int nr = number_of(arch, name);
        if (nr < 0)
            continue;
        if (answers[nr] != ANSWER_UNLISTED && !(answer == ANSWER_NESTING && answers[nr] == ANSWER_KILLING))
            die("a call stands in two lists", name);
        answers[nr] = answer;
    }
}

static void mark_judged(const struct arch *arch, enum answer *answers)
{
    static const struct {
        char name[16];
        enum answer answer;
    } by_argument[] = {{"clone", ANSWER_CLONE},
                       {"ioctl", ANSWER_IOCTL},
                       {"personality", ANSWER_PERSONALITY},
                       {"socket", ANSWER_SOCKET}};
    if (seccomp_judged.count != sizeof(by_argument) / sizeof(by_argument[0]))
        die("the judged calls of seccomp_table.c are not the ones known here", arch->name);
    for (size_t i = 0; i < seccomp_judged.count; i++) {
        if (strcmp(by_argument[i].name, seccomp_judged.names[i]) != 0)
            die("the judged calls of seccomp_table.c are not the ones known here", seccomp_judged.names[i]);
        const char *const one[] = {by_argument[i].name};
        const struct seccomp_list list = {.names = one, .count = 1};
        mark(arch, &list, by_argument[i].answer, answers);
    }
}

static void classify(const struct arch *arch, enum answer *answers)
{
    for (size_t nr = 0; nr < NUMBERS; nr++)
        answers[nr] = ANSWER_UNLISTED;
    mark(arch, &seccomp_allowed, ANSWER_ALLOW, answers);
    mark(arch, &seccomp_killing, ANSWER_KILLING, answers);
    mark(arch, &seccomp_nesting, ANSWER_NESTING, answers);
    mark(arch, &seccomp_hidden, ANSWER_HIDDEN, answers);
    mark(arch, &seccomp_kindred, ANSWER_HIDDEN, answers);
    mark_judged(arch, answers);
}

/* What a variant makes of an answer that does not depend on arguments. */
static uint32_t plain_action(enum answer answer, const struct variant *variant)
{
    uint32_t killing = variant->listener ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_KILL_PROCESS;
    switch (answer) {
    case ANSWER_KILLING:
        return killing;
    case ANSWER_NESTING:
        return variant->privileged ? SECCOMP_RET_ALLOW : killing;
    case ANSWER_HIDDEN:
        return SECCOMP_RET_ERRNO | ENOSYS;
    case ANSWER_FOREIGN:
        return foreign_action;
    case ANSWER_UNLISTED:
        if (variant->mode == MODE_DENYLIST)
            return SECCOMP_RET_ALLOW;
        if (variant->mode == MODE_AUDIT)
            return variant->listener ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_LOG;
        return SECCOMP_RET_ERRNO | ENOSYS;
    default:
        return SECCOMP_RET_ALLOW;
    }
}

static int looks_at_arguments(enum answer answer, const struct variant *variant)
{
    switch (answer) {
    case ANSWER_CLONE:
        return !variant->privileged;
    case ANSWER_PERSONALITY:
        return variant->mode != MODE_DENYLIST;
    case ANSWER_IOCTL:
    case ANSWER_SOCKET:
        return 1;
    default:
        return 0;
    }
}

/* The four calls take these arguments as 32 bits, or use no more of them: only those are compared, or garbage
 * above them would hide what is asked for. */
static seccomp_label emit_argument(struct seccomp_code *code, uint32_t index, seccomp_label next)
{
    return seccomp_emit_load(code, offsetof(struct seccomp_data, args) + index * sizeof(uint64_t), next);
}

static seccomp_label emit_one_of(struct seccomp_code *code, const uint32_t *values, size_t count,
                                 uint32_t action, uint32_t otherwise)
{
    seccomp_label other = seccomp_emit_return(code, otherwise);
    seccomp_label found = seccomp_emit_return(code, action);
    for (size_t i = count; i > 0; i--)
        other = seccomp_emit_branch(code, BPF_JEQ, values[i - 1], found, other);
    return other;
}

static seccomp_label emit_block(struct seccomp_code *code, enum answer answer, const struct variant *variant)
{
    /* clone's low byte is the signal for the parent, so CLONE_NEWTIME cannot be asked for here. */
    static const uint32_t namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                       CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
    static const uint32_t typing[] = {TIOCSTI, TIOCLINUX};
    static const uint32_t families[] = {AF_VSOCK};
    /* Docker's: PER_LINUX and PER_LINUX32, either with UNAME26, and the question which one it is. */
    static const uint32_t persons[] = {0, 0x8, 0x20000, 0x20008, 0xffffffff};
    seccomp_label at;
    switch (answer) {
    case ANSWER_CLONE:
        at = seccomp_emit_return(code, SECCOMP_RET_ALLOW);
        at = seccomp_emit_branch(code, BPF_JSET, namespaces,
                                 seccomp_emit_return(code, plain_action(ANSWER_KILLING, variant)), at);
        return emit_argument(code, 0, at);
    case ANSWER_IOCTL:
        return emit_argument(code, 1,
                             emit_one_of(code, typing, sizeof(typing) / sizeof(typing[0]),
                                         SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW));
    case ANSWER_PERSONALITY:
        return emit_argument(code, 0,
                             emit_one_of(code, persons, sizeof(persons) / sizeof(persons[0]),
                                         SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | EPERM));
    default:
        return emit_argument(code, 0,
                             emit_one_of(code, families, sizeof(families) / sizeof(families[0]),
                                         SECCOMP_RET_ERRNO | EAFNOSUPPORT, SECCOMP_RET_ALLOW));
    }
}

struct range {
    uint32_t first;
    seccomp_label target;
};

struct ranges {
    struct range list[NUMBERS];
    size_t count;
};

/* One that answers like the range before it only makes that one longer. */
static void add_range(struct ranges *ranges, uint32_t first, seccomp_label target)
{
    if (ranges->count > 0 && ranges->list[ranges->count - 1].target == target)
        return;
    if (ranges->count == NUMBERS)
        die("too many ranges", "seccomp_gen.c");
    ranges->list[ranges->count++] = (struct range){.first = first, .target = target};
}

/* Each answer's code, written once; equal actions share one return, which is what lets ranges merge. */
static void emit_answers(struct seccomp_code *code, const struct variant *variant, seccomp_label *targets)
{
    for (int answer = 0; answer < ANSWER_COUNT; answer++)
        if (looks_at_arguments((enum answer)answer, variant))
            targets[answer] = emit_block(code, (enum answer)answer, variant);
    uint32_t actions[ANSWER_COUNT];
    for (int answer = 0; answer < ANSWER_COUNT; answer++) {
        if (looks_at_arguments((enum answer)answer, variant))
            continue;
        actions[answer] = plain_action((enum answer)answer, variant);
        targets[answer] = 0;
        for (int before = 0; before < answer; before++)
            if (!looks_at_arguments((enum answer)before, variant) && actions[before] == actions[answer])
                targets[answer] = targets[before];
        if (targets[answer] == 0)
            targets[answer] = seccomp_emit_return(code, actions[answer]);
    }
}

static void plan_ranges(const struct arch *arch, const enum answer *answers, const seccomp_label *targets,
                        struct ranges *ranges)
{
    for (uint32_t nr = 0; nr < NUMBERS; nr++)
        add_range(ranges, nr, targets[answers[nr]]);
    if (!arch->is_x86) {
        add_range(ranges, NUMBERS, targets[ANSWER_UNLISTED]);
        return;
    }
    add_range(ranges, X32_LOW_FIRST, targets[ANSWER_HIDDEN]);
    add_range(ranges, X32_LOW_LAST + 1, targets[ANSWER_UNLISTED]);
    add_range(ranges, X32_BIT, targets[ANSWER_FOREIGN]);
    add_range(ranges, UINT32_MAX, targets[ANSWER_UNLISTED]); /* -1 is no call, although it has the x32 bit */
}

static seccomp_label emit_tree(struct seccomp_code *code, const struct range *ranges, size_t count)
{
    if (count == 1)
        return ranges[0].target;
    size_t half = count / 2;
    seccomp_label upper = emit_tree(code, ranges + half, count - half);
    seccomp_label lower = emit_tree(code, ranges, half);
    return seccomp_emit_branch(code, BPF_JGE, ranges[half].first, upper, lower);
}

static void emit_program(const struct arch *arch, const struct variant *variant, struct seccomp_code *code)
{
    static struct ranges ranges; /* too large for a comfortable frame; the tool has one thread */
    enum answer answers[NUMBERS];
    seccomp_label targets[ANSWER_COUNT];
    classify(arch, answers);
    emit_answers(code, variant, targets);
    ranges.count = 0;
    plan_ranges(arch, answers, targets, &ranges);
    seccomp_label at = emit_tree(code, ranges.list, ranges.count);
    at = seccomp_emit_load(code, offsetof(struct seccomp_data, nr), at);
    at = seccomp_emit_branch(code, BPF_JEQ, arch->audit, at, targets[ANSWER_FOREIGN]);
    (void)seccomp_emit_load(code, offsetof(struct seccomp_data, arch), at); /* the program's start */
    if (code->overflowed)
        die("a program is longer than planned for", arch->name);
}

static void print_programs(const struct arch *arch)
{
    static struct sock_filter slots[PROGRAM_MAX];
    size_t lengths[MODE_COUNT * 4];
    (void)printf("static const struct sock_filter seccomp_code_%s[] = {\n", arch->name);
    for (int i = 0; i < MODE_COUNT * 4; i++) {
        struct variant variant = {(enum mode)(i / 4), i / 2 % 2, i % 2};
        struct seccomp_code code = {.slots = slots, .capacity = PROGRAM_MAX};
        emit_program(arch, &variant, &code);
        lengths[i] = code.used;
        (void)printf("    /* mode %d, privileged %d, listener %d */\n", (int)variant.mode, variant.privileged,
                     variant.listener);
        for (size_t at = PROGRAM_MAX - code.used; at < PROGRAM_MAX; at++)
            (void)printf("    {0x%02x, %u, %u, 0x%08x},\n", slots[at].code, slots[at].jt, slots[at].jf,
                         slots[at].k);
    }
    (void)printf("};\n\nstatic const struct seccomp_span seccomp_spans_%s[%d][2][2] = {\n", arch->name,
                 MODE_COUNT);
    size_t start = 0;
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        (void)printf("    {");
        for (int i = mode * 4; i < mode * 4 + 4; i++) {
            (void)printf("%s{%zu, %zu}%s", i % 2 == 0 ? "{" : "", start, lengths[i],
                         i % 4 == 3   ? "}},\n"
                         : i % 2 == 1 ? "}, "
                                      : ", ");
            start += lengths[i];
        }
    }
    (void)printf("};\n");
}

static const char *name_of(const struct arch *arch, int nr, char *buffer, size_t size)
{
    const char *newer = seccomp_newer_name(nr, arch->is_x86);
    char *name = seccomp_syscall_resolve_num_arch(arch->token, nr);
    (void)snprintf(buffer, size, "%s", name != NULL ? name : newer != NULL ? newer : "");
    free(name);
    return buffer;
}

/* The killing numbers rise because `answers` is walked in order. */
static void print_killing(const struct arch *arch)
{
    enum answer answers[NUMBERS];
    classify(arch, answers);
    (void)printf("};\n\nstatic const int16_t seccomp_killing_%s[] = {\n   ", arch->name);
    for (unsigned nr = 0; nr < NUMBERS; nr++)
        if (answers[nr] == ANSWER_KILLING || answers[nr] == ANSWER_NESTING || answers[nr] == ANSWER_CLONE)
            (void)printf(" %u,", nr);
    (void)printf("\n};\n\n");
}

static void print_names(const struct arch *arch)
{
    char name[64];
    size_t offset = 1;
    unsigned count = 0;
    (void)printf("static const char seccomp_name_text_%s[] =\n    \"\\0\"\n", arch->name);
    for (unsigned nr = 0; nr < NUMBERS; nr++) {
        if (name_of(arch, (int)nr, name, sizeof(name))[0] == '\0')
            continue;
        (void)printf("    \"%s\\0\"\n", name);
        count = nr + 1;
    }
    (void)printf("    ;\n\nstatic const uint16_t seccomp_name_at_%s[] = {\n", arch->name);
    for (unsigned nr = 0; nr < count; nr++) {
        size_t length = strlen(name_of(arch, (int)nr, name, sizeof(name)));
        (void)printf("    %zu, /* %u %s */\n", length > 0 ? offset : 0, nr, name);
        offset += length > 0 ? length + 1 : 0;
    }
    print_killing(arch);
    (void)printf("static const struct seccomp_arch seccomp_arch_%s = {\n"
                 "    .audit = 0x%08xu,\n    .ioctl = %d,\n    .text = seccomp_name_text_%s,\n"
                 "    .at = seccomp_name_at_%s,\n    .at_count = %u,\n    .killing = seccomp_killing_%s,\n"
                 "    .killing_count = sizeof(seccomp_killing_%s) / sizeof(int16_t),\n};\n",
                 arch->name, arch->audit, number_of(arch, "ioctl"), arch->name, arch->name, count, arch->name,
                 arch->name);
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[2] : "programs";
    for (size_t i = 0; argc > 1 && i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(argv[1], known[i].name) != 0)
            continue;
        (void)printf("/* Generated by seccomp_gen %s %s; do not edit. */\n#include \"%s\"\n\n", argv[1], what,
                     strcmp(what, "names") == 0 ? "seccomp_names.h" : "seccomp_filter.h");
        if (strcmp(what, "programs") == 0)
            print_programs(&known[i]);
        else if (strcmp(what, "names") == 0)
            print_names(&known[i]);
        else
            die("unknown kind of table, not programs or names", what);
        /* Single writes are not looked at: a full disk shows here, and fails the build. */
        if (fflush(stdout) != 0 || ferror(stdout))
            die("cannot write the header", strerror(errno));
        return 0;
    }
    die("usage: seccomp_gen x86_64|aarch64 [programs|names]", argc > 1 ? argv[1] : "no architecture given");
}
