/* The only door to stderr; see log.h. One write per line, so that lines of several processes do not mix. Host side. */
#include "log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool core_log_switch(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' && strcmp(value, "0") != 0;
}

/* Environment, not a variable: house rule 16 leaves no mutable state at file scope, and helpers that kern starts
 * must be as quiet as kern itself. */
static bool is_quiet(void)
{
    return core_log_switch("KERN_QUIET");
}

void core_log_set_quiet(bool quiet)
{
    if (quiet)
        (void)setenv("KERN_QUIET", "1",
                     1); /* only a lack of memory fails, and then lines are merely printed */
}

void core_escape(const char *text, char *ret_text, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    size_t used = 0;
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0' && used + 5 < size; c++) {
        if (*c >= 0x20 && *c != 0x7f && (*c < 0x80 || *c >= 0xa0)) {
            ret_text[used++] = (char)*c;
            continue;
        }
        ret_text[used++] = '\\';
        ret_text[used++] = 'x';
        ret_text[used++] = digits[*c >> 4];
        ret_text[used++] = digits[*c & 15];
    }
    ret_text[used] = '\0';
}

static void print_line(const char *prefix, const char *text)
{
    char clean[1536];
    core_escape(text, clean, sizeof(clean));
    char line[1600];
    int length = snprintf(line, sizeof(line), "%s%s\n", prefix, clean);
    if (length < 0)
        return;
    size_t size = (size_t)length < sizeof(line) ? (size_t)length : sizeof(line) - 1;
    ssize_t written = write(STDERR_FILENO, line, size);
    (void)written; /* there is nowhere left to complain */
}

void core_log_profile(const char *name)
{
    if (!is_quiet())
        print_line("kern: security-profile=", name);
}

static void vprint(const char *prefix, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
static void vprint(const char *prefix, const char *format, va_list args)
{
    char text[1200];
    (void)vsnprintf(text, sizeof(text), format, args); /* a cut line is better than none */
    print_line(prefix, text);
}

/* Benign lines may come from the supervisor's loop, and the box shares stderr with kern: one that it filled must not stop the
 * deadline. Such a line is lost then; the report has it. */
static bool would_block(void)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 0;
}

void core_log_note(const char *format, ...)
{
    if (is_quiet() || would_block())
        return;
    va_list args;
    va_start(args, format);
    vprint("kern: note: ", format, args);
    va_end(args);
}

void core_log_warning(const char *format, ...)
{
    if (is_quiet() || would_block())
        return;
    va_list args;
    va_start(args, format);
    vprint("kern: warning: ", format, args);
    va_end(args);
}

void core_log_failure(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vprint("kern: ", format, args);
    va_end(args);
}

void core_log_error(const struct kern_error *err)
{
    char text[640];
    if (err->plugin[0] != '\0')
        (void)snprintf(text, sizeof(text), "%s: %s: %s", err->plugin, err->phase, err->message);
    else
        (void)snprintf(text, sizeof(text), "%s", err->message);
    print_line("kern: ", text);
    if (err->hint[0] != '\0')
        print_line("hint: ", err->hint);
}

int core_log_close_stdout(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return 0;
    core_log_failure("cannot write to standard output: %s", errno != 0 ? strerror(errno) : "output was lost");
    return 1;
}
