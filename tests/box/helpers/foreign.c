/* foreign: a program for another machine, which no box on this one can execute. Built with a cross compiler, never run. */
void probe_start(void);

void probe_start(void)
{
    for (;;)
        continue;
}
