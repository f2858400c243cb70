/* The pure parts of kern doctor: what it says about a refusal, which line mends it, and the two layouts. Needs no
 * privilege. */
#include "core/doctor.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define assert_has(text, part)   assert_non_null(strstr(text, part))
#define assert_lacks(text, part) assert_null(strstr(text, part))

/* An ordinary caller on a machine that forbids nothing. */
static struct core_doctor_facts plain(void)
{
    struct core_doctor_facts facts = {.max_user_namespaces = 15000,
                                      .unprivileged_clone = -1,
                                      .apparmor_restriction = -1,
                                      .uid = 1000,
                                      .mountinfo = "22 27 0:21 / /proc rw - proc proc rw\n"};
    strcpy(facts.self, "/usr/bin/kern");
    strcpy(facts.user, "ada");
    return facts;
}

/* ---- User namespaces ---- */

static void userns_switched_off(void **unused)
{
    (void)unused;
    struct core_doctor_check check = {0};
    struct core_doctor_facts facts = plain();
    facts.max_user_namespaces = 0;
    core_doctor_explain_userns(&check, &facts, CORE_DOCTOR_MAKE, ENOSPC);
    assert_int_equal(check.status, CORE_DOCTOR_FAIL);
    assert_has(check.detail, "user.max_user_namespaces");
    assert_string_equal(check.fix, "sudo sysctl -w user.max_user_namespaces=15000");

    check = (struct core_doctor_check){0};
    facts = plain();
    facts.unprivileged_clone = 0;
    core_doctor_explain_userns(&check, &facts, CORE_DOCTOR_MAKE, EPERM);
    assert_string_equal(check.fix, "sudo sysctl -w kernel.unprivileged_userns_clone=1");
    facts.privileged = true; /* that setting does not hold root back */
    check = (struct core_doctor_check){0};
    core_doctor_explain_userns(&check, &facts, CORE_DOCTOR_MAKE, EPERM);
    assert_lacks(check.detail, "unprivileged");
}

static void userns_too_many(void **unused)
{
    (void)unused;
    struct core_doctor_check check = {0};
    struct core_doctor_facts facts = plain();
    core_doctor_explain_userns(&check, &facts, CORE_DOCTOR_MAKE, ENOSPC);
    assert_has(check.detail, "too many");
    assert_has(check.detail, "15000");
}

static void userns_apparmor(void **unused)
{
    (void)unused;
    struct core_doctor_check check = {0};
    struct core_doctor_facts facts = plain();
    facts.apparmor_restriction = 1;
    core_doctor_explain_userns(&check, &facts, CORE_DOCTOR_USE, EACCES);
    assert_has(check.detail, "apparmor_restrict_unprivileged_userns");
    assert_has(check.fix, "profile kern \"/usr/bin/kern\" flags=(unconfined) {\n  userns,\n");
    assert_has(check.fix, "sudo tee /etc/apparmor.d/kern");
    assert_has(check.fix, "\nEOF\nsudo apparmor_parser -r /etc/apparmor.d/kern");
    facts.apparmor_restriction = 0;
    check = (struct core_doctor_check){0};
    core_doctor_explain_userns(&check, &facts, CORE_DOCTOR_USE, EACCES);
    assert_lacks(check.fix, "apparmor_parser");
}

static void userns_surroundings(void **unused)
{
    (void)unused;
    struct core_doctor_check check = {0};
    struct core_doctor_facts facts = plain();
    facts.filtered = true;
    core_doctor_explain_userns(&check, &facts, CORE_DOCTOR_MAKE, EPERM);
    assert_has(check.detail, "seccomp filter around kern");
    assert_has(check.fix, "--security-opt seccomp=unconfined");

    facts.chrooted = true; /* the kernel's own refusal comes first */
    check = (struct core_doctor_check){0};
    core_doctor_explain_userns(&check, &facts, CORE_DOCTOR_MAKE, EPERM);
    assert_has(check.detail, "chroot");

    facts = plain();
    check = (struct core_doctor_check){0};
    core_doctor_explain_userns(&check, &facts, CORE_DOCTOR_MAKE, EINVAL);
    assert_has(check.fix, "CONFIG_USER_NS");

    strcpy(facts.label, "docker-default");
    check = (struct core_doctor_check){0};
    core_doctor_explain_userns(&check, &facts, CORE_DOCTOR_USE, EACCES);
    assert_has(check.detail, "docker-default");
    assert_has(check.fix, "apparmor=unconfined");

    check = (struct core_doctor_check){0};
    facts = plain();
    core_doctor_explain_userns(&check, &facts, CORE_DOCTOR_MAP, EPERM);
    assert_has(check.detail, "cannot write the id map");
    assert_string_equal(check.fix, ""); /* no guess */
}

static void profile_quotes_the_path(void **unused)
{
    (void)unused;
    char text[1536];
    core_doctor_profile("/home/a b/{x}*/\"kern\"", text, sizeof(text));
    assert_has(text, "profile kern \"/home/a b/\\{x\\}\\*/\\\"kern\\\"\" flags");
}

/* ---- proc ---- */

static void proc_causes(void **unused)
{
    (void)unused;
    struct core_doctor_check check = {0};
    struct core_doctor_facts facts = plain();
    facts.mountinfo = "22 27 0:21 / /proc rw - proc proc rw\n"
                      "30 22 0:28 / /proc/kcore rw - tmpfs tmpfs rw\n"
                      "31 22 0:28 / /proc/keys rw - tmpfs tmpfs rw\n"
                      "32 22 0:21 /bus /proc/bus ro - proc proc rw\n"
                      "33 27 0:21 /x /processes rw - ext4 a rw\n";
    core_doctor_explain_proc(&check, &facts, EPERM);
    assert_int_equal(check.status, CORE_DOCTOR_FAIL);
    assert_has(check.detail, "(/proc/kcore, /proc/keys, ...)");
    assert_lacks(check.detail, "/processes");
    assert_has(check.fix, "systempaths=unconfined");

    facts = plain();
    check = (struct core_doctor_check){0};
    core_doctor_explain_proc(&check, &facts, EPERM);
    assert_has(check.detail, "no complete, writable proc");

    strcpy(facts.label, "lxc-default");
    check = (struct core_doctor_check){0};
    core_doctor_explain_proc(&check, &facts, EACCES);
    assert_has(check.detail, "\"lxc-default\"");

    facts.mountinfo = NULL; /* could not be read */
    facts.filtered = true;
    check = (struct core_doctor_check){0};
    core_doctor_explain_proc(&check, &facts, EPERM);
    assert_has(check.fix, "seccomp=unconfined");
}

static void call_causes(void **unused)
{
    (void)unused;
    struct core_doctor_check check = {0};
    struct core_doctor_facts facts = plain();
    core_doctor_explain_call(&check, &facts, CORE_DOCTOR_WARN, "openat2", "5.6", ENOSYS);
    assert_int_equal(check.status, CORE_DOCTOR_WARN);
    assert_string_equal(check.detail, "this kernel has no openat2 (it needs Linux 5.6)");
    assert_string_equal(check.fix, "");
    facts.filtered = true;
    core_doctor_explain_call(&check, &facts, CORE_DOCTOR_FAIL, "openat2", "5.6", ENOSYS);
    assert_has(check.detail, "a seccomp filter is in force");
    core_doctor_explain_call(&check, &facts, CORE_DOCTOR_FAIL, "openat2", "5.6", EINTR);
    assert_has(check.detail, "the caller is killed");
}

/* ---- Subordinate ids ---- */

static void free_ids(void **unused)
{
    (void)unused;
    assert_int_equal(core_doctor_free_id(""), 100000);
    assert_int_equal(core_doctor_free_id("ada:1000:10\n"), 100000);
    assert_int_equal(core_doctor_free_id("ada:100000:65536\nbob:300000:65536\neve:165536:65536\n"), 365536);
    assert_int_equal(core_doctor_free_id("# a:b\n\nnonsense\nx:y:z\nada:100000:65536"), 165536);
    assert_int_equal(core_doctor_free_id("ada:100000:4294867295\n"), 0);
}

static void range_lines(void **unused)
{
    (void)unused;
    struct core_doctor_check check = {0};
    struct core_doctor_facts facts = plain();
    core_doctor_fix_range(&check, &facts, 165536);
    assert_string_equal(check.fix,
                        "sudo usermod --add-subuids 165536-231071 --add-subgids 165536-231071 ada");
    facts.user[0] = '\0';
    core_doctor_fix_range(&check, &facts, 165536);
    assert_string_equal(check.fix, "echo 1000:165536:65536 | sudo tee -a /etc/subuid /etc/subgid");
}

/* ---- Limits ---- */

static void limits_that_bind(void **unused)
{
    (void)unused;
    struct core_doctor_check check = {0};
    struct core_doctor_facts facts = plain();
    struct cgroup_bound bound = {.enforced = 1, .by = "cgroup2"};
    core_doctor_explain_limit(&check, &bound, CGROUP_PIDS, &facts);
    assert_int_equal(check.status, CORE_DOCTOR_OK);
    assert_string_equal(check.detail, "binds, through cgroup2");
    bound.enforced = KERN_LIMIT_UNKNOWN;
    core_doctor_explain_limit(&check, &bound, CGROUP_IO, &facts);
    assert_int_equal(check.status, CORE_DOCTOR_WARN);
    assert_has(check.fix, "bfq");
}

static void limits_at_boot(void **unused)
{
    (void)unused;
    struct core_doctor_check check = {0};
    struct core_doctor_facts facts = plain();
    struct cgroup_bound bound = {.why = CGROUP_NO_CONTROLLER, .by = "none"};
    core_doctor_explain_limit(&check, &bound, CGROUP_MEMORY, &facts);
    assert_int_equal(check.status, CORE_DOCTOR_WARN);
    assert_has(check.fix, "cgroup_enable=memory");
    assert_has(check.fix, "update-grub");
    facts.machine = CORE_DOCTOR_RASPBERRY_PI;
    core_doctor_explain_limit(&check, &bound, CGROUP_MEMORY, &facts);
    assert_has(check.fix, "sudo sed -i '1 s/$/ cgroup_enable=memory/' /boot/firmware/cmdline.txt");
    facts.machine = CORE_DOCTOR_WSL;
    core_doctor_explain_limit(&check, &bound, CGROUP_MEMORY, &facts);
    assert_has(check.fix,
               "%UserProfile%\\.wslconfig, under [wsl2]: kernelCommandLine = cgroup_enable=memory");
    bound.why = CGROUP_NO_FILE;
    core_doctor_explain_limit(&check, &bound, CGROUP_KINDS, &facts);
    assert_has(check.fix, "swapaccount=1");
}

static void limits_delegated(void **unused)
{
    (void)unused;
    struct core_doctor_check check = {0};
    struct core_doctor_facts facts = plain();
    struct cgroup_bound bound = {.why = CGROUP_NO_SUBTREE, .by = "none"};
    core_doctor_explain_limit(&check, &bound, CGROUP_CPUSET, &facts);
    assert_has(check.detail, "a program can widen");
    assert_has(check.fix, "printf '[Service]\\nDelegate=cpu cpuset io memory pids\\n'");
    assert_has(check.fix, "/etc/systemd/system/user@.service.d/delegate.conf");
    bound.why = CGROUP_NEEDS_ROOT;
    core_doctor_explain_limit(&check, &bound, CGROUP_PIDS, &facts);
    assert_has(check.fix, "sudo chown 1000 $d");
    facts.systemd = true;
    core_doctor_explain_limit(&check, &bound, CGROUP_PIDS, &facts);
    assert_has(check.fix, "systemd.unified_cgroup_hierarchy=1");
}

static void hierarchies(void **unused)
{
    (void)unused;
    struct core_doctor_check check = {0};
    struct cgroup_map map = {0};
    core_doctor_describe_groups(&check, &map, "");
    assert_int_equal(check.status, CORE_DOCTOR_WARN);
    strcpy(map.v2.own, "/sys/fs/cgroup");
    core_doctor_describe_groups(&check, &map, "cpu memory pids\n");
    assert_int_equal(check.status, CORE_DOCTOR_OK);
    assert_string_equal(check.detail, "version 2 has cpu memory pids");
    strcpy(map.v1[CGROUP_MEMORY].own, "/sys/fs/cgroup/memory");
    strcpy(map.v1[CGROUP_IO].own, "/sys/fs/cgroup/blkio");
    core_doctor_describe_groups(&check, &map, "");
    assert_string_equal(check.detail, "version 1 has memory blkio; version 2 has no controller");
}

/* ---- Layout ---- */

static void layout(void **unused)
{
    (void)unused;
    struct core_doctor *doctor = calloc(1, sizeof(*doctor));
    char *text = NULL;
    size_t size = 0;
    core_doctor_say(core_doctor_add(doctor, "a"), CORE_DOCTOR_OK, "%s", "fine\x1b[31m");
    assert_true(core_doctor_is_ok(doctor));
    struct core_doctor_check *check = core_doctor_add(doctor, "longer");
    core_doctor_say(check, CORE_DOCTOR_WARN, "so so");
    core_doctor_fix(check, "do that");
    assert_true(core_doctor_is_ok(doctor)); /* a warning does not count */
    check = core_doctor_add(doctor, "same");
    core_doctor_say(check, CORE_DOCTOR_WARN, "so too");
    core_doctor_fix(check, "do that");
    check = core_doctor_add(doctor, "bad");
    core_doctor_say(check, CORE_DOCTOR_FAIL, "no");
    core_doctor_fix(check, "tee <<EOF\n  x\nEOF");
    assert_false(core_doctor_is_ok(doctor));
    FILE *out = open_memstream(&text, &size);
    core_doctor_print(doctor, out);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, "ok    a       fine\\x1b[31m\n"
                              "warn  longer  so so\n"
                              "warn  same    so too\n"
                              "      hint: do that\n"
                              "fail  bad     no\n"
                              "      hint:\ntee <<EOF\n  x\nEOF\n");
    free(text);

    struct core_json json = {0};
    core_doctor_json(doctor, &json);
    assert_false(json.failed);
    assert_has(json.text, "{\"version\": 1, \"kern\": \"");
    assert_has(json.text, "\"ok\": false, \"checks\": [{\"name\": \"a\", \"status\": \"ok\"");
    assert_has(json.text, "\"detail\": \"so so\", \"fix\": \"do that\"}");
    assert_has(json.text, "\"fix\": \"tee <<EOF\\u000a  x\\u000aEOF\"}]}");
    assert_has(json.text, "\"fix\": null}");
    core_json_free(&json);
    free(doctor);
}

static void a_full_list(void **unused)
{
    (void)unused;
    struct core_doctor *doctor = calloc(1, sizeof(*doctor));
    for (size_t i = 0; i < CORE_DOCTOR_MOST + 5; i++)
        core_doctor_say(core_doctor_add(doctor, "x"), CORE_DOCTOR_OK, "y");
    assert_int_equal(doctor->count, CORE_DOCTOR_MOST - 1);
    free(doctor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(userns_switched_off),
        cmocka_unit_test(userns_too_many),
        cmocka_unit_test(userns_apparmor),
        cmocka_unit_test(userns_surroundings),
        cmocka_unit_test(profile_quotes_the_path),
        cmocka_unit_test(proc_causes),
        cmocka_unit_test(call_causes),
        cmocka_unit_test(free_ids),
        cmocka_unit_test(range_lines),
        cmocka_unit_test(limits_that_bind),
        cmocka_unit_test(limits_at_boot),
        cmocka_unit_test(limits_delegated),
        cmocka_unit_test(hierarchies),
        cmocka_unit_test(layout),
        cmocka_unit_test(a_full_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
