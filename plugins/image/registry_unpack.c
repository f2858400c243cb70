/* Unpacking beside the transfers; see registry_unpack.h. Runs in kern itself and in a child that waits for the unpacker. */
#include "registry_unpack.h"

#include "kern/cleanup.h"
#include "kern/sys.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

static void on_progress(void *data, uint64_t done, uint64_t total)
{
    const int *socket = data;
    uint64_t figures[2] = {done, total};
    /* Not worth waiting for: the next one says more. */
    struct wire_frame frame = {.type = WIRE_PROGRESS, .length = sizeof(figures)};
    char bytes[sizeof(frame) + sizeof(figures)];
    memcpy(bytes, &frame, sizeof(frame));
    memcpy(bytes + sizeof(frame), figures, sizeof(figures));
    (void)send(*socket, bytes, sizeof(bytes),
               MSG_DONTWAIT | MSG_NOSIGNAL); /* whole or not at all: it is tiny */
}

_Noreturn static void run(int socket, pid_t parent, struct image_store *store,
                          const struct image_layer *layer)
{
    struct kern_error err = {0};
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    sys_end_with(parent);
    uint32_t before = store->pending_count;
    int r = image_store_unpack(store, layer->blob, layer->diff, on_progress, &socket, &err);
    /* None is pending when another process was first. */
    const struct image_pending *made = store->pending_count > before ? &store->pending[before] : NULL;
    if (r < 0)
        (void)wire_send(socket, WIRE_ERROR, 0, 0, &err, sizeof(err)); /* without kern nobody misses it */
    else
        (void)wire_send(socket, WIRE_END, 0, 0, made, made != NULL ? sizeof(*made) : 0); /* as above */
    _exit(0);
}

int registry_unpack_start(struct registry_unpack *unpack, struct image_store *store,
                          const struct image_layer *layer, struct kern_error *err)
{
    int pair[2], failed = image_keep_ids(&store->ids, err);
    if (failed != 0)
        return failed;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return kern_fail(err, errno, "cannot unpack layer %.19s", layer->blob);
    auto_fd ours = pair[0];
    auto_fd theirs = pair[1];
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        return kern_fail(err, errno, "cannot start a process to unpack layer %.19s", layer->blob);
    if (pid == 0)
        run(theirs, parent, store, layer);
    unpack->pid = pid;
    unpack->socket = steal_fd(&ours);
    return 0;
}

/* What the child unpacked waits for its sync and its name in this process, which has the store locked all the time. */
static int adopt(struct image_store *store, const struct wire_frame *frame, const void *payload,
                 struct kern_error *err)
{
    struct image_pending made;
    if (frame->length == 0)
        return 1;
    if (frame->length != sizeof(made) || store->pending_count == IMAGE_LAYERS_MOST)
        return kern_fail(err, EPROTO, "cannot keep an unpacked layer");
    memcpy(&made, payload, sizeof(made));
    made.fd = openat(store->layers, made.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (made.fd < 0)
        return kern_fail(err, errno, "cannot open an unpacked layer");
    (void)flock(made.fd,
                LOCK_EX | LOCK_NB); /* the child has it still; gc waits for the lock of the store anyway */
    store->pending[store->pending_count++] = made;
    return 1;
}

int registry_unpack_read(struct registry_unpack *unpack, struct image_store *store, struct kern_error *err)
{
    struct wire_frame frame;
    const void *payload;
    int r = wire_reader_fill(&unpack->reader, unpack->socket);
    while (r == 0 && (r = wire_reader_next(&unpack->reader, &frame, &payload)) == 1) {
        r = 0;
        if (frame.type == WIRE_END)
            return adopt(store, &frame, payload, err);
        if (frame.type == WIRE_ERROR && frame.length == sizeof(*err)) {
            memcpy(err, payload, sizeof(*err));
            return -EIO;
        }
        if (frame.type == WIRE_PROGRESS && frame.length == 2 * sizeof(uint64_t)) {
            memcpy(&unpack->done, payload, sizeof(unpack->done));
            memcpy(&unpack->total, (const char *)payload + sizeof(unpack->done), sizeof(unpack->total));
        }
    }
    if (r < 0 || unpack->reader.ended)
        return kern_fail(err, 0, "the process that unpacks a layer has ended without a word");
    return 0;
}

void registry_unpack_stop(struct registry_unpack *unpack)
{
    if (unpack->pid > 0) {
        (void)kill(unpack->pid, SIGKILL);    /* our child, not yet reaped */
        (void)waitpid(unpack->pid, NULL, 0); /* it is ours */
    }
    unpack->pid = 0;
    kern_close_fd(&unpack->socket);
    wire_reader_clear(&unpack->reader);
}
