/* `kern doctor [--json]`: tries what a box needs of this machine and says what is missing and what mends it; the probes
 * are in doctor_*.c. Host side. */
#include "cmd.h"

#include "args.h"
#include "cleanup.h"
#include "doctor.h"
#include "help.h"
#include "log.h"

/* Boxes do not work here. */
#define EXIT_UNFIT 1

static void examine(struct core_doctor *doctor)
{
    struct core_doctor_facts facts;
    core_doctor_find_facts(&facts);
    core_doctor_kernel(doctor, &facts);
    core_doctor_spaces(doctor, &facts);
    core_doctor_mounts(doctor, &facts);
    core_doctor_ids(doctor, &facts);
    core_doctor_seccomp(doctor, &facts);
    core_doctor_calls(doctor, &facts);
    core_doctor_groups(doctor, &facts);
    core_doctor_kern(doctor, &facts);
    core_doctor_drop_facts(&facts);
}

static int print(const struct core_doctor *doctor, bool as_json)
{
    struct core_json json = {0};
    if (!as_json) {
        core_doctor_print(doctor, stdout);
        return core_log_close_stdout();
    }
    core_doctor_json(doctor, &json);
    bool failed = json.failed;
    if (failed)
        core_log_failure("cannot write what was found: out of memory");
    else
        (void)puts(json.text); /* found when standard output is closed */
    core_json_free(&json);
    return failed ? 1 : core_log_close_stdout();
}

int core_cmd_doctor(int argc, char **argv)
{
    cleanup(core_values_clear) struct kern_values flags = {0};
    struct kern_error err = {0};
    const struct core_verb *verb = core_verb_find(argv[0]);
    int words;
    bool help;
    if (core_args_verb(argc, argv, verb->options, &flags, 0, &words, &help, &err) < 0) {
        core_log_error(&err);
        return EXIT_UNFIT;
    }
    if (help)
        return core_help_print(verb);
    struct core_doctor *doctor = calloc(1, sizeof(*doctor));
    if (doctor == NULL) {
        core_log_failure("cannot examine this machine: out of memory");
        return EXIT_UNFIT;
    }
    examine(doctor);
    int failed = print(doctor, kern_get_int(&flags, "json") != 0);
    bool fit = core_doctor_is_ok(doctor);
    free(doctor);
    return failed != 0 || !fit ? EXIT_UNFIT : 0;
}
