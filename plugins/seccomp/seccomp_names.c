/* Look-ups in the generated tables of call names; see seccomp_names.h. Pure. */
#include "seccomp_names.h"

#if defined(__x86_64__)
#include "seccomp_names_x86_64.h"
#define NATIVE seccomp_arch_x86_64
#elif defined(__aarch64__)
#include "seccomp_names_aarch64.h"
#define NATIVE seccomp_arch_aarch64
#else
#error "seccomp_gen knows x86_64 and aarch64"
#endif

const struct seccomp_arch *seccomp_native(void)
{
    return &NATIVE;
}

const char *seccomp_name_in(const struct seccomp_arch *arch, int nr)
{
    if (nr < 0 || (size_t)nr >= arch->at_count || arch->at[nr] == 0)
        return NULL;
    return arch->text + arch->at[nr];
}

int seccomp_kills_in(const struct seccomp_arch *arch, int nr)
{
    for (size_t i = 0; i < arch->killing_count; i++)
        if (arch->killing[i] == nr)
            return 1;
    return 0;
}

const char *seccomp_call_name(int nr)
{
    return seccomp_name_in(&NATIVE, nr);
}

int seccomp_is_killing(int nr)
{
    return seccomp_kills_in(&NATIVE, nr);
}
