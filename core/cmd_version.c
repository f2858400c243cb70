/* `kern version`: one line that programs read as "kern VERSION". Host side. */
#include "args.h"
#include "cmd.h"
#include "help.h"
#include "log.h"

int core_cmd_version(int argc, char **argv)
{
    struct kern_error err = {0};
    int words = 0;
    bool help = false;
    if (core_args_verb(argc, argv, NULL, NULL, 0, &words, &help, &err) < 0) {
        core_log_error(&err);
        return 1;
    }
    if (help)
        return core_help_print(core_verb_find("version"));
    printf("kern %s\n", KERN_VERSION);
    return core_log_close_stdout();
}
