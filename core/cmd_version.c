/* `kern version`: one line that programs read as "kern VERSION". Host side. */
#include "cmd.h"
#include "log.h"

#include <stdio.h>

int core_cmd_version(struct core_call *call, struct kern_error *err)
{
    (void)call;
    (void)err; /* what fails here is found when standard output is closed */
    (void)printf("kern %s\n", KERN_VERSION);
    return core_log_close_stdout();
}
