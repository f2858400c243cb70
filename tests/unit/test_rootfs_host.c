/* The host root on made-up hosts: each test builds a small tree in a temporary directory and looks at what the plan
 * takes from it. Needs no privileges and mounts nothing. */
#include "rootfs_host.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SECRET "sekrit"

/* ---- A host of one's own --------------------------------------------------------------------------- */

struct fake {
    char *path; /* canonical: what the sources of binds begin with */
    int root;
    struct rootfs_host_facts facts;
    struct rootfs_plan plan;
    struct kern_error err;
};

static void make_parents(const struct fake *fake, const char *path)
{
    char parent[256];
    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        (void)snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
        assert_true(mkdirat(fake->root, parent, 0755) == 0 || errno == EEXIST);
    }
}

static void make_directory(const struct fake *fake, const char *path)
{
    make_parents(fake, path);
    assert_true(mkdirat(fake->root, path, 0755) == 0 || errno == EEXIST);
}

static void make_link(const struct fake *fake, const char *path, const char *target)
{
    make_parents(fake, path);
    assert_int_equal(symlinkat(target, fake->root, path), 0);
}

static void make_file(const struct fake *fake, const char *path, const char *text)
{
    make_parents(fake, path);
    int fd = openat(fake->root, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
}

/* A merged system with nothing but a shell. */
static int make_host(void **state)
{
    char path[] = "/tmp/kern-test-host-XXXXXX";
    assert_non_null(mkdtemp(path));
    (void)umask(022); /* what everybody may read matters here; returns the old one only */
    struct fake *fake = calloc(1, sizeof(*fake));
    assert_non_null(fake);
    fake->path = realpath(path, NULL);
    fake->root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(fake->root >= 0);
    fake->facts.hostname = "lab";
    make_file(fake, "usr/bin/sh", "");
    make_link(fake, "bin", "usr/bin");
    *state = fake;
    return 0;
}

static int remove_host(void **state)
{
    struct fake *fake = *state;
    char command[PATH_MAX + 16];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", fake->path);
    int result = system(command);
    rootfs_plan_clear(&fake->plan);
    (void)close(fake->root); /* only read from */
    free(fake->path);
    free(fake);
    return result;
}

static const struct rootfs_entry *find(const struct rootfs_plan *plan, const char *path)
{
    for (size_t i = 0; i < plan->count; i++)
        if (strcmp(plan->entry[i].path, path) == 0)
            return &plan->entry[i];
    return NULL;
}

/* What holds for every plan: each path once, and its parent before it. */
static void check_order(const struct rootfs_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        const char *path = plan->entry[i].path;
        assert_ptr_equal(find(plan, path), &plan->entry[i]);
        char parent[PATH_MAX];
        (void)snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(path, '/') - path), path);
        if (parent[0] == '\0')
            continue;
        const struct rootfs_entry *above = find(plan, parent);
        assert_non_null(above);
        assert_true(above < &plan->entry[i]);
        assert_int_equal(above->kind, ROOTFS_DIR);
    }
}

static void plan_host(struct fake *fake)
{
    rootfs_plan_clear(&fake->plan);
    int result = rootfs_host_plan_at(fake->root, &fake->facts, &fake->plan, &fake->err);
    if (result < 0)
        print_error("%s\n", fake->err.message);
    assert_int_equal(result, 0);
    check_order(&fake->plan);
}

static void assert_bound(const struct fake *fake, const char *path, const char *source)
{
    char expected[PATH_MAX];
    (void)snprintf(expected, sizeof(expected), "%s%s", fake->path, source);
    const struct rootfs_entry *entry = find(&fake->plan, path);
    assert_non_null(entry);
    assert_int_equal(entry->kind, ROOTFS_BIND);
    assert_string_equal(entry->source, expected);
    assert_true(entry->fd >= 0);
}

static void assert_linked(const struct fake *fake, const char *path, const char *target)
{
    const struct rootfs_entry *entry = find(&fake->plan, path);
    assert_non_null(entry);
    assert_int_equal(entry->kind, ROOTFS_SYMLINK);
    assert_string_equal(entry->source, target);
}

static void assert_absent(const struct fake *fake, const char *path)
{
    assert_null(find(&fake->plan, path));
}

static int contains(const struct rootfs_entry *entry, const char *text)
{
    return entry->length > 0 && memmem(entry->bytes, entry->length, text, strlen(text)) != NULL;
}

static void assert_written(const struct fake *fake, const char *path, const char *text)
{
    const struct rootfs_entry *entry = find(&fake->plan, path);
    assert_non_null(entry);
    assert_int_equal(entry->kind, ROOTFS_FILE);
    assert_int_equal(entry->mode, 0644);
    assert_true(contains(entry, text));
}

/* ---- The system's directories ----------------------------------------------------------------------- */

static void test_merged_host(void **state)
{
    struct fake *fake = *state;
    make_directory(fake, "usr/lib");
    make_link(fake, "lib", "/usr/lib");
    plan_host(fake);
    assert_bound(fake, "/usr", "/usr");
    assert_linked(fake, "/bin", "usr/bin");
    assert_linked(fake, "/lib", "/usr/lib");
    assert_absent(fake, "/sbin");
    assert_absent(fake, "/lib64");
}

static void test_unmerged_host(void **state)
{
    struct fake *fake = *state;
    assert_int_equal(unlinkat(fake->root, "bin", 0), 0);
    make_file(fake, "bin/bash", "");
    make_directory(fake, "lib");
    make_link(fake, "lib64", "lib");
    make_link(fake, "sbin", "/bin");
    plan_host(fake);
    assert_bound(fake, "/usr", "/usr");
    assert_bound(fake, "/bin", "/bin");
    assert_bound(fake, "/lib", "/lib");
    assert_bound(fake, "/lib64", "/lib");
    assert_bound(fake, "/sbin", "/bin"); /* the made-up host's /bin, not this machine's */
}

static void test_usr_is_a_link(void **state)
{
    struct fake *fake = *state;
    make_directory(fake, "system");
    assert_int_equal(renameat(fake->root, "usr", fake->root, "system/usr"), 0);
    make_link(fake, "usr", "/system/usr");
    plan_host(fake);
    assert_bound(fake, "/usr", "/system/usr");
}

static void test_host_without_usr(void **state)
{
    struct fake *fake = *state;
    assert_int_equal(renameat(fake->root, "usr", fake->root, "gone"), 0);
    struct rootfs_plan untouched = {.count = 7};
    assert_int_equal(rootfs_host_plan_at(fake->root, &fake->facts, &untouched, &fake->err), -ENOENT);
    assert_int_equal(untouched.count, 7);
    assert_int_equal(fake->err.category, KERN_ERROR_REFUSED);
    assert_non_null(strstr(fake->err.message, "\"/usr\""));
    assert_non_null(strstr(fake->err.hint, "--rootfs"));
}

static void test_nix_host(void **state)
{
    struct fake *fake = *state;
    make_directory(fake, "nix/store/abc-system/sw/bin");
    make_link(fake, "run/current-system", "/nix/store/abc-system");
    plan_host(fake);
    assert_bound(fake, "/nix/store", "/nix/store");
    assert_int_equal(find(&fake->plan, "/usr")->kind, ROOTFS_DIR);
    assert_linked(fake, "/usr/bin", "/nix/store/abc-system/sw/bin");
    assert_linked(fake, "/bin", "usr/bin");
}

static void test_empty_directories(void **state)
{
    struct fake *fake = *state;
    make_file(fake, "home/ann/.ssh/id", SECRET);
    make_file(fake, "run/docker.sock", SECRET);
    plan_host(fake);
    static const struct {
        const char *path;
        uint32_t mode;
    } expected[] = {{"/root", 0700}, {"/tmp", 01777}, {"/var/tmp", 01777}, {"/var", 0755}, {"/home", 0755},
                    {"/run", 0755},  {"/dev", 0755},  {"/proc", 0555},     {"/sys", 0555}};
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
        const struct rootfs_entry *entry = find(&fake->plan, expected[i].path);
        assert_non_null(entry);
        assert_int_equal(entry->kind, ROOTFS_DIR);
        assert_int_equal(entry->mode, expected[i].mode);
    }
}

/* ---- /etc ------------------------------------------------------------------------------------------- */

static void test_nothing_secret_is_taken(void **state)
{
    struct fake *fake = *state;
    static const char *const secret[] = {"etc/shadow",
                                         "etc/gshadow",
                                         "etc/passwd",
                                         "etc/group",
                                         "etc/hosts",
                                         "etc/gitconfig",
                                         "etc/npmrc",
                                         "etc/pip.conf",
                                         "etc/environment",
                                         "etc/machine-id",
                                         "etc/ssl/private/key",
                                         "etc/ssh/key",
                                         "etc/resolv.conf",
                                         "etc/hostname",
                                         "etc/perl/CPAN/rc",
                                         "etc/maven/settings.xml",
                                         "root/.netrc",
                                         "var/lib/db",
                                         "opt/tool"};
    for (size_t i = 0; i < sizeof(secret) / sizeof(*secret); i++)
        make_file(fake, secret[i], SECRET);
    make_file(fake, "etc/ssl/certs/ca.pem", "public");
    make_file(fake, "etc/ssl/openssl.cnf", "public");
    make_file(fake, "etc/ld.so.cache", "public");
    plan_host(fake);
    size_t binds = 0;
    for (size_t i = 0; i < fake->plan.count; i++) {
        assert_false(contains(&fake->plan.entry[i], SECRET));
        binds += fake->plan.entry[i].kind == ROOTFS_BIND;
    }
    assert_int_equal(binds, 3);
    assert_bound(fake, "/usr", "/usr");
    assert_bound(fake, "/etc/ssl/certs", "/etc/ssl/certs");
    assert_bound(fake, "/etc/ld.so.cache", "/etc/ld.so.cache");
    assert_written(fake, "/etc/ssl/openssl.cnf", "public");
}

static void test_what_not_everybody_may_read_stays_out(void **state)
{
    struct fake *fake = *state;
    make_file(fake, "etc/ssl/certs/ca.pem", SECRET);
    make_file(fake, "etc/services", SECRET);
    make_file(fake, "etc/ld.so.cache", SECRET);
    assert_int_equal(fchmodat(fake->root, "etc/ssl/certs", 0750, 0), 0);
    assert_int_equal(fchmodat(fake->root, "etc/services", 0640, 0), 0);
    assert_int_equal(fchmodat(fake->root, "etc/ld.so.cache", 0600, 0), 0);
    plan_host(fake);
    assert_absent(fake, "/etc/ssl/certs");
    assert_absent(fake, "/etc/ssl");
    assert_absent(fake, "/etc/services");
    assert_absent(fake, "/etc/ld.so.cache");
}

static void test_certificates_of_fedora(void **state)
{
    struct fake *fake = *state;
    make_file(fake, "etc/pki/tls/private/key", SECRET);
    make_directory(fake, "etc/pki/tls/certs");
    make_directory(fake, "etc/pki/ca-trust/extracted");
    make_link(fake, "etc/ssl/certs", "../pki/tls/certs");
    plan_host(fake);
    assert_bound(fake, "/etc/ssl/certs", "/etc/pki/tls/certs");
    assert_bound(fake, "/etc/pki/tls/certs", "/etc/pki/tls/certs");
    assert_bound(fake, "/etc/pki/ca-trust/extracted", "/etc/pki/ca-trust/extracted");
    assert_int_equal(find(&fake->plan, "/etc/pki")->kind, ROOTFS_DIR);
}

static void test_a_pipe_is_not_waited_for(void **state)
{
    struct fake *fake = *state;
    make_directory(fake, "etc");
    assert_int_equal(mkfifoat(fake->root, "etc/services", 0644), 0);
    plan_host(fake);
    assert_absent(fake, "/etc/services");
}

static void test_accounts(void **state)
{
    struct fake *fake = *state;
    plan_host(fake);
    assert_written(fake, "/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n");
    assert_written(fake, "/etc/passwd", "nobody:x:65534:65534:");
    assert_written(fake, "/etc/group", "nogroup:x:65534:\n");
    make_file(fake, "usr/bin/bash", "");
    plan_host(fake);
    assert_written(fake, "/etc/passwd", "root:x:0:0:root:/root:/bin/bash\n");
}

static void test_names(void **state)
{
    struct fake *fake = *state;
    static const char *const lines[] = {"10.0.0.1 db", "10.0.0.2 cache"};
    fake->facts.hosts_lines = lines;
    fake->facts.hosts_count = 2;
    plan_host(fake);
    assert_written(fake, "/etc/hostname", "lab\n");
    assert_written(fake, "/etc/hosts", "127.0.0.1\tlocalhost\n");
    assert_written(fake, "/etc/hosts", "127.0.0.1\tlab\n10.0.0.1 db\n10.0.0.2 cache\n");
    fake->facts.hostname = "localhost";
    fake->facts.hosts_count = 0;
    plan_host(fake);
    const struct rootfs_entry *hosts = find(&fake->plan, "/etc/hosts");
    const char *only = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";
    assert_int_equal(hosts->length, strlen(only));
    assert_memory_equal(hosts->bytes, only, strlen(only));
}

static void test_resolver(void **state)
{
    struct fake *fake = *state;
    make_file(fake, "run/resolve/stub.conf", "nameserver 192.0.2.1\n");
    make_link(fake, "etc/resolv.conf", "/run/resolve/stub.conf");
    plan_host(fake);
    assert_written(fake, "/etc/resolv.conf", "# This box has no network");
    assert_false(contains(find(&fake->plan, "/etc/nsswitch.conf"), "dns"));
    fake->facts.egress = 1;
    plan_host(fake);
    assert_written(fake, "/etc/resolv.conf",
                   "# Answers for the hosts that this box may reach.\nnameserver 127.0.0.11\n");
    assert_written(fake, "/etc/nsswitch.conf", "hosts: files dns\n");
    fake->facts.egress = 0;
    fake->facts.share_network = 1;
    plan_host(fake);
    assert_written(fake, "/etc/resolv.conf", "nameserver 192.0.2.1\n");
    assert_written(fake, "/etc/nsswitch.conf", "hosts: files dns\n");
    assert_int_equal(unlinkat(fake->root, "run/resolve/stub.conf", 0), 0);
    plan_host(fake);
    assert_written(fake, "/etc/resolv.conf", "# The host has no /etc/resolv.conf");
}

static void test_a_large_file_is_shown_instead_of_copied(void **state)
{
    struct fake *fake = *state;
    make_file(fake, "etc/services", "");
    int fd = openat(fake->root, "etc/services", O_WRONLY | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, 64 * 1024), 0);
    plan_host(fake);
    assert_int_equal(find(&fake->plan, "/etc/services")->length, 64 * 1024);
    assert_int_equal(ftruncate(fd, 64 * 1024 + 1), 0);
    assert_int_equal(close(fd), 0);
    plan_host(fake);
    assert_bound(fake, "/etc/services", "/etc/services");
}

static void test_time_zone(void **state)
{
    struct fake *fake = *state;
    plan_host(fake);
    assert_absent(fake, "/etc/localtime");
    make_link(fake, "etc/localtime", "../usr/share/zoneinfo/Europe/Rome");
    plan_host(fake);
    assert_linked(fake, "/etc/localtime", "../usr/share/zoneinfo/Europe/Rome");
    assert_int_equal(unlinkat(fake->root, "etc/localtime", 0), 0);
    make_file(fake, "srv/zone", "TZif");
    make_link(fake, "etc/localtime", "/srv/zone");
    plan_host(fake);
    assert_written(fake, "/etc/localtime", "TZif");
}

static void test_terminals(void **state)
{
    struct fake *fake = *state;
    struct stat status;
    make_file(fake, "etc/terminfo/README", "");
    assert_int_equal(fstatat(fake->root, "etc/terminfo", &status, 0), 0);
    plan_host(fake);
    if (status.st_nlink == 2) /* some file systems do not count the links of directories */
        assert_absent(fake, "/etc/terminfo");
    make_file(fake, "etc/terminfo/x/xterm", "");
    plan_host(fake);
    assert_bound(fake, "/etc/terminfo", "/etc/terminfo");
}

static void test_java(void **state)
{
    struct fake *fake = *state;
    make_link(fake, "usr/lib/jvm/java-17/conf/net.properties", "/etc/java-17-openjdk/net.properties");
    make_link(fake, "usr/lib/jvm/java-17-twin/conf/net.properties", "/etc/java-17-openjdk/net.properties");
    make_link(fake, "usr/lib/jvm/java-8/jre/lib/net.properties", "/etc/java-8-openjdk/net.properties");
    make_link(fake, "usr/lib/jvm/java-21/conf", "/etc/java21-openjdk");
    make_link(fake, "usr/lib/jvm/odd/conf", "/etc/shadow");
    make_link(fake, "usr/lib/jvm/default", "java-17");
    make_file(fake, "usr/lib/jvm/self-contained/conf/net.properties", "");
    make_directory(fake, "etc/java-17-openjdk");
    make_directory(fake, "etc/java21-openjdk");
    make_file(fake, "etc/shadow", SECRET);
    plan_host(fake); /* checks too that nothing is there twice */
    assert_bound(fake, "/etc/java-17-openjdk", "/etc/java-17-openjdk");
    assert_bound(fake, "/etc/java21-openjdk", "/etc/java21-openjdk");
    assert_absent(fake, "/etc/java-8-openjdk"); /* the link is there, its directory is not */
    assert_absent(fake, "/etc/shadow");
}

static void test_links(void **state)
{
    struct fake *fake = *state;
    plan_host(fake);
    assert_linked(fake, "/etc/mtab", "/proc/self/mounts");
    assert_absent(fake, "/etc/os-release");
    make_file(fake, "usr/lib/os-release", "");
    plan_host(fake);
    assert_linked(fake, "/etc/os-release", "../usr/lib/os-release");
}

static void test_this_machine(void **state)
{
    struct fake *fake = *state;
    assert_int_equal(rootfs_host_plan(&fake->facts, &fake->plan, &fake->err), 0);
    check_order(&fake->plan);
    assert_int_equal(find(&fake->plan, "/etc/passwd")->kind, ROOTFS_FILE);
    assert_absent(fake, "/etc/shadow");
}

#define on_host(test) cmocka_unit_test_setup_teardown(test, make_host, remove_host)

int main(void)
{
    const struct CMUnitTest tests[] = {on_host(test_merged_host),
                                       on_host(test_unmerged_host),
                                       on_host(test_usr_is_a_link),
                                       on_host(test_host_without_usr),
                                       on_host(test_nix_host),
                                       on_host(test_empty_directories),
                                       on_host(test_nothing_secret_is_taken),
                                       on_host(test_what_not_everybody_may_read_stays_out),
                                       on_host(test_certificates_of_fedora),
                                       on_host(test_a_pipe_is_not_waited_for),
                                       on_host(test_accounts),
                                       on_host(test_names),
                                       on_host(test_resolver),
                                       on_host(test_a_large_file_is_shown_instead_of_copied),
                                       on_host(test_time_zone),
                                       on_host(test_terminals),
                                       on_host(test_java),
                                       on_host(test_links),
                                       on_host(test_this_machine)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
