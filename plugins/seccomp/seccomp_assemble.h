/* Writes classic BPF from its last instruction to its first, so that every jump target is known when the jump
 * is written and no second pass exists. Pure; used by the build-time generator and, in prepare on the host
 * side, by the merge. */
#ifndef SECCOMP_ASSEMBLE_H
#define SECCOMP_ASSEMBLE_H

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

/* How a 64-bit argument is compared, unsigned as the kernel hands it over. */
#define SECCOMP_OP_EQ        0u
#define SECCOMP_OP_NE        1u
#define SECCOMP_OP_MASKED_EQ 2u
#define SECCOMP_OP_GT        3u
#define SECCOMP_OP_GE        4u
#define SECCOMP_OP_LT        5u
#define SECCOMP_OP_LE        6u
#define SECCOMP_OP_MASKED_NE 7u

struct seccomp_condition {
    uint32_t index; /* 0..5 */
    uint32_t op;    /* SECCOMP_OP_* */
    uint64_t value;
    uint64_t mask; /* read by MASKED_EQ and MASKED_NE only */
};

/* A label counts instructions from the program's end: it stays true while code is put in front. */
typedef size_t seccomp_label;

struct seccomp_code {
    struct sock_filter *slots;
    size_t capacity;
    size_t used;         /* the last `used` of `slots` are filled */
    uint32_t overflowed; /* set once something did not fit; the code is worthless then */
};

/* Puts one instruction in front of everything so far. */
seccomp_label seccomp_emit(struct seccomp_code *code, struct sock_filter instruction);

/* A return of `action`. */
seccomp_label seccomp_emit_return(struct seccomp_code *code, uint32_t action);

/* Loads a word of struct seccomp_data, then goes on at `next`. */
seccomp_label seccomp_emit_load(struct seccomp_code *code, size_t offset, seccomp_label next);

/* Compares the accumulator (`op`: BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET) and goes to either label, however far. */
seccomp_label seccomp_emit_branch(struct seccomp_code *code, uint16_t op, uint32_t value, seccomp_label yes,
                                  seccomp_label no);

/* Compares one argument; loses the accumulator. */
seccomp_label seccomp_emit_condition(struct seccomp_code *code, const struct seccomp_condition *condition,
                                     seccomp_label yes, seccomp_label no);

#endif
