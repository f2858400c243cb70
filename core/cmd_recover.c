/* `kern recover`: what boxes left behind whose supervisor was killed. Host side. */
#include "cmd.h"

#include "cleanup.h"
#include "log.h"
#include "registry.h"

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

int core_cmd_recover(struct core_call *call, struct kern_error *err)
{
    struct found found = {0};
    bool dry = kern_get_int(&call->flags, "dry-run") != 0;
    (void)err; /* what fails here is found when standard output is closed */
    core_registry_list_lost(show, &found);
    (void)fflush(stdout); /* the list first; checked below */
    if (!dry)
        core_registry_sweep_all();
    (void)printf("%s %u killed box%s, %.1fM of disk\n", dry ? "would clear up after" : "cleared up after",
                 found.boxes, found.boxes == 1 ? "" : "es", (double)found.bytes / 1048576.0); /* as above */
    return core_log_close_stdout();
}
