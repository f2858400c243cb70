/* A classic-BPF interpreter, of the size that seccomp programs need; see bpf_vm.h. Test code. */
#include "bpf_vm.h"

#include <errno.h>
#include <string.h>

struct machine {
    uint32_t a;
    uint32_t x;
    uint32_t memory[BPF_MEMWORDS];
    const struct seccomp_data *data;
};

static int load(struct machine *machine, const struct sock_filter *now)
{
    switch (now->code) {
    case BPF_LD | BPF_W | BPF_ABS:
        if (now->k % 4 != 0 || now->k >= sizeof(*machine->data))
            return -EINVAL;
        memcpy(&machine->a, (const char *)machine->data + now->k, sizeof(machine->a));
        return 0;
    case BPF_LD | BPF_W | BPF_LEN:
        machine->a = sizeof(*machine->data);
        return 0;
    case BPF_LD | BPF_IMM:
        machine->a = now->k;
        return 0;
    case BPF_LDX | BPF_IMM:
        machine->x = now->k;
        return 0;
    case BPF_LD | BPF_MEM:
    case BPF_LDX | BPF_MEM:
        if (now->k >= BPF_MEMWORDS)
            return -EINVAL;
        *(BPF_CLASS(now->code) == BPF_LD ? &machine->a : &machine->x) = machine->memory[now->k];
        return 0;
    default:
        return -EINVAL;
    }
}

static int store(struct machine *machine, const struct sock_filter *now)
{
    if (now->k >= BPF_MEMWORDS)
        return -EINVAL;
    machine->memory[now->k] = BPF_CLASS(now->code) == BPF_ST ? machine->a : machine->x;
    return 0;
}

static int compute(struct machine *machine, const struct sock_filter *now)
{
    uint32_t operand = BPF_SRC(now->code) == BPF_X ? machine->x : now->k;
    switch (BPF_OP(now->code)) {
    case BPF_ADD:
        machine->a += operand;
        return 0;
    case BPF_SUB:
        machine->a -= operand;
        return 0;
    case BPF_AND:
        machine->a &= operand;
        return 0;
    case BPF_OR:
        machine->a |= operand;
        return 0;
    case BPF_XOR:
        machine->a ^= operand;
        return 0;
    case BPF_NEG:
        machine->a = -machine->a;
        return 0;
    case BPF_LSH:
        machine->a = operand < 32 ? machine->a << operand : 0;
        return 0;
    case BPF_RSH:
        machine->a = operand < 32 ? machine->a >> operand : 0;
        return 0;
    default:
        return -EINVAL;
    }
}

/* The distance to jump, or -EINVAL. */
static int64_t jump(const struct machine *machine, const struct sock_filter *now)
{
    uint32_t operand = BPF_SRC(now->code) == BPF_X ? machine->x : now->k;
    switch (BPF_OP(now->code)) {
    case BPF_JA:
        return now->k;
    case BPF_JEQ:
        return machine->a == operand ? now->jt : now->jf;
    case BPF_JGT:
        return machine->a > operand ? now->jt : now->jf;
    case BPF_JGE:
        return machine->a >= operand ? now->jt : now->jf;
    case BPF_JSET:
        return (machine->a & operand) != 0 ? now->jt : now->jf;
    default:
        return -EINVAL;
    }
}

static int step(struct machine *machine, const struct sock_filter *now, size_t *at)
{
    int64_t distance = 0;
    int failed = 0;
    switch (BPF_CLASS(now->code)) {
    case BPF_LD:
    case BPF_LDX:
        failed = load(machine, now);
        break;
    case BPF_ST:
    case BPF_STX:
        failed = store(machine, now);
        break;
    case BPF_ALU:
        failed = compute(machine, now);
        break;
    case BPF_JMP:
        distance = jump(machine, now);
        break;
    default: /* BPF_MISC; returns never get here */
        *(BPF_MISCOP(now->code) == BPF_TAX ? &machine->x : &machine->a) =
            BPF_MISCOP(now->code) == BPF_TAX ? machine->a : machine->x;
        break;
    }
    *at += (size_t)distance + 1;
    return distance < 0 ? -EINVAL : failed;
}

int bpf_vm_run(const struct sock_filter *program, size_t length, const struct seccomp_data *data,
               uint32_t *ret_action, unsigned *ret_steps)
{
    struct machine machine = {.data = data};
    unsigned steps = 0;
    if (length > BPF_MAXINSNS)
        return -EINVAL;
    for (size_t at = 0; at < length;) {
        const struct sock_filter *now = &program[at];
        steps++;
        if (BPF_CLASS(now->code) == BPF_RET) {
            *ret_action = BPF_RVAL(now->code) == BPF_A ? machine.a : now->k;
            *ret_steps = steps;
            return 0;
        }
        int failed = step(&machine, now, &at);
        if (failed != 0)
            return failed;
    }
    return -EINVAL;
}
