/* Reads a seccomp profile; see seccomp_profile.h. */
#include "seccomp_profile.h"

#include "kern/cleanup.h"
#include "seccomp_reader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#define PROFILE_BYTES_MAX (1u << 20) /* Docker's own has 17 KB */

#if defined(__x86_64__)
#define NATIVE_ARCH "SCMP_ARCH_X86_64"
#define NATIVE_GO   "amd64"
#elif defined(__aarch64__)
#define NATIVE_ARCH "SCMP_ARCH_AARCH64"
#define NATIVE_GO   "arm64"
#else
#error "kern runs on x86_64 and aarch64"
#endif

/* For MASKED_EQ the profile's "value" is the mask and "valueTwo" what the masked argument must equal. */
static int read_condition(const struct seccomp_reader *reader, json_t *object,
                          const struct seccomp_place *place, struct scmp_arg_cmp *ret_condition)
{
    static const char *const keys[] = {"index", "value", "valueTwo", "op"};
    if (!json_is_object(object))
        return seccomp_read_refuse(reader, place, "an object is expected", object);
    uint64_t index = 0, value = 0, second = 0;
    json_t *op_name = NULL;
    enum scmp_compare op = SCMP_CMP_EQ;
    struct seccomp_place op_place = seccomp_place_below(place, ".op");
    int failed = SECCOMP_READ_KEYS(reader, object, place, keys);
    if (failed == 0)
        failed = seccomp_read_number(reader, object, place, "index", 5, &index);
    if (failed == 0)
        failed = seccomp_read_number(reader, object, place, "value", INT64_MAX, &value);
    if (failed == 0)
        failed = seccomp_read_number(reader, object, place, "valueTwo", INT64_MAX, &second);
    if (failed == 0)
        failed = seccomp_read_member(reader, object, place, "op", JSON_STRING, &op_name);
    if (failed == 0)
        failed = seccomp_read_op(reader, op_name, &op_place, &op);
    if (failed != 0)
        return failed;
    *ret_condition = (struct scmp_arg_cmp){
        .arg = (unsigned)index, .op = op, .datum_a = value, .datum_b = op == SCMP_CMP_MASKED_EQ ? second : 0};
    return 0;
}

/* libseccomp takes one condition for an argument; with more of them Docker means "any of these". */
static int read_conditions(const struct seccomp_reader *reader, const json_t *entry,
                           const struct seccomp_place *place, struct seccomp_profile_call *call)
{
    json_t *list = NULL;
    int failed = seccomp_read_member(reader, entry, place, "args", JSON_ARRAY, &list);
    if (failed != 0)
        return failed;
    if (json_array_size(list) > SECCOMP_PROFILE_CONDITIONS) {
        struct seccomp_place here = seccomp_place_below(place, ".args");
        return seccomp_read_refuse(reader, &here, "more than 16 conditions", NULL);
    }
    unsigned seen = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct seccomp_place here = seccomp_place_below(place, ".args[%zu]", i);
        failed = read_condition(reader, json_array_get(list, i), &here, &call->conditions[i]);
        if (failed != 0)
            return failed;
        call->any_suffices |= (seen >> call->conditions[i].arg) & 1;
        seen |= 1u << call->conditions[i].arg;
    }
    call->condition_count = (unsigned)json_array_size(list);
    return 0;
}

static int capability_bit(const char *name)
{
    static const char known[][24] = {"CHOWN",
                                     "DAC_OVERRIDE",
                                     "DAC_READ_SEARCH",
                                     "FOWNER",
                                     "FSETID",
                                     "KILL",
                                     "SETGID",
                                     "SETUID",
                                     "SETPCAP",
                                     "LINUX_IMMUTABLE",
                                     "NET_BIND_SERVICE",
                                     "NET_BROADCAST",
                                     "NET_ADMIN",
                                     "NET_RAW",
                                     "IPC_LOCK",
                                     "IPC_OWNER",
                                     "SYS_MODULE",
                                     "SYS_RAWIO",
                                     "SYS_CHROOT",
                                     "SYS_PTRACE",
                                     "SYS_PACCT",
                                     "SYS_ADMIN",
                                     "SYS_BOOT",
                                     "SYS_NICE",
                                     "SYS_RESOURCE",
                                     "SYS_TIME",
                                     "SYS_TTY_CONFIG",
                                     "MKNOD",
                                     "LEASE",
                                     "AUDIT_WRITE",
                                     "AUDIT_CONTROL",
                                     "SETFCAP",
                                     "MAC_OVERRIDE",
                                     "MAC_ADMIN",
                                     "SYSLOG",
                                     "WAKE_ALARM",
                                     "BLOCK_SUSPEND",
                                     "AUDIT_READ",
                                     "PERFMON",
                                     "BPF",
                                     "CHECKPOINT_RESTORE"};
    if (strncmp(name, "CAP_", 4) != 0)
        return -1;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i], name + 4) == 0)
            return (int)i;
    return -1;
}

/* How many of `includes.caps` are held, and how many there are. */
static int count_caps(const struct seccomp_reader *reader, const json_t *filter,
                      const struct seccomp_place *place, size_t *ret_held, size_t *ret_total)
{
    json_t *list = NULL;
    int failed = seccomp_read_member(reader, filter, place, "caps", JSON_ARRAY, &list);
    if (failed != 0)
        return failed;
    size_t held = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *name = json_array_get(list, i);
        int bit = json_is_string(name) ? capability_bit(json_string_value(name)) : -1;
        struct seccomp_place here = seccomp_place_below(place, ".caps[%zu]", i);
        if (bit < 0)
            return seccomp_read_refuse(reader, &here, "not a capability", name);
        held += (reader->caps >> bit) & 1;
    }
    *ret_held = held;
    *ret_total = json_array_size(list);
    return 0;
}

static int names_native(const struct seccomp_reader *reader, const json_t *filter,
                        const struct seccomp_place *place, int *ret_listed, int *ret_found)
{
    json_t *list = NULL;
    int failed = seccomp_read_member(reader, filter, place, "arches", JSON_ARRAY, &list);
    if (failed != 0)
        return failed;
    int found = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *name = json_array_get(list, i);
        struct seccomp_place here = seccomp_place_below(place, ".arches[%zu]", i);
        if (!json_is_string(name))
            return seccomp_read_refuse(reader, &here, "a string is expected", name);
        found |= strcmp(json_string_value(name), NATIVE_GO) == 0;
    }
    *ret_listed = json_array_size(list) > 0;
    *ret_found = found;
    return 0;
}

static int kernel_reaches(const struct seccomp_reader *reader, const json_t *filter,
                          const struct seccomp_place *place, int *ret_listed, int *ret_reached)
{
    json_t *version = NULL;
    int failed = seccomp_read_member(reader, filter, place, "minKernel", JSON_STRING, &version);
    if (failed != 0)
        return failed;
    unsigned major = 0, minor = 0;
    int end = -1;
    if (version != NULL && (sscanf(json_string_value(version), "%4u.%4u%n", &major, &minor, &end) != 2 ||
                            json_string_value(version)[end] != '\0')) {
        struct seccomp_place here = seccomp_place_below(place, ".minKernel");
        return seccomp_read_refuse(reader, &here, "not a version like \"4.8\"", version);
    }
    *ret_listed = version != NULL;
    *ret_reached =
        reader->kernel_major > major || (reader->kernel_major == major && reader->kernel_minor >= minor);
    return 0;
}

/* All that "includes" asks for must hold; one thing that "excludes" names is enough. */
static int applies(const struct seccomp_reader *reader, const json_t *entry,
                   const struct seccomp_place *place, int *ret_applies)
{
    static const char *const keys[] = {"caps", "arches", "minKernel"};
    static const char names[2][12] = {"includes", "excludes"};
    int result = 1;
    for (int excludes = 0; excludes < 2; excludes++) {
        json_t *filter = NULL;
        size_t held = 0, total = 0;
        int arches = 0, native = 0, version = 0, reached = 0;
        struct seccomp_place here = seccomp_place_below(place, ".%s", names[excludes]);
        int failed = seccomp_read_member(reader, entry, place, names[excludes], JSON_OBJECT, &filter);
        if (failed != 0)
            return failed;
        if (filter == NULL)
            continue;
        failed = SECCOMP_READ_KEYS(reader, filter, &here, keys);
        if (failed == 0)
            failed = count_caps(reader, filter, &here, &held, &total);
        if (failed == 0)
            failed = names_native(reader, filter, &here, &arches, &native);
        if (failed == 0)
            failed = kernel_reaches(reader, filter, &here, &version, &reached);
        if (failed != 0)
            return failed;
        if (excludes)
            result &= held == 0 && !native && !(version && reached);
        else
            result &= held == total && (!arches || native) && (!version || reached);
    }
    *ret_applies = result;
    return 0;
}

static int read_names(const struct seccomp_reader *reader, const json_t *entry,
                      const struct seccomp_place *place, const json_t **ret_names)
{
    json_t *one = NULL, *many = NULL;
    int failed = seccomp_read_member(reader, entry, place, "name", JSON_STRING, &one);
    if (failed == 0)
        failed = seccomp_read_member(reader, entry, place, "names", JSON_ARRAY, &many);
    if (failed != 0)
        return failed;
    if (one != NULL && json_string_length(one) == 0)
        one = NULL; /* Docker's older form writes "name": "" beside "names" */
    if ((one == NULL) == (many == NULL))
        return seccomp_read_refuse(reader, place,
                                   one == NULL ? "neither names nor name" : "both names and name", NULL);
    for (size_t i = 0; i < json_array_size(many); i++) {
        struct seccomp_place here = seccomp_place_below(place, ".names[%zu]", i);
        if (!json_is_string(json_array_get(many, i)))
            return seccomp_read_refuse(reader, &here, "a string is expected", json_array_get(many, i));
    }
    *ret_names = one != NULL ? one : many;
    return 0;
}

/* Also entries that do not apply are read to their end: a fault shows on every machine, not on some. */
static int read_call(const struct seccomp_reader *reader, json_t *entry, const struct seccomp_place *place,
                     struct seccomp_profile *profile)
{
    static const char *const keys[] = {"names", "name",     "action",   "errnoRet", "errno",
                                       "args",  "includes", "excludes", "comment"};
    if (!json_is_object(entry))
        return seccomp_read_refuse(reader, place, "an object is expected", entry);
    struct seccomp_profile_call call = {.names = NULL};
    struct seccomp_place action_place = seccomp_place_below(place, ".action");
    json_t *action = NULL;
    uint16_t code = 0;
    int wanted = 0;
    int failed = SECCOMP_READ_KEYS(reader, entry, place, keys);
    if (failed == 0)
        failed = read_names(reader, entry, place, &call.names);
    if (failed == 0)
        failed = seccomp_read_errno(reader, entry, place, "errnoRet", "errno", &code);
    if (failed == 0)
        failed = seccomp_read_member(reader, entry, place, "action", JSON_STRING, &action);
    if (failed == 0)
        failed = seccomp_read_action(reader, action, &action_place, code, &call.action);
    if (failed == 0)
        failed = read_conditions(reader, entry, place, &call);
    if (failed == 0)
        failed = applies(reader, entry, place, &wanted);
    if (failed == 0 && wanted)
        profile->calls[profile->call_count++] = call;
    return failed;
}

static int read_calls(const struct seccomp_reader *reader, struct seccomp_profile *profile)
{
    const struct seccomp_place top = {""};
    json_t *list = NULL;
    int failed = seccomp_read_member(reader, profile->root, &top, "syscalls", JSON_ARRAY, &list);
    if (failed != 0 || json_array_size(list) == 0)
        return failed;
    profile->calls = calloc(json_array_size(list), sizeof(*profile->calls));
    if (profile->calls == NULL)
        return kern_fail(reader->err, ENOMEM, "cannot read the seccomp profile \"%s\"", reader->file);
    for (size_t i = 0; i < json_array_size(list) && failed == 0; i++) {
        struct seccomp_place here = seccomp_place_below(&top, "syscalls[%zu]", i);
        failed = read_call(reader, json_array_get(list, i), &here, profile);
    }
    return failed;
}

/* An architecture that cannot run on this machine is no fault: profiles list all that their authors know. */
static int read_arch(const struct seccomp_reader *reader, const json_t *name,
                     const struct seccomp_place *place, uint32_t *arches)
{
    static const struct {
        char name[16];
        uint32_t bit;
    } known[] = {
#if defined(__x86_64__)
        {"X86", SECCOMP_PROFILE_X86},
        {"X32", SECCOMP_PROFILE_X32},
#else
        {"ARM", SECCOMP_PROFILE_ARM},
#endif
    };
    const char *text = json_string_value(name);
    if (text == NULL || strncmp(text, "SCMP_ARCH_", 10) != 0)
        return seccomp_read_refuse(reader, place, "not an architecture like \"" NATIVE_ARCH "\"", name);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].name, text + 10) == 0)
            *arches |= known[i].bit;
    return 0;
}

static int read_arch_list(const struct seccomp_reader *reader, const json_t *object,
                          const struct seccomp_place *place, const char *key, uint32_t *arches)
{
    json_t *list = NULL;
    int failed = seccomp_read_member(reader, object, place, key, JSON_ARRAY, &list);
    for (size_t i = 0; i < json_array_size(list) && failed == 0; i++) {
        struct seccomp_place here =
            seccomp_place_below(place, "%s%s[%zu]", place->text[0] != '\0' ? "." : "", key, i);
        failed = read_arch(reader, json_array_get(list, i), &here, arches);
    }
    return failed;
}

/* OCI names all architectures in one list, Docker those that belong to each native one. */
static int read_arches(const struct seccomp_reader *reader, struct seccomp_profile *profile)
{
    static const char *const keys[] = {"architecture", "subArchitectures"};
    const struct seccomp_place top = {""};
    json_t *map = NULL;
    int failed = read_arch_list(reader, profile->root, &top, "architectures", &profile->arches);
    if (failed == 0)
        failed = seccomp_read_member(reader, profile->root, &top, "archMap", JSON_ARRAY, &map);
    for (size_t i = 0; i < json_array_size(map) && failed == 0; i++) {
        json_t *entry = json_array_get(map, i), *name = NULL;
        struct seccomp_place here = seccomp_place_below(&top, "archMap[%zu]", i);
        uint32_t listed = 0;
        if (!json_is_object(entry))
            return seccomp_read_refuse(reader, &here, "an object is expected", entry);
        failed = SECCOMP_READ_KEYS(reader, entry, &here, keys);
        if (failed == 0)
            failed = seccomp_read_member(reader, entry, &here, "architecture", JSON_STRING, &name);
        if (failed == 0)
            failed = read_arch_list(reader, entry, &here, "subArchitectures", &listed);
        if (failed == 0 && name != NULL && strcmp(json_string_value(name), NATIVE_ARCH) == 0)
            profile->arches |= listed;
    }
    return failed;
}

static int read_document(const struct seccomp_reader *reader, struct seccomp_profile *profile)
{
    /* "flags" asks for ways to install a filter; kern has its own, and leaving them out weakens nothing. */
    static const char *const keys[] = {"defaultAction", "defaultErrnoRet", "defaultErrno", "architectures",
                                       "archMap",       "syscalls",        "flags",        "comment",
                                       "listenerPath",  "listenerMetadata"};
    const struct seccomp_place top = {""}, action_place = {"defaultAction"},
                               listener_place = {"listenerPath"};
    json_t *action = NULL, *listener = NULL;
    uint16_t code = 0;
    if (!json_is_object(profile->root))
        return seccomp_read_refuse(reader, &top, "an object is expected", NULL);
    int failed = SECCOMP_READ_KEYS(reader, profile->root, &top, keys);
    if (failed == 0)
        failed = seccomp_read_member(reader, profile->root, &top, "listenerPath", JSON_STRING, &listener);
    if (failed == 0 && json_string_length(listener) > 0)
        failed = seccomp_read_refuse(reader, &listener_place,
                                     "not available: a box has one listener, kern's own", NULL);
    if (failed == 0)
        failed = seccomp_read_errno(reader, profile->root, &top, "defaultErrnoRet", "defaultErrno", &code);
    if (failed == 0)
        failed = seccomp_read_member(reader, profile->root, &top, "defaultAction", JSON_STRING, &action);
    if (failed == 0)
        failed = seccomp_read_action(reader, action, &action_place, code, &profile->default_action);
    if (failed == 0)
        failed = read_arches(reader, profile);
    return failed != 0 ? failed : read_calls(reader, profile);
}

static int parse(const struct seccomp_reader *reader, const char *text, size_t len, json_t **ret_root)
{
    json_error_t fault;
    if (len > PROFILE_BYTES_MAX)
        return kern_refuse(reader->err, 0, "cannot use the seccomp profile \"%s\": larger than 1 MB",
                           reader->file);
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &fault);
    if (root == NULL) {
        /* jansson quotes the text near the fault; as a JSON string its bytes are harmless. */
        json_t *quoted = json_string(fault.text);
        const struct seccomp_place here = {"not JSON"};
        struct seccomp_place where =
            seccomp_place_below(&here, ", line %d, column %d", fault.line, fault.column);
        int failed = seccomp_read_refuse(reader, &where, "the reader says", quoted);
        json_decref(quoted);
        return failed;
    }
    *ret_root = root;
    return 0;
}

static int running_kernel(struct seccomp_reader *reader)
{
    struct utsname name;
    if (uname(&name) != 0 ||
        sscanf(name.release, "%4u.%4u", &reader->kernel_major, &reader->kernel_minor) != 2)
        return kern_fail(reader->err, 0, "cannot tell the version of the running kernel");
    return 0;
}

void seccomp_profile_clear(struct seccomp_profile *profile)
{
    if (profile == NULL)
        return;
    json_decref(profile->root);
    free(profile->calls);
    *profile = (struct seccomp_profile){.root = NULL};
}

int seccomp_profile_read(const char *text, size_t len, const char *file, uint64_t caps,
                         struct seccomp_profile *ret_profile, struct kern_error *err)
{
    struct seccomp_reader reader = {.file = file, .caps = caps, .err = err};
    cleanup(seccomp_profile_clear) struct seccomp_profile profile = {.root = NULL};
    int failed = running_kernel(&reader);
    if (failed == 0)
        failed = parse(&reader, text, len, &profile.root);
    if (failed == 0)
        failed = read_document(&reader, &profile);
    if (failed != 0)
        return failed;
    *ret_profile = profile;
    profile = (struct seccomp_profile){.root = NULL};
    return 0;
}
