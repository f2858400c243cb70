/* From argv to a verb. Host side. */
#ifndef CORE_DISPATCH_H
#define CORE_DISPATCH_H

/* Runs the verb that argv[1] names, or prints what is wrong with it. Returns the exit code. */
int core_dispatch(int argc, char **argv);

#endif
