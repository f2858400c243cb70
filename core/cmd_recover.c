/* `kern recover`: what boxes left behind whose supervisor was killed. Host side. */
#include "cmd.h"

#include "cleanup.h"
#include "log.h"
#include "registry.h"
#include "strays.h"

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

static void show_stray(const char *path)
{
    char clean[1024];
    core_escape(path, clean, sizeof(clean));
    (void)printf("empty group without a record\n  group %s\n",
                 clean); /* checked when standard output is closed */
}

int core_cmd_recover(struct core_call *call, struct kern_error *err)
{
    struct found found = {0};
    cleanup(core_strays_clear) struct core_strays strays = {0};
    bool dry = kern_get_int(&call->flags, "dry-run") != 0;
    (void)err; /* what fails here is found when standard output is closed */
    core_registry_list_lost(show, &found);
    core_strays_find(&strays);
    for (size_t i = 0; i < strays.count; i++)
        show_stray(strays.path[i]);
    (void)fflush(stdout); /* the list first; checked below */
    if (!dry) {
        core_registry_sweep_all();
        core_strays_remove(&strays);
    }
    (void)printf("%s %u killed box%s, %.1fM of disk\n", dry ? "would clear up after" : "cleared up after",
                 found.boxes, found.boxes == 1 ? "" : "es", (double)found.bytes / 1048576.0); /* as above */
    return core_log_close_stdout();
}
