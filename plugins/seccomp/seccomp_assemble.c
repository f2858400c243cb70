/* The backward assembler; see seccomp_assemble.h. Pure, no allocation. */
#include "seccomp_assemble.h"

#include <linux/seccomp.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the halves of an argument are read in little-endian order"
#endif

#define NEAREST_JUMP_LIMIT 255u /* a conditional jump holds its distance in eight bits */

static const struct sock_filter *instruction_at(const struct seccomp_code *code, seccomp_label label)
{
    return &code->slots[code->capacity - label];
}

seccomp_label seccomp_emit(struct seccomp_code *code, struct sock_filter instruction)
{
    if (code->used >= code->capacity) {
        code->overflowed = 1;
        return code->used;
    }
    code->used++;
    code->slots[code->capacity - code->used] = instruction;
    return code->used;
}

seccomp_label seccomp_emit_return(struct seccomp_code *code, uint32_t action)
{
    return seccomp_emit(code, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

/* A stand-in, right here, for a label that may be out of reach. A return is copied rather than jumped to: the
 * same size, one step less. */
static seccomp_label emit_stand_in(struct seccomp_code *code, seccomp_label target)
{
    if (target == 0 || target > code->used)
        return target;
    struct sock_filter there = *instruction_at(code, target);
    if (BPF_CLASS(there.code) == BPF_RET)
        return seccomp_emit(code, there);
    return seccomp_emit(code,
                        (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (uint32_t)(code->used - target)));
}

seccomp_label seccomp_emit_load(struct seccomp_code *code, size_t offset, seccomp_label next)
{
    if (next != code->used)
        (void)emit_stand_in(code, next); /* it lands at the place that the load falls through to */
    return seccomp_emit(code, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static seccomp_label within_reach(struct seccomp_code *code, seccomp_label target, size_t still_to_come)
{
    if (code->used - target + still_to_come <= NEAREST_JUMP_LIMIT)
        return target;
    return emit_stand_in(code, target);
}

seccomp_label seccomp_emit_branch(struct seccomp_code *code, uint16_t op, uint32_t value, seccomp_label yes,
                                  seccomp_label no)
{
    yes = within_reach(code, yes, 1); /* the other side may need a stand-in in between */
    no = within_reach(code, no, 0);
    struct sock_filter jump = BPF_JUMP((uint16_t)(BPF_JMP | op | BPF_K), value, (uint8_t)(code->used - yes),
                                       (uint8_t)(code->used - no));
    return seccomp_emit(code, jump);
}

static size_t low_half(uint32_t index)
{
    return offsetof(struct seccomp_data, args) + index * sizeof(uint64_t);
}

static size_t high_half(uint32_t index)
{
    return low_half(index) + sizeof(uint32_t);
}

static seccomp_label emit_equal(struct seccomp_code *code, const struct seccomp_condition *condition,
                                seccomp_label yes, seccomp_label no)
{
    seccomp_label low = seccomp_emit_branch(code, BPF_JEQ, (uint32_t)condition->value, yes, no);
    low = seccomp_emit_load(code, low_half(condition->index), low);
    seccomp_label high = seccomp_emit_branch(code, BPF_JEQ, (uint32_t)(condition->value >> 32), low, no);
    return seccomp_emit_load(code, high_half(condition->index), high);
}

static seccomp_label emit_masked_half(struct seccomp_code *code, size_t offset, uint32_t mask, uint32_t value,
                                      seccomp_label yes, seccomp_label no)
{
    if (mask == 0)
        return yes;
    seccomp_label at = seccomp_emit_branch(code, BPF_JEQ, value, yes, no);
    if (mask != UINT32_MAX)
        at = seccomp_emit(code, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
    return seccomp_emit_load(code, offset, at);
}

static seccomp_label emit_masked_equal(struct seccomp_code *code, const struct seccomp_condition *condition,
                                       seccomp_label yes, seccomp_label no)
{
    seccomp_label low = emit_masked_half(code, low_half(condition->index), (uint32_t)condition->mask,
                                         (uint32_t)condition->value, yes, no);
    return emit_masked_half(code, high_half(condition->index), (uint32_t)(condition->mask >> 32),
                            (uint32_t)(condition->value >> 32), low, no);
}

/* `low_op` decides when the high halves are equal: BPF_JGT for "greater", BPF_JGE for "greater or equal". */
static seccomp_label emit_above(struct seccomp_code *code, const struct seccomp_condition *condition,
                                uint16_t low_op, seccomp_label yes, seccomp_label no)
{
    uint32_t high_value = (uint32_t)(condition->value >> 32);
    seccomp_label low = seccomp_emit_branch(code, low_op, (uint32_t)condition->value, yes, no);
    low = seccomp_emit_load(code, low_half(condition->index), low);
    seccomp_label same = seccomp_emit_branch(code, BPF_JEQ, high_value, low, no);
    seccomp_label high = seccomp_emit_branch(code, BPF_JGT, high_value, yes, same);
    return seccomp_emit_load(code, high_half(condition->index), high);
}

seccomp_label seccomp_emit_condition(struct seccomp_code *code, const struct seccomp_condition *condition,
                                     seccomp_label yes, seccomp_label no)
{
    switch (condition->op) {
    case SECCOMP_OP_EQ:
        return emit_equal(code, condition, yes, no);
    case SECCOMP_OP_NE:
        return emit_equal(code, condition, no, yes);
    case SECCOMP_OP_MASKED_EQ:
        return emit_masked_equal(code, condition, yes, no);
    case SECCOMP_OP_MASKED_NE:
        return emit_masked_equal(code, condition, no, yes);
    case SECCOMP_OP_GT:
        return emit_above(code, condition, BPF_JGT, yes, no);
    case SECCOMP_OP_GE:
        return emit_above(code, condition, BPF_JGE, yes, no);
    case SECCOMP_OP_LT:
        return emit_above(code, condition, BPF_JGE, no, yes);
    case SECCOMP_OP_LE:
        return emit_above(code, condition, BPF_JGT, no, yes);
    default:
        return no; /* callers refuse an unknown comparison before they come here */
    }
}
