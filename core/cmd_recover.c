/* `kern recover`: what boxes left behind whose supervisor was killed. Host side. */
#include "cmd.h"

#include "args.h"
#include "cleanup.h"
#include "help.h"
#include "log.h"
#include "registry.h"
#include "verbs.h"

#include <stdio.h>
#include <string.h>

struct found {
    unsigned boxes;
    uint64_t bytes;
};

static void show(void *context, const char *box, const char *kind, const char *what, uint64_t bytes)
{
    struct found *found = context;
    char clean[1024];
    core_escape(what, clean, sizeof(clean));
    found->bytes += bytes;
    if (strcmp(kind, "record") == 0) {
        found->boxes++;
        (void)printf("box '%s' (pid %s)\n", box, clean); /* checked when standard output is closed */
    } else if (bytes > 0) {
        (void)printf("  %s %s, %.1fM\n", kind, clean, (double)bytes / 1048576.0); /* as above */
    } else {
        (void)printf("  %s %s\n", kind, clean); /* as above */
    }
}

int core_cmd_recover(int argc, char **argv)
{
    cleanup(core_values_clear) struct kern_values flags = {0};
    struct kern_error err = {0};
    struct found found = {0};
    int words = 0;
    bool help = false;
    const struct core_verb *verb = core_verb_find(argv[0]);
    int failed = core_args_verb(argc, argv, verb->options, &flags, 0, &words, &help, &err);
    if (failed == 0 && help)
        return core_help_print(verb);
    if (failed != 0) {
        core_log_error(&err);
        return 1;
    }
    bool dry = kern_get_int(&flags, "dry-run") != 0;
    core_registry_list_lost(show, &found);
    (void)fflush(stdout); /* the list first; checked below */
    if (!dry)
        core_registry_sweep_all();
    (void)printf("%s %u killed box%s, %.1fM of disk\n", dry ? "would clear up after" : "cleared up after",
                 found.boxes, found.boxes == 1 ? "" : "es", (double)found.bytes / 1048576.0); /* as above */
    return core_log_close_stdout();
}
