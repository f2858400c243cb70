/* clone3(2) for a child that starts in a function, on a stack of its own (args->stack set) or on a copy of the
 * parent's (args->stack 0). glibc wraps neither. Used by core/launch.c on the host side and in the outer init.
 *
 *   long core_clone3(struct clone_args *args, size_t size, int (*fn)(void *), void *arg);
 */
#if defined(__x86_64__)
        .text
        .globl core_clone3
        .hidden core_clone3
        .type core_clone3, @function
core_clone3:
        .cfi_startproc
        movq    %rcx, %r8               /* the kernel clobbers rcx */
        movl    $435, %eax
        syscall
        testq   %rax, %rax
        jz      1f
        ret
1:      .cfi_undefined rip
        xorl    %ebp, %ebp              /* the outermost frame */
        andq    $-16, %rsp              /* a copied stack stands in the middle of a call */
        movq    %r8, %rdi
        call    *%rdx
        movl    %eax, %edi
        movl    $231, %eax              /* exit_group */
        syscall
        hlt
        .cfi_endproc
        .size core_clone3, .-core_clone3
#elif defined(__aarch64__)
        .text
        .globl core_clone3
        .hidden core_clone3
        .type core_clone3, %function
core_clone3:
        .cfi_startproc
        mov     x8, #435
        svc     #0
        cbz     x0, 1f
        ret
1:      .cfi_undefined x30
        mov     x29, xzr                /* the outermost frame */
        mov     x0, x3
        blr     x2
        mov     x8, #94                 /* exit_group */
        svc     #0
        brk     #0
        .cfi_endproc
        .size core_clone3, .-core_clone3
#endif
        .section .note.GNU-stack, "", %progbits
