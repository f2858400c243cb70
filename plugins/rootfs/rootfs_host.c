/* The host root: what a box with neither --image nor --rootfs sees of the machine. Decides, in kern on the host,
 * which of the host's files are shown, copied or written anew; enter carries the plan out.
 *
 * The rule is a list of what goes in, never of what stays out: the system's programs and libraries, and of /etc
 * only what is named here. A thing that not everybody on the host may read is not taken even when it is named.
 * Each start pays for the plan again (a bind costs about twice a small file, that four times a link), so a link
 * is preferred to a copy, a copy of a small file to a bind, and what programs do well without is left out. */
#include "rootfs_host.h"

#include "kern/cleanup.h"
#include "kern/foundation.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define COPY_LIMIT (64u * 1024u)

/* Shown as they are: too large to copy at each start, or directories.
 *
 * Deliberately not here. May hold credentials: gitconfig, npmrc, pip.conf, environment, wgetrc, ssl/private,
 * maven, ssh. Not needed, which the box tests prove: python3.* (a hook of crash reporters), perl/Net and
 * perl/CPAN (settings with built-in defaults), nodejs. Built-in tables serve instead: mime.types, magic,
 * locale.alias. Of use to root's tools only: ld.so.conf*, login.defs, shells, pam.d, sub[ug]id. machine-id
 * identifies the host. ld.so.preload would name libraries that the box may not have. */
static const char *const shown[] = {
    "/etc/ld.so.cache",               /* without it libraries in unusual directories are not found */
    "/etc/alternatives",              /* Debian: cc, java, awk and others are links through it */
    "/etc/ssl/certs",                 /* public certificates; Java's trust store is below it on Debian */
    "/etc/pki/tls/certs",             /* Fedora's place for them, with links into the next two */
    "/etc/pki/ca-trust/extracted",    /* ... the bundles */
    "/etc/pki/java",                  /* ... and Java's name for one of them */
    "/etc/crypto-policies",           /* Fedora: openssl.cnf and java.security include it */
    "/etc/ca-certificates/extracted", /* Arch: where the links of /etc/ssl/certs lead */
    "/etc/perl/XML",                  /* Debian: XML::SAX finds its parsers only here */
};

/* Small and public, so a copy is cheaper than a mount. */
static const char *const copied[] = {
    "/etc/ssl/openssl.cnf", /* a host's choice of providers and protocols (FIPS, say) belongs to its libssl */
    "/etc/pki/tls/openssl.cnf", /* the same on Fedora */
    "/etc/protocols",           /* getprotobyname(), which Perl and Python programs ask for tcp */
    "/etc/services",            /* getaddrinfo("localhost", "http") */
};

/* Links into /usr on a merged system, directories of their own on others; absent where the machine has none. */
static const char *const system_directories[] = {"/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32"};

struct directory {
    const char *path;
    uint32_t mode;
};

/* What programs expect to find, empty: nothing of the host's /home, /var or /run is in the box. */
static const struct directory empty_directories[] = {
    {"/etc", 0755},  {"/root", 0700}, {"/tmp", 01777}, {"/var", 0755},  {"/var/tmp", 01777},
    {"/home", 0755}, {"/run", 0755},  {"/dev", 0755},  {"/proc", 0555}, {"/sys", 0555},
};

static const char group_text[] = "root:x:0:\n"
                                 "daemon:x:1:\n"
                                 "bin:x:2:\n"
                                 "sys:x:3:\n"
                                 "tty:x:5:\n"
                                 "mail:x:8:\n"
                                 "staff:x:50:\n"
                                 "users:x:100:\n"
                                 "nogroup:x:65534:\n";

static const char isolated_resolver_text[] = "# This box has no network but its own loopback.\n";
static const char egress_resolver_text[] = "# Answers for the hosts that this box may reach.\n"
                                           "nameserver " KERN_BOX_RESOLVER "\n";
static const char missing_resolver_text[] = "# The host has no /etc/resolv.conf that everybody may read.\n";

struct host {
    int root;
    const struct rootfs_host_facts *facts;
    struct rootfs_plan plan;
};

static void clear_host(struct host *host)
{
    rootfs_plan_clear(&host->plan);
}

/* Absolute links of a host that is only a directory (a test's) must not lead out of it. On the real root this is
 * an ordinary open, except that a ".." in a link is refused with EAGAIN while any other process mounts or
 * renames: with many boxes starting at once that happens, and asking again is the remedy the manual names. */
static int open_in(int root, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC),
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    for (int attempt = 0; attempt < 1000; attempt++) {
        int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
        if (fd >= 0 || errno != EAGAIN)
            return fd;
    }
    return -1;
}

/* What a link of the host says; 0 when there is none. A text that does not fit is no link that kern follows. */
static size_t link_text(int root, const char *path, char *text, size_t room)
{
    ssize_t length = readlinkat(root, path + 1, text, room);
    if (length <= 0 || (size_t)length >= room)
        return 0;
    text[length] = '\0';
    return (size_t)length;
}

static int starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static int is_absent(int code)
{
    return code == ENOENT || code == ENOTDIR || code == EACCES || code == ELOOP;
}

static int is_planned(const struct rootfs_plan *plan, const char *path)
{
    for (size_t i = 0; i < plan->count; i++)
        if (strcmp(plan->entry[i].path, path) == 0)
            return 1;
    return 0;
}

static int plan_parents(struct host *host, const char *path, struct kern_error *err)
{
    char parent[PATH_MAX];
    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        size_t length = (size_t)(slash - path);
        if (length >= sizeof(parent))
            return kern_fail(err, ENAMETOOLONG, "cannot plan \"%s\" of the box", path);
        memcpy(parent, path, length);
        parent[length] = '\0';
        int result = is_planned(&host->plan, parent) ? 0 : rootfs_plan_dir(&host->plan, parent, 0755, err);
        if (result < 0)
            return result;
    }
    return 0;
}

static int plan_text(struct host *host, const char *path, const char *text, struct kern_error *err)
{
    return rootfs_plan_file(&host->plan, path, 0644, text, strlen(text), err);
}

/* Shows a host file or directory under its own name, if there is one and everybody may read it. */
static int show(struct host *host, const char *path, struct kern_error *err)
{
    struct stat status;
    auto_fd fd = open_in(host->root, path, O_PATH);
    if (fd < 0 && is_absent(errno))
        return 0;
    if (fd < 0 || fstat(fd, &status) < 0)
        return kern_fail(err, errno, "cannot open \"%s\" of the host to show it in the box", path);
    mode_t needed = S_ISDIR(status.st_mode) ? S_IROTH | S_IXOTH : S_IROTH;
    if ((status.st_mode & needed) != needed)
        return 0;
    int result = plan_parents(host, path, err);
    return result < 0 ? result : rootfs_plan_bind_fd(&host->plan, path, &fd, err);
}

/* Reads to the end of the file or of the buffer, whichever comes first. */
static ssize_t read_up_to(int fd, char *bytes, size_t room)
{
    size_t used = 0;
    while (used < room) {
        ssize_t got = read(fd, bytes + used, room - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        used += (size_t)got;
    }
    return (ssize_t)used;
}

/* Puts a host file into the box under its own name, as a copy unless it is large. Returns 1 when it did, 0 when
 * there is none that everybody may read. */
static int copy(struct host *host, const char *path, struct kern_error *err)
{
    struct stat status;
    /* O_NONBLOCK: should somebody have put a pipe there, kern does not wait for its writer */
    auto_fd fd = open_in(host->root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && is_absent(errno))
        return 0;
    if (fd < 0 || fstat(fd, &status) < 0)
        return kern_fail(err, errno, "cannot open \"%s\" of the host to copy it into the box", path);
    if (!S_ISREG(status.st_mode) || (status.st_mode & S_IROTH) == 0)
        return 0;
    char bytes[COPY_LIMIT + 1];
    ssize_t length = read_up_to(fd, bytes, sizeof(bytes));
    if (length < 0)
        return kern_fail(err, (int)-length, "cannot read \"%s\" of the host", path);
    int result = plan_parents(host, path, err);
    if (result == 0 && (size_t)length > COPY_LIMIT)
        result = show(host, path, err); /* Fedora's services has 700 KB: there a mount is cheaper */
    else if (result == 0)
        result = rootfs_plan_file(&host->plan, path, 0644, bytes, (size_t)length, err);
    return result < 0 ? result : 1;
}

/* NixOS has next to nothing in /usr: the system is a tree of links in the store, which everybody may read. The
 * usual directories become links to the tree that is current now. `system` is that tree's path. */
static int plan_nix_system(struct host *host, const char *system, struct kern_error *err)
{
    static const char *const parts[] = {"bin", "lib", "share"};
    char path[32], target[PATH_MAX];
    int result = show(host, "/nix/store", err);
    if (result == 0)
        result = rootfs_plan_dir(&host->plan, "/usr", 0755, err);
    for (size_t i = 0; result == 0 && i < sizeof(parts) / sizeof(*parts); i++) {
        (void)snprintf(path, sizeof(path), "/usr/%s", parts[i]); /* always fits */
        if (snprintf(target, sizeof(target), "%s/sw/%s", system, parts[i]) >= (int)sizeof(target))
            return kern_fail(err, ENAMETOOLONG, "cannot use the system \"%s\" of the host", system);
        result = rootfs_plan_symlink(&host->plan, path, target, err);
    }
    if (result == 0)
        result = rootfs_plan_symlink(&host->plan, "/bin", "usr/bin", err);
    return result;
}

static int plan_usr(struct host *host, struct kern_error *err)
{
    auto_fd usr = open_in(host->root, "/usr", O_PATH | O_DIRECTORY);
    if (usr < 0) {
        int result = kern_refuse(err, errno, "cannot show \"/usr\" of the host in the box");
        kern_hint(err, "give the box a root of its own: kern box --image alpine, or kern box --rootfs DIR");
        return result;
    }
    return rootfs_plan_bind_fd(&host->plan, "/usr", &usr, err);
}

static int plan_system_directory(struct host *host, const char *path, struct kern_error *err)
{
    char target[PATH_MAX];
    size_t length = link_text(host->root, path, target, sizeof(target));
    if (length > 0 && (starts_with(target, "usr/") || starts_with(target, "/usr/")))
        return rootfs_plan_symlink(&host->plan, path, target, err);
    return show(host, path, err);
}

static int plan_system(struct host *host, struct kern_error *err)
{
    char current[PATH_MAX];
    size_t length = link_text(host->root, "/run/current-system", current, sizeof(current));
    if (length > 0 && starts_with(current, "/nix/store/"))
        return plan_nix_system(host, current, err);
    int result = plan_usr(host, err);
    for (size_t i = 0; result == 0 && i < sizeof(system_directories) / sizeof(*system_directories); i++)
        result = plan_system_directory(host, system_directories[i], err);
    return result;
}

static int plan_empty_directories(struct host *host, struct kern_error *err)
{
    int result = 0;
    for (size_t i = 0; result == 0 && i < sizeof(empty_directories) / sizeof(*empty_directories); i++)
        result = rootfs_plan_dir(&host->plan, empty_directories[i].path, empty_directories[i].mode, err);
    return result;
}

/* The accounts: no name of the host's users gets in. Ids that the box's map does not cover show as nobody. */
static int plan_accounts(struct host *host, struct kern_error *err)
{
    auto_fd bash = open_in(host->root, "/bin/bash", O_PATH);
    char text[512];
    (void)snprintf(text, sizeof(text),
                   "root:x:0:0:root:/root:%s\n"
                   "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
                   "bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
                   "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
                   bash >= 0 ? "/bin/bash" : "/bin/sh"); /* always fits */
    int result = plan_text(host, "/etc/passwd", text, err);
    return result < 0 ? result : plan_text(host, "/etc/group", group_text, err);
}

static void print_hosts(FILE *out, const struct rootfs_host_facts *facts)
{
    (void)fputs("127.0.0.1\tlocalhost\n"
                "::1\tlocalhost ip6-localhost ip6-loopback\n",
                out); /* a failure to write into memory shows when the stream is closed */
    /* A line of its own: on localhost's, the box's full name would turn out to be localhost. */
    if (strcmp(facts->hostname, "localhost") != 0)
        (void)fprintf(out, "127.0.0.1\t%s\n", facts->hostname); /* as above */
    for (size_t i = 0; i < facts->hosts_count; i++)
        (void)fprintf(out, "%s\n", facts->hosts_lines[i]); /* as above */
}

static int plan_hosts(struct host *host, struct kern_error *err)
{
    auto_free char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return kern_fail(err, errno, "cannot write the box's \"/etc/hosts\"");
    print_hosts(out, host->facts);
    int incomplete = ferror(out);
    if (fclose(out) != 0 || incomplete)
        return kern_fail(err, ENOMEM, "cannot write the box's \"/etc/hosts\"");
    return rootfs_plan_file(&host->plan, "/etc/hosts", 0644, text, length, err);
}

static int plan_hostname(struct host *host, struct kern_error *err)
{
    char text[HOST_NAME_MAX + 2];
    if (snprintf(text, sizeof(text), "%s\n", host->facts->hostname) >= (int)sizeof(text))
        return kern_refuse(err, ENAMETOOLONG, "cannot use the host name \"%s\"", host->facts->hostname);
    return plan_text(host, "/etc/hostname", text, err);
}

/* Only files, as no daemon of the host that answers for names can be reached; and dns where there is a network:
 * without one a look-up would only fail more slowly. */
static int plan_name_service(struct host *host, struct kern_error *err)
{
    char text[256];
    (void)snprintf(text, sizeof(text),
                   "passwd: files\ngroup: files\nshadow: files\nhosts: files%s\n"
                   "networks: files\nprotocols: files\nservices: files\n",
                   host->facts->share_network || host->facts->egress ? " dns" : ""); /* always fits */
    return plan_text(host, "/etc/nsswitch.conf", text, err);
}

static int plan_resolver(struct host *host, struct kern_error *err)
{
    if (host->facts->egress)
        return plan_text(host, "/etc/resolv.conf", egress_resolver_text, err);
    if (!host->facts->share_network)
        return plan_text(host, "/etc/resolv.conf", isolated_resolver_text, err);
    int copied_it = copy(host, "/etc/resolv.conf", err);
    if (copied_it != 0)
        return copied_it < 0 ? copied_it : 0;
    return plan_text(host, "/etc/resolv.conf", missing_resolver_text, err);
}

/* The time zone is a link into the zone files of /usr, where Java and others read its name from, or a copy. */
static int plan_time_zone(struct host *host, struct kern_error *err)
{
    char target[PATH_MAX];
    size_t length = link_text(host->root, "/etc/localtime", target, sizeof(target));
    if (length > 0 && (starts_with(target, "/usr/") || starts_with(target, "../usr/")))
        return rootfs_plan_symlink(&host->plan, "/etc/localtime", target, err);
    int result = copy(host, "/etc/localtime", err);
    return result < 0 ? result : 0;
}

/* Debian keeps its terminals in /usr and here only what an administrator adds: usually nothing but a README,
 * which is not worth a mount. A directory with two links has no directory in it. */
static int plan_terminals(struct host *host, struct kern_error *err)
{
    struct stat status;
    auto_fd fd = open_in(host->root, "/etc/terminfo", O_PATH | O_DIRECTORY);
    if (fd < 0 || fstat(fd, &status) < 0 || status.st_nlink == 2)
        return 0;
    return show(host, "/etc/terminfo", err);
}

/* The directory of /etc that one installed Java has its settings in: "/etc/java-17-openjdk" on Debian,
 * "/etc/java" on Fedora, "/etc/java17-openjdk" on Arch; found by the link that leads there. Returns 0 when the
 * settings stand beside the program. */
static int java_settings(int java, char *ret_path, size_t room)
{
    static const char *const links[] = {"/conf", "/conf/net.properties", "/jre/lib/net.properties"};
    char target[PATH_MAX];
    for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++) {
        size_t length = link_text(java, links[i], target, sizeof(target));
        if (length == 0 || !starts_with(target, "/etc/java"))
            continue;
        size_t end = strlen("/etc/") + strcspn(target + strlen("/etc/"), "/");
        if (end >= room)
            continue;
        memcpy(ret_path, target, end);
        ret_path[end] = '\0';
        return 1;
    }
    return 0;
}

static int plan_one_java(struct host *host, int directory, const char *name, struct kern_error *err)
{
    char settings[256];
    auto_fd java = openat(directory, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (java < 0 || !java_settings(java, settings, sizeof(settings)) || is_planned(&host->plan, settings))
        return 0;
    return show(host, settings, err);
}

/* A Java without its jvm.cfg and java.security, which distributions keep in /etc, does not start. */
static int plan_java(struct host *host, struct kern_error *err)
{
    auto_fd fd = open_in(host->root, "/usr/lib/jvm", O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return 0;
    auto_dir directory = fdopendir(fd);
    if (directory == NULL)
        return kern_fail(err, errno, "cannot list \"/usr/lib/jvm\" of the host");
    (void)steal_fd(&fd); /* the stream closes it */
    int result = 0;
    struct dirent *each;
    while (result == 0 && (each = readdir(directory)) != NULL)
        if (each->d_name[0] != '.' && each->d_type != DT_LNK) /* links are other names of the same Java */
            result = plan_one_java(host, dirfd(directory), each->d_name, err);
    return result;
}

static int plan_links(struct host *host, struct kern_error *err)
{
    int result = rootfs_plan_symlink(&host->plan, "/etc/mtab", "/proc/self/mounts", err);
    auto_fd release = open_in(host->root, "/usr/lib/os-release", O_PATH);
    if (result < 0 || release < 0)
        return result;
    return rootfs_plan_symlink(&host->plan, "/etc/os-release", "../usr/lib/os-release", err);
}

static int plan_host_files(struct host *host, struct kern_error *err)
{
    int result = 0;
    for (size_t i = 0; result >= 0 && i < sizeof(shown) / sizeof(*shown); i++)
        result = show(host, shown[i], err);
    for (size_t i = 0; result >= 0 && i < sizeof(copied) / sizeof(*copied); i++)
        result = copy(host, copied[i], err);
    return result < 0 ? result : 0;
}

int rootfs_host_plan_at(int root, const struct rootfs_host_facts *facts, struct rootfs_plan *ret_plan,
                        struct kern_error *err)
{
    static int (*const steps[])(struct host *, struct kern_error *) = {
        plan_system,    plan_empty_directories, plan_accounts, plan_hosts,
        plan_hostname,  plan_name_service,      plan_resolver, plan_time_zone,
        plan_terminals, plan_host_files,        plan_java,     plan_links,
    };
    cleanup(clear_host) struct host host = {.root = root, .facts = facts};
    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        int result = steps[i](&host, err);
        if (result < 0)
            return result;
    }
    *ret_plan = host.plan;
    host.plan = (struct rootfs_plan){0};
    return 0;
}

int rootfs_host_plan(const struct rootfs_host_facts *facts, struct rootfs_plan *ret_plan,
                     struct kern_error *err)
{
    auto_fd root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return kern_fail(err, errno, "cannot open \"/\" of the host");
    return rootfs_host_plan_at(root, facts, ret_plan, err);
}
