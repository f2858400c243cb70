/* `kern examples`: the compiled-in kern.toml with every key, then a few command lines. Host side. */
#include "cmd.h"

#include "config_internal.h"
#include "log.h"

#include <stdio.h>

/* Comments, so that the whole output is a kern.toml. */
static const char command_lines[] =
    "\n# ---- Command lines "
    "---------------------------------------------------------------------------------------\n"
    "# kern box                                     a shell in a box, with the programs of this machine\n"
    "# kern box vcpu:heavy -- python3 job.py        with the limits of a profile\n"
    "# kern box -m 256m --cpus 0.5 --timeout 10 -- sh -c 'echo hello'\n"
    "# kern box -v \"$PWD:/work:ro\" -w /work -- make -n\n"
    "# kern box --rootfs ./rootfs --read-only --tmpfs /tmp:64m -- /bin/sh\n"
    "# kern box --security-profile untrusted --report result.json -- ./unknown-program\n"
    "# kern box --plan vcpu:heavy                   what would be done, without doing it\n";

int core_cmd_examples(struct core_call *call, struct kern_error *err)
{
    (void)call;
    (void)err; /* what fails here is found when standard output is closed */
    (void)fwrite(core_config_example, 1, core_config_example_size, stdout);
    (void)fputs(command_lines, stdout);
    return core_log_close_stdout() != 0 ? 1 : 0;
}
