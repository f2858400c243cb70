/* Joins contributed rules to a program; see seccomp_merge.h. Pure. */
#include "seccomp_merge.h"

#include <asm/ioctls.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <string.h>

#define LARGEST_ERRNO 4095u /* the kernel cuts what is above */
#define X32_BIT       0x40000000

/* Whether the call may be executed after all: TRACE leaves that to a tracer. */
static int lets_run(uint32_t action)
{
    uint32_t kind = action & SECCOMP_RET_ACTION_FULL;
    return kind == SECCOMP_RET_ALLOW || kind == SECCOMP_RET_LOG || kind == SECCOMP_RET_TRACE;
}

static int is_action(uint32_t action)
{
    switch (action & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ERRNO:
        return (action & SECCOMP_RET_DATA) <= LARGEST_ERRNO;
    case SECCOMP_RET_KILL_PROCESS:
    case SECCOMP_RET_KILL_THREAD:
    case SECCOMP_RET_TRAP:
    case SECCOMP_RET_USER_NOTIF:
    case SECCOMP_RET_TRACE:
    case SECCOMP_RET_LOG:
    case SECCOMP_RET_ALLOW:
        return 1;
    default:
        return 0;
    }
}

static int check_condition(const struct seccomp_arch *arch, const struct seccomp_rule *rule,
                           const struct seccomp_condition *condition, struct kern_error *err)
{
    const char *name = seccomp_name_in(arch, rule->nr);
    name = name != NULL ? name : "without a name";
    if (condition->index > 5)
        return kern_fail(err, 0, "cannot add a seccomp rule for call %d (%s): it has no argument %u",
                         rule->nr, name, condition->index);
    if (condition->op > SECCOMP_OP_MASKED_NE)
        return kern_fail(err, 0, "cannot add a seccomp rule for call %d (%s): unknown comparison %u",
                         rule->nr, name, condition->op);
    uint64_t stray = condition->value & ~condition->mask;
    if ((condition->op == SECCOMP_OP_MASKED_EQ || condition->op == SECCOMP_OP_MASKED_NE) && stray != 0)
        return kern_fail(err, 0,
                         "cannot add a seccomp rule for call %d (%s): the value has the bits 0x%llx outside "
                         "its mask and would never be met",
                         rule->nr, name, (unsigned long long)stray);
    return 0;
}

static int check_rule(const struct seccomp_arch *arch, const struct seccomp_rule *rule,
                      struct kern_error *err)
{
    const char *name = seccomp_name_in(arch, rule->nr);
    name = name != NULL ? name : "without a name";
    if (rule->nr < 0)
        return kern_fail(err, 0, "cannot add a seccomp rule for call %d: not a call of this architecture",
                         rule->nr);
    if (!is_action(rule->action))
        return kern_fail(err, 0, "cannot add a seccomp rule for call %d (%s): unknown action 0x%08x",
                         rule->nr, name, rule->action);
    if (lets_run(rule->action) && seccomp_kills_in(arch, rule->nr))
        return kern_fail(err, EPERM, "cannot let \"%s\" run: it leads out of a box, no plugin may allow it",
                         name);
    if (lets_run(rule->action) && rule->nr >= X32_BIT)
        return kern_fail(err, EPERM, "cannot let the x32 call %d run: x32 is closed to a box", rule->nr);
    if (rule->arg_count > 4)
        return kern_fail(err, 0, "cannot add a seccomp rule for call %d (%s): %u conditions, at most 4 fit",
                         rule->nr, name, rule->arg_count);
    for (uint32_t i = 0; i < rule->arg_count; i++) {
        int failed = check_condition(arch, rule, &rule->arg[i], err);
        if (failed != 0)
            return failed;
    }
    return 0;
}

/* The work of one merge. */
struct merge {
    const struct seccomp_arch *arch;
    const struct seccomp_rule *rules;
    uint16_t order[SECCOMP_RULES_MAX]; /* indices into rules, by number, contributors' order kept */
    size_t count;
    int32_t numbers[SECCOMP_RULES_MAX]; /* distinct ones, rising */
    seccomp_label blocks[SECCOMP_RULES_MAX];
    size_t number_count;
    struct seccomp_code code;
    seccomp_label base;      /* the base program from its start */
    seccomp_label base_load; /* where a block that found no match goes on: the accumulator is lost there */
    seccomp_label base_tree; /* where a number nobody asked about goes on: it is loaded already */
};

static void sort_rules(struct merge *merge)
{
    for (size_t i = 0; i < merge->count; i++) {
        size_t place = i;
        for (; place > 0 && merge->rules[merge->order[place - 1]].nr > merge->rules[i].nr; place--)
            merge->order[place] = merge->order[place - 1];
        merge->order[place] = (uint16_t)i;
    }
}

/* A base that opens with "architecture, number" has had both done by what we put in front. */
static void place_base(struct merge *merge, const struct sock_filter *base, size_t base_len)
{
    for (size_t i = base_len; i > 0; i--)
        (void)seccomp_emit(&merge->code, base[i - 1]); /* running out of room is seen once, at the end */
    merge->base = merge->base_load = merge->base_tree = merge->code.used;
    const struct sock_filter load_arch =
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    const struct sock_filter load_nr = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    if (base_len < 4 || memcmp(&base[0], &load_arch, sizeof(load_arch)) != 0 ||
        memcmp(&base[2], &load_nr, sizeof(load_nr)) != 0)
        return;
    if (base[1].code != (BPF_JMP | BPF_JEQ | BPF_K) || base[1].k != merge->arch->audit || base[1].jt != 0)
        return;
    merge->base_load = merge->base - 2;
    merge->base_tree = merge->base - 3;
}

static seccomp_label emit_rule(struct merge *merge, const struct seccomp_rule *rule, seccomp_label otherwise)
{
    seccomp_label at = seccomp_emit_return(&merge->code, rule->action);
    for (uint32_t i = rule->arg_count; i > 0; i--)
        at = seccomp_emit_condition(&merge->code, &rule->arg[i - 1], at, otherwise);
    return at;
}

/* The kernel reads an ioctl's command as 32 bits: garbage above them must not hide it. */
static seccomp_label emit_terminal_guard(struct merge *merge, seccomp_label otherwise)
{
    static const uint32_t commands[] = {TIOCSTI, TIOCLINUX};
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        struct seccomp_rule guard = {
            .arg_count = 1,
            .arg = {{.index = 1, .op = SECCOMP_OP_MASKED_EQ, .value = commands[i], .mask = UINT32_MAX}},
            .action = SECCOMP_RET_ERRNO | EPERM,
        };
        otherwise = emit_rule(merge, &guard, otherwise);
    }
    return otherwise;
}

/* One block for each number, first rule first; a block is complete before the next one is put in front of it. */
static void emit_blocks(struct merge *merge)
{
    for (size_t end = merge->count; end > 0;) {
        int32_t nr = merge->rules[merge->order[end - 1]].nr;
        seccomp_label at = merge->base_load;
        for (; end > 0 && merge->rules[merge->order[end - 1]].nr == nr; end--)
            at = emit_rule(merge, &merge->rules[merge->order[end - 1]], at);
        if (nr == merge->arch->ioctl)
            at = emit_terminal_guard(merge, at);
        merge->number_count++;
        merge->numbers[SECCOMP_RULES_MAX - merge->number_count] = nr;
        merge->blocks[SECCOMP_RULES_MAX - merge->number_count] = at;
    }
}

/* Finds the block of the number in the accumulator among [first, last); both arrays are filled from their end. */
static seccomp_label emit_search(struct merge *merge, size_t first, size_t last)
{
    if (last - first == 1)
        return seccomp_emit_branch(&merge->code, BPF_JEQ, (uint32_t)merge->numbers[first],
                                   merge->blocks[first], merge->base_tree);
    size_t middle = first + (last - first) / 2;
    seccomp_label upper = emit_search(merge, middle, last);
    seccomp_label lower = emit_search(merge, first, middle);
    return seccomp_emit_branch(&merge->code, BPF_JGE, (uint32_t)merge->numbers[middle], upper, lower);
}

static void emit_front(struct merge *merge)
{
    seccomp_label at = emit_search(merge, SECCOMP_RULES_MAX - merge->number_count, SECCOMP_RULES_MAX);
    at = seccomp_emit_load(&merge->code, offsetof(struct seccomp_data, nr), at);
    at = seccomp_emit_branch(&merge->code, BPF_JEQ, merge->arch->audit, at, merge->base);
    (void)seccomp_emit_load(&merge->code, offsetof(struct seccomp_data, arch), at); /* the program's start */
}

static int finish(struct merge *merge, struct sock_filter *out, size_t *ret_len, struct kern_error *err)
{
    const struct seccomp_code *code = &merge->code;
    if (code->overflowed)
        return kern_fail(err, ENOSPC, "cannot join %zu seccomp rules to the filter: over %zu instructions",
                         merge->count, code->capacity);
    memmove(out, code->slots + (code->capacity - code->used), code->used * sizeof(*out));
    *ret_len = code->used;
    return 0;
}

int seccomp_merge_rules_in(const struct seccomp_arch *arch, const struct sock_filter *base, size_t base_len,
                           const struct seccomp_rule *rules, size_t count, struct sock_filter *out,
                           size_t out_capacity, size_t *ret_len, struct kern_error *err)
{
    if (count > SECCOMP_RULES_MAX)
        return kern_fail(err, E2BIG, "cannot join %zu seccomp rules to the filter, at most %u", count,
                         SECCOMP_RULES_MAX);
    for (size_t i = 0; i < count; i++) {
        int failed = check_rule(arch, &rules[i], err);
        if (failed != 0)
            return failed;
    }
    size_t capacity = out_capacity < BPF_MAXINSNS ? out_capacity : BPF_MAXINSNS;
    struct merge merge = {
        .arch = arch, .rules = rules, .count = count, .code = {.slots = out, .capacity = capacity}};
    place_base(&merge, base, base_len);
    if (count > 0 && !merge.code.overflowed) {
        sort_rules(&merge);
        emit_blocks(&merge);
        emit_front(&merge);
    }
    return finish(&merge, out, ret_len, err);
}

int seccomp_merge_rules(const struct sock_filter *base, size_t base_len, const struct seccomp_rule *rules,
                        size_t count, struct sock_filter *out, size_t out_capacity, size_t *ret_len,
                        struct kern_error *err)
{
    return seccomp_merge_rules_in(seccomp_native(), base, base_len, rules, count, out, out_capacity, ret_len,
                                  err);
}

int seccomp_guard_terminal(uint32_t audit_arch, int32_t ioctl_nr, const struct sock_filter *base,
                           size_t base_len, struct sock_filter *out, size_t out_capacity, size_t *ret_len,
                           struct kern_error *err)
{
    /* A rule that answers nothing new: the guard comes with any rule for ioctl. */
    const struct seccomp_arch arch = {.audit = audit_arch, .ioctl = ioctl_nr};
    const struct seccomp_rule guard = {
        .nr = ioctl_nr,
        .arg_count = 1,
        .arg = {{.index = 1, .op = SECCOMP_OP_MASKED_EQ, .value = TIOCSTI, .mask = UINT32_MAX}},
        .action = SECCOMP_RET_ERRNO | EPERM,
    };
    return seccomp_merge_rules_in(&arch, base, base_len, &guard, 1, out, out_capacity, ret_len, err);
}
