/* Finding, verifying and opening plugins that are shared objects; see plugin.h. (plugin_static.c stands in for this
 * file where they are compiled in.) A plugin runs with all that kern has, so whoever could have
 * written the file or exchanged it decides whether it is opened. Host side, before the clone. */
#include "plugin.h"

#include "cleanup.h"
#include "error.h"
#include "guard.h"
#include "known.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#if defined(__x86_64__)
#define OUR_MACHINE      EM_X86_64
#define OUR_MACHINE_NAME "x86_64"
#else
#define OUR_MACHINE      EM_AARCH64
#define OUR_MACHINE_NAME "aarch64"
#endif

int core_plugin_directory(char *ret_path, size_t size, struct kern_error *err)
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (length <= 0)
        return kern_fail(err, errno, "cannot find kern's own path in \"/proc/self/exe\"");
    self[length] = '\0';
    char *slash = strrchr(self, '/');
    *slash = '\0';
    int used = snprintf(ret_path, size, "%s/" KERN_PLUGIN_RELATIVE_DIR, self);
    if (used < 0 || (size_t)used >= size)
        return kern_fail(err, ENAMETOOLONG, "cannot name the plugin directory beside \"%s\"", self);
    return 0;
}

/* Root, the caller, and whoever owns the kern that is running: that one has our trust already. The last matters in a user
 * namespace where the host's root has no number and shows as nobody. */
static bool is_trusted_owner(const struct stat *st)
{
    struct stat self;
    return st->st_uid == 0 || st->st_uid == geteuid() ||
           (stat("/proc/self/exe", &self) == 0 && st->st_uid == self.st_uid);
}

/* A directory that others may write is harmless only when its sticky bit keeps them from exchanging what is not
 * theirs (/tmp). */
static int check_directory(const char *path, const struct stat *st, struct kern_error *err)
{
    bool shared = (st->st_mode & (S_IWGRP | S_IWOTH)) != 0 && (st->st_mode & S_ISVTX) == 0;
    if (is_trusted_owner(st) && !shared)
        return 0;
    kern_refuse(err, 0, "cannot trust plugin directory \"%s\": %s", path,
                shared ? "others may write to it" : "it belongs to another user");
    kern_hint(err, shared ? "chmod go-w '%s'" : "chown root '%s'", path);
    return -EPERM;
}

static int check_parents(const char *path, struct kern_error *err)
{
    char part[PATH_MAX];
    size_t length = strlen(path);
    if (length >= sizeof(part))
        return kern_refuse(err, ENAMETOOLONG, "cannot use plugin path \"%.200s...\"", path);
    memcpy(part, path, length + 1);
    for (char *slash = strrchr(part, '/'); slash != NULL; slash = strrchr(part, '/')) {
        *slash = '\0';
        const char *name = part[0] != '\0' ? part : "/";
        struct stat st;
        if (stat(name, &st) != 0)
            return kern_refuse(err, errno, "cannot look at plugin directory \"%s\"", name);
        int failed = check_directory(name, &st, err);
        if (failed != 0)
            return failed;
    }
    return 0;
}

/* The loader maps what the headers promise; a file cut short would end kern with SIGBUS. */
static int check_whole(int fd, const Elf64_Ehdr *header, off_t size, const char *path, struct kern_error *err)
{
    Elf64_Phdr segment[16];
    size_t bytes = header->e_phnum * sizeof(segment[0]);
    bool whole = header->e_phentsize == sizeof(segment[0]) && bytes <= sizeof(segment) &&
                 pread(fd, segment, bytes, (off_t)header->e_phoff) == (ssize_t)bytes;
    for (size_t i = 0; whole && i < header->e_phnum; i++)
        whole = segment[i].p_type != PT_LOAD || (segment[i].p_filesz <= (uint64_t)size &&
                                                 segment[i].p_offset <= (uint64_t)size - segment[i].p_filesz);
    return whole ? 0
                 : kern_refuse(err, 0, "cannot load plugin \"%s\": the file is cut short or damaged", path);
}

static int check_machine(int fd, off_t size, const char *path, struct kern_error *err)
{
    Elf64_Ehdr header;
    ssize_t got = pread(fd, &header, sizeof(header), 0);
    if (got != (ssize_t)sizeof(header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return kern_refuse(err, 0, "cannot load plugin \"%s\": it is not a shared object", path);
    if (header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == OUR_MACHINE)
        return check_whole(fd, &header, size, path, err);
    kern_refuse(err, 0,
                "cannot load plugin \"%s\": it was built for another machine (ELF machine %u, this is %s)",
                path, header.e_machine, OUR_MACHINE_NAME);
    kern_hint(err, "build the plugin for " OUR_MACHINE_NAME);
    return -ENOEXEC;
}

/* Opens the file and judges what was opened, so that nothing can be exchanged between the check and the use. */
static int open_verified(const char *path, int *ret_fd, struct kern_error *err)
{
    /* A FIFO would be waited for. */
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return kern_refuse(err, errno, "cannot open plugin \"%s\"", path);
    struct stat st;
    if (fstat(fd, &st) != 0)
        return kern_refuse(err, errno, "cannot look at plugin \"%s\"", path);
    if (!S_ISREG(st.st_mode))
        return kern_refuse(err, 0, "cannot load plugin \"%s\": it is not a regular file", path);
    if (!is_trusted_owner(&st)) {
        kern_refuse(err, 0, "cannot load plugin \"%s\": it belongs to another user (uid %u)", path,
                    st.st_uid);
        kern_hint(err, "chown root '%s'", path);
        return -EPERM;
    }
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        kern_refuse(err, 0, "cannot load plugin \"%s\": others may write to it", path);
        kern_hint(err, "chmod go-w '%s'", path);
        return -EPERM;
    }
    int failed = check_machine(fd, st.st_size, path, err);
    if (failed != 0)
        return failed;
    *ret_fd = steal_fd(&fd);
    return 0;
}

/* Where a third party may stand: what decides about identity, filter and pivot is kern's own. */
static int check_stage(const struct kern_plugin *table, const char *path, struct kern_error *err)
{
    switch (table->stage) {
    case KERN_STAGE_LIMIT:
    case KERN_STAGE_ROOT:
    case KERN_STAGE_MOUNT:
    case KERN_STAGE_DEVICE:
    case KERN_STAGE_NETWORK:
        return 0;
    default:
        kern_refuse(err, 0, "cannot load plugin \"%s\": its stage is %u", path, table->stage);
        kern_hint(err, "a plugin's .stage is KERN_STAGE_LIMIT, _ROOT, _MOUNT, _DEVICE or _NETWORK");
        return -EINVAL;
    }
}

/* What the loader says of a plugin that calls a function which this kern does not have: it was built for a newer one. */
static int refuse_object(const char *path, struct kern_error *err)
{
    const char *said = dlerror();
    const char *symbol = said != NULL ? strstr(said, "undefined symbol: kern_") : NULL;
    if (symbol == NULL)
        return kern_refuse(err, 0, "cannot load plugin \"%s\": %s", path,
                           said != NULL ? said : "the loader refuses it");
    symbol += strlen("undefined symbol: ");
    kern_refuse(err, 0,
                "cannot load plugin \"%s\": it was built for a newer kern than " KERN_VERSION
                ": it needs %.*s()",
                path, (int)strcspn(symbol, ", \n"), symbol);
    kern_hint(err, "update kern, or build the plugin against the header of kern " KERN_VERSION);
    return -ENOSYS;
}

/* An older plugin's table ends before the fields that came later: those are NULL then. */
static const struct kern_plugin *complete_table(const struct kern_plugin *table)
{
    if (table->struct_size == sizeof(struct kern_plugin))
        return table;
    struct kern_plugin *copy = calloc(1, sizeof(*copy));
    if (copy != NULL)
        memcpy(copy, table, table->struct_size);
    return copy;
}

struct opening {
    const char *name, *path; /* as it is opened, and as it is told */
    const struct kern_plugin *table;
    struct kern_error *err;
    int result;
    volatile bool opened; /* what goes wrong now is its table's fault */
};

static int take_table(struct opening *opening)
{
    const char *path = opening->path;
    struct kern_error *err = opening->err;
    void *object = dlopen(opening->name, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL)
        return refuse_object(path, err);
    opening->opened = true;
    const struct kern_plugin *table = dlsym(object, KERN_PLUGIN_SYMBOL);
    if (table == NULL) {
        kern_refuse(err, 0, "cannot load plugin \"%s\": it has no plugin table", path);
        kern_hint(err, "a plugin defines its table with KERN_PLUGIN(...) from <kern/plugin.h>");
        return -ENOENT;
    }
    int failed = core_known_table(table, path, err);
    if (failed != 0)
        return failed;
    opening->table = complete_table(table);
    return opening->table != NULL ? 0
                                  : kern_fail(err, ENOMEM, "cannot keep the table of plugin \"%s\"", path);
}

static void open_foreign(void *arg)
{
    struct opening *opening = arg;
    opening->result = take_table(opening);
    if (opening->result == 0)
        (void)core_known_reach(opening->table); /* that it comes back is what matters */
}

static int refuse_crash(const struct opening *opening, int ended)
{
    const char *path = opening->path;
    struct kern_error *err = opening->err;
    *err = (struct kern_error){0}; /* half a message, perhaps */
    if (opening->opened && ended > 0) {
        kern_refuse(err, 0, "cannot load plugin \"%s\": a pointer in its table leads nowhere: %s (signal %d)",
                    path, sigdescr_np(ended), ended);
        kern_hint(err,
                  "its texts are literals or NULL, lists end with NULL and options with {.name = NULL}; take "
                  "it out of kern.toml");
        return -EFAULT;
    }
    if (ended == CORE_GUARD_LEFT)
        kern_refuse(err, 0, "cannot load plugin \"%s\": it ended the process when it was opened", path);
    else if (ended == CORE_GUARD_HUNG)
        kern_refuse(err, 0, "cannot load plugin \"%s\": opening it did not end", path);
    else
        kern_refuse(err, 0, "cannot load plugin \"%s\": it crashed when it was opened: %s (signal %d)", path,
                    sigdescr_np(ended), ended);
    kern_hint(err,
              "a constructor of it, or of a library that it needs, is at fault; take it out of kern.toml");
    return -EFAULT;
}

/* A third party's constructors may crash, and its table lead anywhere. */
static int open_guarded(struct opening *opening)
{
    int ended = core_guard_opening(open_foreign, opening);
    if (ended != 0)
        return refuse_crash(opening, ended);
    return opening->result != 0 ? opening->result : check_stage(opening->table, opening->path, opening->err);
}

/* kern's own plugins are opened by name: nobody who could exchange one between the check and the use would need to, for the
 * directories above it were judged as well. A plugin from elsewhere is opened through the descriptor that was judged; that
 * stays open until kern ends, also where the plugin is refused: glibc tells objects apart by the path they were opened with,
 * and a number that is used again would hand out the plugin opened before. */
static int open_table(const char *path, bool own, const struct kern_plugin **ret_table,
                      struct kern_error *err)
{
    auto_fd fd = -1;
    int failed = open_verified(path, &fd, err);
    if (failed != 0)
        return failed;
    char name[40];
    (void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd); /* fits: a number is short */
    if (!own)
        (void)steal_fd(&fd);
    struct opening opening = {.name = own ? path : name, .path = path, .err = err};
    failed = own ? take_table(&opening) : open_guarded(&opening);
    if (failed != 0)
        return failed;
    *ret_table = opening.table;
    return 0;
}

static int load_builtin(struct core_plugin *plugin, const char *directory, struct kern_error *err)
{
    char path[PATH_MAX];
    int used = snprintf(path, sizeof(path), "%s/%s.so", directory, plugin->name);
    if (used < 0 || (size_t)used >= sizeof(path))
        return kern_refuse(err, ENAMETOOLONG, "cannot name plugin \"%s\"", plugin->name);
    int failed = open_table(path, true, &plugin->table, err);
    if (failed != 0) {
        kern_hint(err, "install kern again: the plugin belongs into '%s'", directory);
        return failed;
    }
    plugin->path = strdup(path);
    plugin->loaded = true;
    return 0;
}

int core_plugin_load_wanted(struct core_catalog *catalog, struct kern_error *err)
{
    char directory[PATH_MAX];
    int failed = core_plugin_directory(directory, sizeof(directory), err);
    if (failed != 0)
        return failed;
    char resolved[PATH_MAX];
    if (realpath(directory, resolved) == NULL)
        return kern_refuse(err, errno, "cannot find kern's plugins in \"%s\"", directory);
    memcpy(directory, resolved, sizeof(directory));
    char inside[PATH_MAX + 2];
    (void)snprintf(inside, sizeof(inside), "%s/.", directory); /* fits by its size */
    failed = check_parents(inside, err);
    if (failed != 0)
        return failed;
    for (size_t i = 0; i < catalog->count; i++) {
        struct core_plugin *plugin = &catalog->plugin[i];
        if (!plugin->wanted || plugin->loaded || !plugin->builtin || plugin->table->stage == 0)
            continue;
        failed = load_builtin(plugin, directory, err);
        if (failed != 0)
            return failed;
    }
    return 0;
}

bool core_plugin_is_foundation(const char *function)
{
    return dlvsym(RTLD_DEFAULT, function, "KERN_FOUNDATION") != NULL;
}

void *core_plugin_companion(const char *object, const char *function, struct kern_error *err)
{
    char directory[PATH_MAX], path[PATH_MAX + 64], name[40];
    if (core_plugin_directory(directory, sizeof(directory), err) != 0)
        return NULL;
    (void)snprintf(path, sizeof(path), "%s/%s.so", directory, object); /* sized for it */
    auto_fd fd = -1;
    if (open_verified(path, &fd, err) != 0)
        return NULL;
    (void)snprintf(name, sizeof(name), "/proc/self/fd/%d", steal_fd(&fd)); /* kept open: see open_table() */
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    void *found = handle != NULL ? dlsym(handle, function) : NULL;
    if (found == NULL)
        kern_refuse(err, 0, "cannot load \"%s\": %s", path, dlerror());
    return found;
}

/* The kernel says where it came to: realpath() would look at each folder once more. */
static int resolve(const char *path, char *ret_resolved, size_t size, struct kern_error *err)
{
    char link[40];
    auto_fd fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0) {
        kern_refuse(err, errno, "cannot find plugin \"%s\"", path);
        kern_hint(err, "correct the [[plugin]] table in kern.toml");
        return -ENOENT;
    }
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd); /* fits: a number is short */
    ssize_t length = readlink(link, ret_resolved, size);
    if (length <= 0 || (size_t)length == size || ret_resolved[0] != '/')
        return kern_refuse(err, length < 0 ? errno : ENAMETOOLONG, "cannot find where plugin \"%s\" lies",
                           path);
    ret_resolved[length] = '\0';
    return 0;
}

int core_plugin_add_path(struct core_catalog *catalog, const char *path, struct core_plugin **ret_plugin,
                         struct kern_error *err)
{
    if (path[0] != '/')
        return kern_refuse(err, 0, "cannot load plugin \"%s\": the path must be absolute", path);
    char resolved[PATH_MAX];
    int failed = resolve(path, resolved, sizeof(resolved), err);
    if (failed == 0)
        failed = check_parents(resolved, err);
    if (failed != 0)
        return failed;
    const struct kern_plugin *table = NULL;
    failed = open_table(resolved, false, &table, err);
    if (failed != 0)
        return failed;
    failed = core_catalog_add(catalog, table, resolved, ret_plugin, err);
    bool completed = table->struct_size < sizeof(*table);
    if (failed == 0)
        (*ret_plugin)->completed = completed;
    else if (completed)
        free((void *)(uintptr_t)table); /* made by calloc() */
    return failed;
}

/* KERN_PLUGIN_PATH adds directories, but only where nobody else chose the configuration. */
static const char *extra_directories(bool trusted_path)
{
    if (!trusted_path || getauxval(AT_SECURE) != 0)
        return NULL;
    const char *value = getenv("KERN_PLUGIN_PATH");
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static bool stands_in(const char *directory, size_t length, const char *name, char *ret_path, size_t size)
{
    int used = snprintf(ret_path, size, "%.*s/%s.so", (int)length, directory, name);
    return used > 0 && (size_t)used < size && access(ret_path, F_OK) == 0;
}

int core_plugin_add_named(struct core_catalog *catalog, const char *name, bool trusted_path,
                          struct core_plugin **ret_plugin, struct kern_error *err)
{
    char installed[PATH_MAX], path[PATH_MAX];
    int failed = core_plugin_directory(installed, sizeof(installed), err);
    if (failed != 0)
        return failed;
    const char *extra = extra_directories(trusted_path);
    while (extra != NULL && *extra != '\0') {
        size_t length = strcspn(extra, ":");
        if (length > 0 && stands_in(extra, length, name, path, sizeof(path)))
            return core_plugin_add_path(catalog, path, ret_plugin, err);
        extra += length + (extra[length] == ':');
    }
    if (strchr(name, '/') == NULL && stands_in(installed, strlen(installed), name, path, sizeof(path)))
        return core_plugin_add_path(catalog, path, ret_plugin, err);
    kern_refuse(err, 0, "cannot find plugin \"%s\": there is no \"%s.so\" in \"%s\"%s", name, name, installed,
                extra_directories(trusted_path) != NULL ? " nor in KERN_PLUGIN_PATH" : "");
    kern_hint(err,
              "install the plugin, or give its absolute path: [[plugin]] path = \"/...\" in your kern.toml");
    return -ENOENT;
}
