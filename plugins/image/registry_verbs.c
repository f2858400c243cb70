/* Login and logout, from kern's side. Runs in kern itself: the verbs `login` and `logout`. */
#include "registry.h"

#include "kern/foundation.h"
#include "registry_login.h"
#include "registry_setup.h"
#include "registry_wire.h"
#include "registry_worker.h"

#include "kern/cleanup.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

static void drop_settings(kern_values **settings)
{
    kern_registry_close(*settings);
}

static int take_frame(const struct wire_frame *frame, const void *payload, struct registry_login *login,
                      struct kern_error *err)
{
    if (frame->type == WIRE_NOTE)
        login->open = 1;
    if (frame->type == WIRE_END)
        return 1;
    if (frame->type != WIRE_ERROR || frame->length != sizeof(*err))
        return 0;
    memcpy(err, payload, sizeof(*err));
    err->message[sizeof(err->message) - 1] = err->hint[sizeof(err->hint) - 1] = '\0';
    return -EIO;
}

/* Until the worker says how it went. Signals end kern, and the worker with it. */
static int listen(int socket, struct registry_login *login, struct kern_error *err)
{
    cleanup(wire_reader_clear) struct wire_reader reader = {0};
    int r = 0;
    while (r == 0) {
        struct pollfd wait = {.fd = socket, .events = POLLIN};
        struct wire_frame frame;
        const void *payload;
        if (poll(&wait, 1, -1) < 0 && errno != EINTR)
            return kern_fail(err, errno, "cannot wait for the registry worker");
        if (wire_reader_fill(&reader, socket) < 0)
            break;
        while (r == 0 && (r = wire_reader_next(&reader, &frame, &payload)) == 1)
            r = take_frame(&frame, payload, login, err);
        if (r == 0 && reader.ended)
            break;
    }
    return r == 1 ? 0 : r < 0 ? r : kern_fail(err, 0, "the registry worker has ended without a word");
}

static int try(const struct registry_credentials *credentials, struct registry_login *login,
               struct kern_error *err)
{
    cleanup(drop_settings) kern_values *settings = NULL;
    cleanup(registry_job_clear) struct registry_job job = {.socket = -1};
    auto_fd socket = -1;
    int pid = 0;
    int r = kern_registry_open(&settings, err);
    r = r < 0 ? r : registry_setup_login(login->registry, credentials, settings, &job, err);
    r = r < 0 ? r : registry_start(&job, registry_worker_login, &socket, &pid, err);
    if (r < 0)
        return r;
    r = listen(socket, login, err);
    (void)kill(pid, SIGKILL);    /* our child, not yet reaped */
    (void)waitpid(pid, NULL, 0); /* it is ours */
    return r;
}

int registry_login(struct registry_login *login, struct kern_error *err)
{
    struct registry_credentials *credentials = calloc(1, sizeof(*credentials));
    if (credentials == NULL)
        return kern_fail(err, ENOMEM, "cannot keep the credentials");
    bool plain = false;
    int r = 0;
    if (strlen(login->user) >= sizeof(credentials->user) ||
        strlen(login->secret) >= sizeof(credentials->secret) || strchr(login->user, ':') != NULL)
        r = kern_refuse(err, 0, "a user's name has no \":\", and neither it nor the password is that long");
    if (r == 0) {
        memcpy(credentials->user, login->user, strlen(login->user) + 1);
        memcpy(credentials->secret, login->secret, strlen(login->secret) + 1);
        r = try(credentials, login, err);
    }
    r = r < 0 ? r : registry_credentials_store(login->registry, credentials, login->where, &plain, err);
    login->plain = plain;
    explicit_bzero(credentials, sizeof(*credentials));
    free(credentials);
    return r;
}

int registry_logout(const char *registry, struct kern_error *err)
{
    return registry_credentials_erase(registry, err);
}
