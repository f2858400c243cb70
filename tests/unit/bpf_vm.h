/* Runs a seccomp program over one struct seccomp_data, as the kernel would, and counts the steps. Test code. */
#ifndef TESTS_BPF_VM_H
#define TESTS_BPF_VM_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>

/* 0, or -EINVAL for a program that the kernel would refuse or that runs off its end. */
int bpf_vm_run(const struct sock_filter *program, size_t length, const struct seccomp_data *data,
               uint32_t *ret_action, unsigned *ret_steps);

#endif
