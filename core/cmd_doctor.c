/* `kern doctor [--json]`: tries what a box needs of this machine and says what is missing and what mends it; the probes
 * are in doctor_*.c. Host side. */
#include "cmd.h"

#include "cleanup.h"
#include "doctor.h"
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

int core_cmd_doctor(struct core_call *call, struct kern_error *err)
{
    struct core_doctor *doctor = calloc(1, sizeof(*doctor));
    if (doctor == NULL)
        return kern_refuse(err, ENOMEM, "cannot examine this machine");
    examine(doctor);
    int failed = print(doctor, kern_get_int(&call->flags, "json") != 0);
    bool fit = core_doctor_is_ok(doctor);
    free(doctor);
    return failed != 0 || !fit ? EXIT_UNFIT : 0;
}
