/* foreign: a program for another machine, which no box on this one can execute by itself; with an emulator it ends with 7. Built
 * with a cross compiler. */
void probe_start(void);

void probe_start(void)
{
#if defined(__aarch64__)
    register long number __asm__("x8") = 93, code __asm__("x0") = 7; /* exit */
    __asm__ volatile("svc #0" : : "r"(number), "r"(code));
#endif
    for (;;)
        continue;
}
