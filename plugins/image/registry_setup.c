/* Makes the job of a pull or a login, and the process that does it; see registry_setup.h. Runs in kern itself. */
#include "registry_setup.h"

#include "registry_confine.h"
#include "registry_login.h"
#include "registry_wire.h"

#include "kern/cleanup.h"

#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define HUB    IMAGE_DEFAULT_HOST
#define CA_MAX ((off_t)4 << 20)

void registry_job_clear(struct registry_job *job)
{
    if (job == NULL)
        return;
    if (job->endpoint != NULL)
        explicit_bzero(job->endpoint, REGISTRY_ENDPOINTS_MAX * sizeof(*job->endpoint));
    free(job->endpoint);
    free(job->ca);
    *job = (struct registry_job){0};
}

static bool is_prefix(const char *path)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789._-/";
    return path[strspn(path, allowed)] == '\0' && strstr(path, "..") == NULL && strstr(path, "//") == NULL;
}

int registry_mirror_read(const char *text, const char *registry, char ret_host[300], char ret_prefix[200],
                         struct kern_error *err)
{
    const char *equals = strchr(text, '='), *host = equals != NULL ? equals + 1 : text;
    size_t length = strcspn(host, "/"), rest = strlen(host + length);
    if (rest > 0 && host[length + rest - 1] == '/')
        rest--;
    if (length == 0 || length >= 300 || rest >= 198 || !is_prefix(host + length)) {
        int r = kern_refuse(err, 0, "\"%.200s\" is not a mirror", text);
        kern_hint(err, "in kern.toml: [registry] mirrors = [\"HOST:PORT\"] or [\"REGISTRY=HOST:PORT/PATH\"]");
        return r;
    }
    size_t named = equals != NULL ? (size_t)(equals - text) : 0;
    bool ours = equals == NULL ? strcasecmp(registry, HUB) == 0
                               : strlen(registry) == named && strncasecmp(registry, text, named) == 0;
    if (!ours)
        return 0;
    memcpy(ret_host, host, length);
    ret_host[length] = '\0';
    /* "/path/" becomes "path/". */
    (void)snprintf(ret_prefix, 200, "%.*s%s", rest > 1 ? (int)rest - 1 : 0, host + length + 1,
                   rest > 1 ? "/" : "");
    return 1;
}

static int add_endpoint(struct registry_job *job, const char *name, const char *prefix,
                        struct kern_error *err)
{
    if (job->endpoint_count == REGISTRY_ENDPOINTS_MAX)
        return kern_refuse(err, 0, "there are more than %u mirrors", REGISTRY_ENDPOINTS_MAX - 1);
    struct registry_endpoint *endpoint = &job->endpoint[job->endpoint_count];
    int r =
        registry_url_base(&job->policy, name, endpoint->base, sizeof(endpoint->base), &endpoint->place, err);
    if (r < 0)
        return r;
    (void)snprintf(endpoint->name, sizeof(endpoint->name), "%s", name);       /* judged above */
    (void)snprintf(endpoint->prefix, sizeof(endpoint->prefix), "%s", prefix); /* as long */
    job->endpoint_count++;
    return 0;
}

static int read_ca(const char *path, struct registry_job *job, struct kern_error *err)
{
    struct stat st;
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0)
        return kern_refuse(err, errno, "cannot read the certificates \"%s\" of [registry] ca_file", path);
    if (!S_ISREG(st.st_mode) || st.st_size > CA_MAX)
        return kern_refuse(err, 0, "\"%s\" of [registry] ca_file is not a file of certificates", path);
    auto_free char *text = malloc((size_t)st.st_size + 1);
    if (text == NULL)
        return kern_fail(err, ENOMEM, "cannot read \"%s\"", path);
    ssize_t got = read(fd, text, (size_t)st.st_size);
    if (got < 0)
        return kern_refuse(err, errno, "cannot read \"%s\"", path);
    text[got] = '\0';
    if (strstr(text, "-----BEGIN CERTIFICATE-----") == NULL)
        return kern_refuse(err, 0, "\"%s\" of [registry] ca_file holds no certificate", path);
    job->ca_length = (size_t)got;
    job->ca = steal_ptr(text);
    return 0;
}

/* What does not depend on what is asked for. */
static int begin(const kern_values *settings, struct registry_job *job, struct kern_error *err)
{
    uint32_t plain = kern_get_count(settings, "plain-http");
    job->socket = -1;
    job->stall_ms = kern_get_int(settings, "stall-timeout");
    job->attempts = (uint32_t)kern_get_int(settings, "attempts");
    job->parallel = (uint32_t)kern_get_int(settings, "parallel");
    if (plain > REGISTRY_PLAIN_MAX)
        return kern_refuse(err, 0, "[registry] plain_http names more than %u registries", REGISTRY_PLAIN_MAX);
    for (uint32_t i = 0; i < plain; i++)
        job->plain[i] = kern_get_item(settings, "plain-http", i);
    job->policy = (struct registry_policy){.plain = job->plain, .plain_count = plain};
    job->endpoint = calloc(REGISTRY_ENDPOINTS_MAX, sizeof(*job->endpoint));
    if (job->endpoint == NULL)
        return kern_fail(err, ENOMEM, "cannot keep the list of registries");
    const char *ca = kern_get_string(settings, "ca-file");
    return ca != NULL ? read_ca(ca, job, err) : 0;
}

static int add_mirrors(const kern_values *settings, const char *registry, struct registry_job *job,
                       struct kern_error *err)
{
    for (uint32_t i = 0; i < kern_get_count(settings, "mirrors"); i++) {
        char host[300], prefix[200];
        int r = registry_mirror_read(kern_get_item(settings, "mirrors", i), registry, host, prefix, err);
        if (r == 1)
            r = add_endpoint(job, host, prefix, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int registry_setup(const struct image_ref *ref, const char *platform, const kern_values *settings,
                   struct registry_job *job, struct kern_error *err)
{
    job->ref = *ref;
    image_platform_native(&job->wanted);
    int r = begin(settings, job, err);
    if (r == 0 && platform != NULL)
        r = image_platform_parse(platform, &job->wanted, err);
    r = r < 0 ? r : add_mirrors(settings, ref->host, job, err);
    r = r < 0 ? r : add_endpoint(job, ref->host, "", err);
    for (uint32_t i = 0; r == 0 && i < job->endpoint_count; i++)
        r = registry_credentials_get(job->endpoint[i].name, &job->endpoint[i].credentials, err);
    return r;
}

int registry_setup_login(const char *registry, const struct registry_credentials *credentials,
                         const kern_values *settings, struct registry_job *job, struct kern_error *err)
{
    int r = begin(settings, job, err);
    r = r < 0 ? r : add_endpoint(job, registry, "", err);
    if (r == 0)
        job->endpoint[0].credentials = *credentials;
    return r;
}

int registry_start(struct registry_job *job, void (*run)(const struct registry_job *job), int *ret_socket,
                   int *ret_pid, struct kern_error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return kern_fail(err, errno, "cannot talk to a worker");
    auto_fd ours = pair[0];
    auto_fd theirs = pair[1];
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        return kern_fail(err, errno, "cannot start a worker");
    if (pid == 0) {
        struct kern_error failure = {0};
        job->socket = theirs;
        if (registry_confine(theirs, parent, &failure) < 0) {
            (void)wire_send(theirs, WIRE_ERROR, 0, 0, &failure, sizeof(failure)); /* the end tells as well */
            _exit(1);
        }
        run(job);
        _exit(1); /* it does not return */
    }
    *ret_socket = steal_fd(&ours);
    *ret_pid = pid;
    return 0;
}
