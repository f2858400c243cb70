/* `kern login [REGISTRY]` and `kern logout [REGISTRY]`: who the user is at a registry. Host side. The password comes from the
 * terminal or from standard input, never from an argument that others can see. */
#include "cmd.h"

#include "image/registry.h"

#include "cleanup.h"
#include "log.h"
#include "plugin.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>

#define SECRET_MAX 16384

/* One line without its end, from a descriptor, byte by byte: what follows is not ours. */
static int read_line(int fd, char *ret_text, size_t size)
{
    size_t used = 0;
    for (;;) {
        char byte;
        ssize_t got = read(fd, &byte, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0 || byte == '\n')
            break;
        if (used + 1 >= size || byte == '\0')
            return -EINVAL;
        ret_text[used++] = byte;
    }
    if (used > 0 && ret_text[used - 1] == '\r')
        used--;
    ret_text[used] = '\0';
    return 0;
}

static int ask(const char *question, bool secret, char *ret_text, size_t size, struct kern_error *err)
{
    auto_fd terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    struct termios before, silent;
    if (terminal < 0 || tcgetattr(terminal, &before) != 0) {
        int r =
            kern_refuse(err, 0, "cannot ask for the %s: there is no terminal", secret ? "password" : "user");
        kern_hint(err, "kern login -u USER --password-stdin REGISTRY < FILE");
        return r;
    }
    silent = before;
    silent.c_lflag &= ~(tcflag_t)ECHO;
    if (write(terminal, question, strlen(question)) < 0 ||
        (secret && tcsetattr(terminal, TCSAFLUSH, &silent) != 0))
        return kern_refuse(err, errno, "cannot ask for the password");
    int r = read_line(terminal, ret_text, size);
    if (secret) {
        (void)tcsetattr(terminal, TCSAFLUSH, &before); /* as it was */
        (void)!write(terminal, "\n", 1);               /* the one that was typed did not show */
    }
    return r < 0 ? kern_refuse(err, -r, "cannot read the answer") : 0;
}

static int get_user(const kern_values *flags, char *ret_user, size_t size, struct kern_error *err)
{
    const char *given = kern_get_string(flags, "user");
    if (given == NULL)
        return ask("User: ", false, ret_user, size, err);
    if (strlen(given) >= size)
        return kern_refuse(err, ENAMETOOLONG, "cannot use this name of a user");
    memcpy(ret_user, given, strlen(given) + 1);
    return 0;
}

static int get_secret(const kern_values *flags, char *ret_secret, size_t size, struct kern_error *err)
{
    int r;
    if (kern_get_int(flags, "password-stdin") == 0) {
        r = ask("Password: ", true, ret_secret, size, err);
    } else {
        r = read_line(STDIN_FILENO, ret_secret, size);
        if (r < 0)
            return kern_refuse(err, -r, "cannot read the password from standard input");
    }
    return r == 0 && ret_secret[0] == '\0' ? kern_refuse(err, 0, "the password is empty") : r;
}

static int login(const char *registry, const kern_values *flags, struct kern_error *err)
{
    char user[512];
    if (kern_get_int(flags, "password-stdin") != 0 && kern_get_string(flags, "user") == NULL) {
        int r = kern_refuse(err, 0, "--password-stdin needs --user");
        kern_hint(err, "kern login -u USER --password-stdin %s", registry);
        return r;
    }
    char *secret = calloc(1, SECRET_MAX);
    if (secret == NULL)
        return kern_fail(err, ENOMEM, "cannot ask for the password");
    struct registry_login request = {
        .struct_size = sizeof(request), .registry = registry, .user = user, .secret = secret};
    int r = get_user(flags, user, sizeof(user), err);
    r = r < 0 ? r : get_secret(flags, secret, SECRET_MAX, err);
    registry_login_fn run =
        r == 0 ? (registry_login_fn)core_plugin_companion(REGISTRY_OBJECT, "registry_login", err) : NULL;
    r = r < 0 ? r : run != NULL ? run(&request, err) : -ENOENT;
    explicit_bzero(secret, SECRET_MAX);
    free(secret);
    if (r < 0)
        return r;
    if (request.open != 0)
        core_log_note("\"%s\" asked for no credentials, so these were not tried", registry);
    if (request.plain != 0)
        core_log_note("the password is in \"%s\", readable for whoever can read that", request.where);
    (void)printf("logged in to '%s'\n", registry); /* found when standard output is closed */
    return 0;
}

static int logout(const char *registry, struct kern_error *err)
{
    registry_logout_fn run =
        (registry_logout_fn)core_plugin_companion(REGISTRY_OBJECT, "registry_logout", err);
    int r = run != NULL ? run(registry, err) : -EINVAL;
    if (r == -ENOENT)
        return kern_refuse(err, 0, "there are no credentials for \"%s\"", registry);
    if (r == 0)
        (void)printf("logged out of '%s'\n", registry); /* found when standard output is closed */
    return r;
}

/* The registry that a reference without a host means is the default here too. */
static int default_registry(char *ret_registry, size_t size, struct kern_error *err)
{
    struct image_ref ref;
    int r = image_ref_parse("x", &ref, err);
    if (r == 0)
        (void)snprintf(ret_registry, size, "%s", ref.host); /* as long */
    return r;
}

int core_cmd_login(struct core_call *call, struct kern_error *err)
{
    char registry[sizeof(((struct image_ref *)NULL)->host)];
    int r = 0;
    if (call->words == 0)
        r = default_registry(registry, sizeof(registry), err);
    else if (strlen(call->word[0]) < sizeof(registry))
        (void)snprintf(registry, sizeof(registry), "%s", call->word[0]); /* fits */
    else
        r = kern_refuse(err, ENAMETOOLONG, "\"%.40s...\" is not the name of a registry", call->word[0]);
    if (r == 0)
        r = strcmp(call->verb->name, "login") == 0 ? login(registry, &call->flags, err)
                                                   : logout(registry, err);
    return r < 0 ? r : core_log_close_stdout() != 0 ? 1 : r;
}
