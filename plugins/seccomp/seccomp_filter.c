/* Picks the built-in program; see seccomp_filter.h. Pure. */
#include "seccomp_filter.h"

#include <string.h>

#if defined(__x86_64__)
#include "seccomp_programs_x86_64.h"
#define NATIVE_CODE  seccomp_code_x86_64
#define NATIVE_SPANS seccomp_spans_x86_64
#elif defined(__aarch64__)
#include "seccomp_programs_aarch64.h"
#define NATIVE_CODE  seccomp_code_aarch64
#define NATIVE_SPANS seccomp_spans_aarch64
#else
#error "seccomp_gen knows x86_64 and aarch64"
#endif

int seccomp_parse_mode(const char *text, uint32_t *ret_mode, struct kern_error *err)
{
    static const char names[SECCOMP_MODES][16] = {"allowlist", "denylist", "allowlist-audit"};
    for (uint32_t mode = 0; mode < SECCOMP_MODES; mode++) {
        if (strcmp(text, names[mode]) == 0) {
            *ret_mode = mode;
            return 0;
        }
    }
    int failed = kern_refuse(err, 0, "unknown seccomp mode \"%.40s\"", text);
    kern_hint(err, "the modes are allowlist (the default), denylist and allowlist-audit");
    return failed;
}

const struct sock_filter *seccomp_program(uint32_t mode, int privileged, int listener, size_t *ret_len)
{
    if (mode >= SECCOMP_MODES)
        return NULL;
    struct seccomp_span span = NATIVE_SPANS[mode][privileged != 0][listener != 0];
    *ret_len = span.length;
    return NATIVE_CODE + span.start;
}
