/* What a start needs only when something is missing; see image_fetch.h. kern itself supervises a box afterwards, so the objects
 * with libcurl and libarchive are opened by a child of it, which tells through a pipe how it ended. */
#include "image_fetch.h"

#include "kern/cleanup.h"
#include "kern/sys.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

typedef int (*fetch_fn)(const char *text, struct kern_error *err);
typedef int (*repair_fn)(const char *full, int want_range, struct kern_error *err);
typedef int (*fill_fn)(const struct image_fill *fill, struct kern_error *err);

struct errand {
    const char *object, *function, *text;
    int want_range;
    const struct image_fill *fill; /* of a volume */
    int is_fetch;
};

static int do_errand(kern_box *box, const struct errand *errand, struct kern_error *err)
{
    void *found = kern_companion(box, errand->object, errand->function, err);
    if (found == NULL)
        return -ENOENT;
    /* A function pointer through a union: the language has no cast for it. */
    union {
        void *object;
        fetch_fn fetch;
        repair_fn repair;
        fill_fn fill;
    } call = {.object = found};
    return errand->fill != NULL ? call.fill(errand->fill, err)
           : errand->is_fetch   ? call.fetch(errand->text, err)
                                : call.repair(errand->text, errand->want_range, err);
}

static int run_errand(kern_box *box, const struct errand *errand, struct kern_error *err)
{
    int pipe_fd[2];
    if (pipe2(pipe_fd, O_CLOEXEC) != 0)
        return kern_refuse(err, errno, "cannot make a pipe");
    auto_fd in = pipe_fd[0], out = pipe_fd[1];
    (void)fflush(NULL); /* or the child would print it, too */
    pid_t self = getpid(), pid = fork();
    if (pid == 0) {
        struct kern_error told = {0};
        sys_end_with(self);
        int failed = do_errand(box, errand, &told);
        if (failed != 0 && write(out, &told, sizeof(told)) != (ssize_t)sizeof(told))
            _exit(2);
        _exit(failed != 0 ? 1 : 0);
    }
    kern_close_fd(&out);
    if (pid < 0)
        return kern_refuse(err, errno, "cannot start a process for the image");
    struct kern_error told = {0};
    ssize_t got = read(in, &told, sizeof(told));
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (got == (ssize_t)sizeof(told) && told.category != KERN_ERROR_NONE) {
        *err = told;
        err->category = KERN_ERROR_REFUSED;
        return -(told.code != 0 ? told.code : EINVAL);
    }
    return kern_refuse(err, 0, "cannot have image \"%s\": the process for it ended early", errand->text);
}

int image_fetch(kern_box *box, const char *text, struct kern_error *err)
{
    const struct errand errand = {
        .object = "image_registry", .function = "image_registry_pull", .text = text, .is_fetch = 1};
    return run_errand(box, &errand, err);
}

int image_repair(kern_box *box, const char *full, int want_range, struct kern_error *err)
{
    const struct errand errand = {
        .object = "image_tool", .function = "image_tool_repair", .text = full, .want_range = want_range};
    return run_errand(box, &errand, err);
}

int image_fill(kern_box *box, const char *text, const struct image_fill *fill, struct kern_error *err)
{
    const struct errand errand = {
        .object = "image_tool", .function = "image_tool_fill", .text = text, .fill = fill};
    return run_errand(box, &errand, err);
}

/* ":PATH" as the second part of SRC:PATH[:ro], "dst=PATH", or PATH[:SIZE]. */
static int names_path(const char *item, const char *mark, const char *path)
{
    const char *at = mark[0] != '\0' ? strstr(item, mark) : item;
    size_t length = strlen(path);
    if (at == NULL)
        return 0;
    at += strlen(mark);
    return strncmp(at, path, length) == 0 && (at[length] == '\0' || strchr(":,/", at[length]) != NULL);
}

int image_is_mounted(const kern_values *options, const char *path)
{
    static const char *const where[][2] = {
        {"volume", ":"}, {"mount", "dst="}, {"mount", "target="}, {"mount", "destination="}, {"tmpfs", ""}};
    for (size_t i = 0; i < sizeof(where) / sizeof(where[0]); i++)
        for (uint32_t j = 0; j < kern_get_count(options, where[i][0]); j++)
            if (names_path(kern_get_item(options, where[i][0], j), where[i][1], path))
                return 1;
    return 0;
}
