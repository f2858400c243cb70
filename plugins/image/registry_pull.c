/* A pull, from kern's side: one loop over the worker that talks to registries, the processes that unpack, and the user's
 * Ctrl-C. Runs in kern itself: the verb `pull`, or prepare of the image plugin. Stores what comes, under its digest. */
#include "registry.h"

#include "image_machine.h"
#include "registry_setup.h"
#include "registry_state.h"
#include "registry_worker.h"

#include "kern/cleanup.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#define TICK 100 /* ms: how often bars move and other processes' layers are looked after */

static void stop_worker(struct pull *pull)
{
    kern_close_fd(&pull->socket);
    if (pull->pid > 0) {
        (void)kill(pull->pid, SIGKILL);    /* our child, not yet reaped */
        (void)waitpid(pull->pid, NULL, 0); /* it is ours */
    }
    pull->pid = 0;
}

static int listen_to_worker(struct pull *pull, struct kern_error *err)
{
    struct wire_frame frame;
    const void *payload;
    int r = wire_reader_fill(&pull->reader, pull->socket);
    if (r < 0)
        return kern_fail(err, -r, "cannot listen to the registry worker");
    while ((r = wire_reader_next(&pull->reader, &frame, &payload)) == 1) {
        r = pull_take(pull, &frame, payload, err);
        if (r < 0)
            return r;
    }
    if (r < 0 || pull->reader.ended)
        return kern_fail(err, 0, "the registry worker has ended without a word");
    return 0;
}

static int listen_to_unpackers(struct pull *pull, struct kern_error *err)
{
    for (uint32_t i = 0; pull->layer != NULL && i < pull->parts->count; i++) {
        struct pull_layer *layer = &pull->layer[i];
        if (layer->stage != PULL_OPENING)
            continue;
        int r = registry_unpack_read(&layer->unpack, pull->store, err);
        if (r < 0)
            return r;
        if (r == 0)
            continue;
        registry_unpack_stop(&layer->unpack);
        layer->stage = PULL_READY;
        pull->unpacking--;
    }
    return 0;
}

static int interrupted(struct pull *pull, struct kern_error *err)
{
    struct signalfd_siginfo which = {.ssi_signo = SIGINT};
    if (read(pull->signals, &which, sizeof(which)) == (ssize_t)sizeof(which))
        pull->request->signal = which.ssi_signo;
    (void)kern_refuse(err, 0, "stopped; what has come is kept, and the next pull goes on from there");
    return -EINTR;
}

static int wait_for_news(struct pull *pull, struct kern_error *err)
{
    struct pollfd wait[2 + IMAGE_LAYERS_MOST] = {{.fd = pull->signals, .events = POLLIN},
                                                 {.fd = pull->socket, .events = POLLIN}};
    nfds_t count = 2;
    for (uint32_t i = 0; pull->layer != NULL && i < pull->parts->count; i++)
        if (pull->layer[i].stage == PULL_OPENING)
            wait[count++] = (struct pollfd){.fd = pull->layer[i].unpack.socket, .events = POLLIN};
    if (poll(wait, count, TICK) < 0 && errno != EINTR)
        return kern_fail(err, errno, "cannot wait for the registry worker");
    if (wait[0].revents != 0)
        return interrupted(pull, err);
    int r = wait[1].revents != 0 ? listen_to_worker(pull, err) : 0;
    return r < 0 ? r : listen_to_unpackers(pull, err);
}

static int loop(struct pull *pull, struct kern_error *err)
{
    uint32_t left = 1;
    for (;;) {
        int r = pull_go_on(pull, &left, err);
        pull_show(pull, left == 0);
        if (r < 0 || left == 0)
            return r;
        r = wait_for_news(pull, err);
        if (r < 0)
            return r;
    }
}

static int commit(struct pull *pull, struct kern_error *err)
{
    return image_store_commit(pull->store, &pull->job->ref, pull->manifest, pull->request->digest, NULL, NULL,
                              err);
}

/* What whoever started kern ignores (nohup, a shell's &) stays so: a descriptor of signals would hear it as well. */
static void choose_signals(sigset_t *ret_stop)
{
    static const int stops[] = {SIGINT, SIGTERM, SIGHUP};
    (void)sigemptyset(ret_stop);
    for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++) {
        struct sigaction now;
        if (sigaction(stops[i], NULL, &now) != 0 || now.sa_handler != SIG_IGN)
            (void)sigaddset(ret_stop, stops[i]); /* valid signals */
    }
}

static int run(struct pull *pull, struct registry_job *job, struct kern_error *err)
{
    sigset_t stop, before;
    choose_signals(&stop);
    (void)sigprocmask(SIG_BLOCK, &stop, &before);
    pull->signals = signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK);
    int r = pull->signals < 0 ? kern_fail(err, errno, "cannot wait for signals")
                              : registry_start(job, registry_worker_pull, &pull->socket, &pull->pid, err);
    r = r < 0 ? r : loop(pull, err);
    stop_worker(pull);
    for (uint32_t i = 0; pull->layer != NULL && i < pull->parts->count; i++)
        registry_unpack_stop(&pull->layer[i].unpack);
    /* What came meanwhile or comes now ends kern, and the store is whole at any moment. */
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return r < 0 ? r : commit(pull, err);
}

/* A digest means one thing for ever: what is here already needs no registry. */
static int is_here(struct pull *pull)
{
    struct image_resolved image = {0};
    struct image_parts *parts = calloc(1, sizeof(*parts));
    char full[IMAGE_REF_SIZE], wanted[80];
    image_ref_full(&pull->job->ref, full);
    image_platform_print(&pull->job->wanted, wanted, sizeof(wanted));
    int here = pull->job->ref.digest[0] != '\0' && parts != NULL &&
               image_resolved_read(pull->store->refs, full, &image) == 0 &&
               (pull->request->platform == NULL || strcmp(image.platform, wanted) == 0) &&
               image_resolved_parts(&image, parts) == 0;
    for (uint32_t i = 0; here != 0 && i < parts->count; i++)
        here = image_store_has_layer(pull->store, parts->layer[i].diff);
    if (here != 0)
        memcpy(pull->request->digest, pull->job->ref.digest, IMAGE_DIGEST_SIZE);
    image_resolved_clear(&image);
    free(parts);
    return here;
}

/* A reference that means one image, and not a list of them, is pulled whatever it is made for. */
static void note_machine(struct pull *pull)
{
    struct image_resolved image = {0};
    char full[IMAGE_REF_SIZE], name[IMAGE_REF_SIZE];
    image_ref_full(&pull->job->ref, full);
    image_ref_short(&pull->job->ref, name);
    if (pull->request->platform != NULL || image_resolved_read(pull->store->refs, full, &image) != 0)
        return;
    int runs = image_machine_runs(image.platform);
    if (runs != IMAGE_RUNS) /* cut where it does not fit */
        (void)snprintf(pull->request->note, sizeof(pull->request->note),
                       "image %s is made for %s, this machine is %s: %s", name, image.platform,
                       image_machine_name,
                       runs == IMAGE_RUNS_EMULATED ? "boxes of it run through binfmt_misc"
                       : runs == IMAGE_RUNS_NOT
                           ? "a box of it needs an emulator in binfmt_misc (Debian: qemu-user-static)"
                           : "no box can be made of it");
    image_resolved_clear(&image);
}

static void drop_settings(kern_values **settings)
{
    kern_registry_close(*settings);
}

static void drop_progress(struct kern_progress **progress)
{
    kern_progress_free(*progress);
}

int registry_pull(struct registry_request *request, struct kern_error *err)
{
    cleanup(drop_settings) kern_values *settings = NULL;
    cleanup(registry_job_clear) struct registry_job job = {.socket = -1};
    cleanup(drop_progress) struct kern_progress *progress = NULL;
    int r = kern_registry_open(&settings, err);
    r = r < 0 ? r : registry_setup(&request->ref, request->platform, settings, &job, err);
    if (r < 0)
        return r;
    progress = kern_progress_new(request->lines);
    cleanup(pull_clear) struct pull pull = {
        .request = request, .job = &job, .progress = progress, .socket = -1, .signals = -1};
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    pull.unpack_limit = cpus < 1 ? 1 : cpus > 4 ? 4 : (uint32_t)cpus;
    r = image_store_open(&pull.store, err);
    if (r == 0)
        image_store_set_limits(pull.store, settings);
    if (r == 0 && !is_here(&pull))
        r = run(&pull, &job, err);
    if (r == 0)
        note_machine(&pull);
    return r;
}

int image_registry_pull(const char *text, struct kern_error *err)
{
    struct registry_request request = {.struct_size = sizeof(request)};
    int r = image_ref_parse(text, &request.ref, err);
    return r < 0 ? r : registry_pull(&request, err);
}
