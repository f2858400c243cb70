/* The error object that every room of the house hands upward; see error.h. Runs on both sides of the
 * clone, so it allocates nothing and takes no lock. */
#include "error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* glibc's strerror may consult the locale and allocate; strerrordesc_np() is a table look-up. */
static const char *describe(int code)
{
    const char *text = strerrordesc_np(code);
    return text != NULL ? text : "unknown error";
}

int core_error_vset(struct kern_error *err, uint32_t category, int code, const char *format, va_list args)
{
    int result = code > 0 ? -code : -EINVAL;
    if (err == NULL || core_error_is_set(err))
        return result;
    err->category = category;
    err->code = code;
    int used = vsnprintf(err->message, sizeof(err->message), format, args);
    if (code > 0 && used >= 0 && (size_t)used < sizeof(err->message) - 3)
        (void)snprintf(err->message + used, sizeof(err->message) - (size_t)used, ": %s",
                       describe(code)); /* a truncated reason is still a reason */
    return result;
}

int kern_fail(struct kern_error *err, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int result = core_error_vset(err, KERN_ERROR_BUILD, code, format, args);
    va_end(args);
    return result;
}

int kern_refuse(struct kern_error *err, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int result = core_error_vset(err, KERN_ERROR_REFUSED, code, format, args);
    va_end(args);
    return result;
}

void kern_hint(struct kern_error *err, const char *format, ...)
{
    if (err == NULL || err->hint[0] != '\0')
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->hint, sizeof(err->hint), format, args); /* a cut hint still helps */
    va_end(args);
}

int kern_wrap(struct kern_error *err, const char *format, ...)
{
    if (err == NULL || !core_error_is_set(err))
        return -EINVAL;
    char prefix[sizeof(err->message)];
    va_list args;
    va_start(args, format);
    int used = vsnprintf(prefix, sizeof(prefix), format, args);
    va_end(args);
    if (used > 0 && (size_t)used + 2 < sizeof(err->message)) {
        size_t room = sizeof(err->message) - (size_t)used - 2;
        memmove(err->message + used + 2, err->message, room);
        memcpy(err->message, prefix, (size_t)used);
        memcpy(err->message + used, ": ", 2);
        err->message[sizeof(err->message) - 1] = '\0';
    }
    return err->code > 0 ? -err->code : -EINVAL;
}

void core_error_context(struct kern_error *err, const char *plugin, const char *phase)
{
    if (err->plugin[0] == '\0' && plugin != NULL)
        (void)snprintf(err->plugin, sizeof(err->plugin), "%s", plugin); /* names are shorter than this */
    if (err->phase[0] == '\0' && phase != NULL)
        (void)snprintf(err->phase, sizeof(err->phase), "%s", phase);
}
