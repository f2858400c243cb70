/* `kern plugin check FILE`: what is to be said of a built plugin before a user finds out. It is opened as kern would open it, in
 * children: one looks at its table, others measure, one runs its hooks (cmd_plugin_try.c). Host side. */
#include "cmd_plugin.h"

#include "catalog.h"
#include "cleanup.h"
#include "log.h"
#include "plugin.h"
#include "supervise.h"

#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define HEAVY_US 1000 /* a fifth of a millisecond is ordinary; this is a tenth of a start */
#define TRIES    9

#define PATIENCE_S 10
#define STATE_MOST (16 << 20) /* bytes of a state that may be meant */

enum verdict { OK, NOTE, WRONG };

struct findings {
    int wrong, notes;
};

static __attribute__((format(printf, 2, 0))) void print(const char *verdict, const char *format, va_list args)
{
    char text[600], clean[1024];
    (void)vsnprintf(text, sizeof(text), format, args); /* a cut line still says what it is about */
    core_escape(text, clean, sizeof(clean));           /* a third party's text goes to a terminal */
    (void)printf("%-5s  %s\n", verdict, clean); /* what is lost is found when standard output is closed */
}

void core_plugin_say(const char *verdict, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print(verdict, format, args);
    va_end(args);
}

KERN_PRINTF(3, 4) static void say(struct findings *findings, enum verdict verdict, const char *format, ...)
{
    static const char *const words[] = {"ok", "note", "wrong"};
    va_list args;
    va_start(args, format);
    print(words[verdict], format, args);
    va_end(args);
    findings->wrong += verdict == WRONG;
    findings->notes += verdict == NOTE;
}

/* ---- The file: what it needs and what it shows ---- */

struct image {
    const char *bytes;
    size_t size;
    const Elf64_Dyn *dynamic;
    size_t dynamic_count;
    const Elf64_Sym *symbol;
    size_t symbol_count;
    const char *strings;
    size_t strings_size;
};

static bool lies_within(const struct image *image, uint64_t offset, uint64_t size)
{
    return offset <= image->size && size <= image->size - offset;
}

/* The section headers that matter; a plugin stripped of them is only opened. */
static bool read_sections(struct image *image)
{
    const Elf64_Ehdr *header = (const void *)image->bytes;
    if (image->size < sizeof(*header) || header->e_shentsize != sizeof(Elf64_Shdr) ||
        !lies_within(image, header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr)) ||
        header->e_shoff % _Alignof(Elf64_Shdr) != 0)
        return false;
    const Elf64_Shdr *section = (const void *)(image->bytes + header->e_shoff);
    for (size_t i = 0; i < header->e_shnum; i++) {
        if (section[i].sh_type == SHT_NOBITS ||
            !lies_within(image, section[i].sh_offset, section[i].sh_size) || section[i].sh_offset % 8 != 0)
            continue;
        const void *start = image->bytes + section[i].sh_offset;
        if (section[i].sh_type == SHT_DYNAMIC) {
            image->dynamic = start;
            image->dynamic_count = section[i].sh_size / sizeof(Elf64_Dyn);
        } else if (section[i].sh_type == SHT_DYNSYM && section[i].sh_link < header->e_shnum) {
            const Elf64_Shdr *strings = &section[section[i].sh_link];
            if (!lies_within(image, strings->sh_offset, strings->sh_size) || strings->sh_size == 0 ||
                image->bytes[strings->sh_offset + strings->sh_size - 1] != '\0')
                return false;
            image->symbol = start;
            image->symbol_count = section[i].sh_size / sizeof(Elf64_Sym);
            image->strings = image->bytes + strings->sh_offset;
            image->strings_size = strings->sh_size;
        }
    }
    return image->symbol != NULL && image->dynamic != NULL;
}

static const char *string_at(const struct image *image, uint64_t offset)
{
    return offset < image->strings_size ? image->strings + offset : "?";
}

static bool is_light(const char *library)
{
    static const char *const light[] = {"libc.so.",  "ld-linux",       "libm.so.",
                                        "libdl.so.", "libpthread.so.", NULL};
    for (const char *const *name = light; *name != NULL; name++)
        if (strncmp(library, *name, strlen(*name)) == 0)
            return true;
    return false;
}

/* kern/foundation.h belongs to one release: its users have to say so, that another one refuses them. */
static void look_at_import(const char *name, bool bound, struct findings *findings)
{
    if (bound)
        say(findings, NOTE,
            "it uses %s() of kern/foundation.h: no other release of kern than " KERN_VERSION " opens it",
            name);
    else
        say(findings, WRONG,
            "it uses %s() of kern/foundation.h, which its table does not say: include it where KERN_PLUGIN "
            "stands",
            name);
}

static void look_at_file(const struct image *image, bool bound, struct findings *findings)
{
    size_t shown = 0, foundation = 0;
    for (size_t i = 0; i < image->symbol_count; i++) {
        const Elf64_Sym *symbol = &image->symbol[i];
        const char *name = string_at(image, symbol->st_name);
        bool global = ELF64_ST_BIND(symbol->st_info) != STB_LOCAL;
        if (global && symbol->st_shndx != SHN_UNDEF && strcmp(name, KERN_PLUGIN_SYMBOL) != 0 && shown++ == 0)
            say(findings, NOTE, "it shows more than its table (\"%s\"): compile with -fvisibility=hidden",
                name);
        if (symbol->st_shndx == SHN_UNDEF && core_plugin_is_foundation(name) && foundation++ == 0)
            look_at_import(name, bound, findings);
    }
    for (size_t i = 0; i < image->dynamic_count && image->dynamic[i].d_tag != DT_NULL; i++) {
        const char *library = string_at(image, image->dynamic[i].d_un.d_val);
        if (image->dynamic[i].d_tag == DT_NEEDED && !is_light(library))
            say(findings, NOTE, "it needs %s at each start of a box that uses it", library);
    }
}

static void read_file(const char *path, bool bound, struct findings *findings)
{
    struct stat st;
    struct image image = {0};
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_size == 0)
        return; /* it was opened before: nothing to say that opening did not */
    void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return;
    image.bytes = bytes;
    image.size = (size_t)st.st_size;
    if (read_sections(&image))
        look_at_file(&image, bound, findings);
    (void)munmap(bytes, (size_t)st.st_size); /* was mapped with this size */
}

/* ---- The cost of opening it ---- */

static int64_t open_once(const char *path)
{
    int pair[2];
    int64_t spent = -1;
    if (pipe2(pair, O_CLOEXEC) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        (void)alarm(PATIENCE_S);
        cleanup(core_catalog_clear) struct core_catalog catalog = {0};
        struct core_plugin *plugin = NULL;
        struct kern_error err = {0};
        int64_t before = core_now_ns();
        bool good = core_plugin_add_path(&catalog, path, &plugin, &err) == 0;
        spent = good ? (core_now_ns() - before) / 1000 : -1;
        (void)!write(pair[1], &spent, sizeof(spent)); /* silence is an answer, too */
        _exit(0);
    }
    (void)close(pair[1]); /* nothing was written */
    if (pid < 0 || read(pair[0], &spent, sizeof(spent)) != (ssize_t)sizeof(spent))
        spent = -1;
    (void)close(pair[0]);
    if (pid > 0)
        (void)waitpid(pid, NULL, 0); /* our child */
    return spent;
}

static void measure(const char *path, struct findings *findings)
{
    int64_t best = -1;
    for (int i = 0; i < TRIES; i++) {
        int64_t spent = open_once(path);
        if (spent >= 0 && (best < 0 || spent < best))
            best = spent;
    }
    if (best < 0)
        return; /* it cannot be opened, which was said */
    say(findings, best > HEAVY_US ? NOTE : OK, "opening it takes %.2f ms of a start%s", (double)best / 1000.0,
        best > HEAVY_US
            ? ": what is heavy belongs into a worker or an object that prepare opens when it needs it"
            : "");
}

/* ---- The table ---- */

/* A text that stands for a value, where nobody gives one. */
static void look_at_default(const struct kern_option *option, const char *field, const char *text,
                            struct findings *findings)
{
    struct kern_option alone[] = {*option, {.name = NULL}};
    struct kern_values values = {0};
    struct kern_error err = {0};
    alone[0].fallback = text;
    if (text != NULL && core_values_add(&values, alone, UINT32_MAX, &err) != 0)
        say(findings, WRONG, "option \"%s\": .%s is no value of its type: %s; write one that is, or NULL",
            option->name, field, err.message);
    core_values_clear(&values);
}

static void look_at_option(const struct kern_option *option, struct findings *findings)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    const uint32_t places = KERN_OPT_FLAG | KERN_OPT_BOX | KERN_OPT_PROFILE | KERN_OPT_POOL | KERN_OPT_PLUGIN;
    if (strspn(option->name, letters) != strlen(option->name))
        say(findings, WRONG, "option \"%s\": a name is of a-z, 0-9 and -", option->name);
    if ((option->flags & places) == 0)
        say(findings, WRONG,
            "option \"%s\": it stands nowhere: its flags need one of KERN_OPT_PLUGIN, _FLAG, _PROFILE, _POOL",
            option->name);
    if ((option->flags & KERN_OPT_BOX) != 0)
        say(findings, WRONG, "option \"%s\": [box] holds options of kern's own: use KERN_OPT_PLUGIN",
            option->name);
    if (option->help == NULL || option->help[0] == '\0')
        say(findings, NOTE, "option \"%s\" has no help", option->name);
    if (option->min > option->max)
        say(findings, WRONG,
            "option \"%s\": no value lies between .min = %" PRId64 " and .max = %" PRId64
            ": write the larger one as .max, INT64_MAX for no bound",
            option->name, option->min, option->max);
    look_at_default(option, "fallback", option->fallback, findings);
    if ((option->flags & KERN_OPT_OPTIONAL) != 0)
        look_at_default(option, "implied", option->implied, findings);
}

/* Where values of one name would meet: an option of the box and a key of profiles may share theirs. */
static bool meet(const struct kern_option *one, const struct kern_option *other)
{
    const uint32_t of_box = KERN_OPT_FLAG | KERN_OPT_BOX | KERN_OPT_PLUGIN, both = one->flags & other->flags;
    bool in_box = (one->flags & of_box) != 0 && (other->flags & of_box) != 0;
    return strcmp(one->name, other->name) == 0 &&
           (in_box || (both & (KERN_OPT_PROFILE | KERN_OPT_POOL)) != 0);
}

/* What concerns more than one option, or an option and its table. */
static void look_at_options(const struct kern_plugin *table, struct findings *findings)
{
    uint32_t places = 0;
    for (const struct kern_option *option = table->options; option != NULL && option->name != NULL;
         option++) {
        look_at_option(option, findings);
        places |= option->flags;
        const struct kern_option *before = table->options;
        while (before != option && !meet(before, option))
            before++;
        if (before != option)
            say(findings, WRONG, "option \"%s\" is there twice: give one of them another name", option->name);
    }
    if ((places & KERN_OPT_PROFILE) != 0 && table->profile == NULL)
        say(findings, WRONG,
            "it has options of profiles and no .profile: nobody can set them; write .profile = \"%s\"",
            table->name);
    if ((places & KERN_OPT_POOL) != 0 && table->pool == NULL)
        say(findings, WRONG,
            "it has options of a pool and no .pool: nobody can set them; write .pool = \"%s-pool\"",
            table->name);
}

static void look_at_table(const struct kern_plugin *table, const char *path, struct findings *findings)
{
    const char *file = strrchr(path, '/') + 1;
    size_t length = strlen(table->name);
    if (strncmp(file, table->name, length) != 0 || strcmp(file + length, ".so") != 0)
        say(findings, NOTE, "kern finds it by name only as \"%s.so\"", table->name);
    if (table->version == NULL || table->summary == NULL)
        say(findings, WRONG, "its table has no version or no summary");
    if (table->enter != NULL && (table->flags & KERN_PLUGIN_LEAN) == 0)
        say(findings, NOTE,
            "its enter is not KERN_PLUGIN_LEAN: boxes that use it are forked, which is slower");
    if (table->profile != NULL && table->pool != NULL && strcmp(table->profile, table->pool) == 0)
        say(findings, WRONG,
            "its .profile and its .pool are both \"%s\": two kinds of tables need two names; write .pool = "
            "\"%s-pool\"",
            table->pool, table->pool);
    if (table->state_size > STATE_MOST)
        say(findings, WRONG,
            "its .state_size is %" PRIu64
            " bytes, which each box has zeroed: write sizeof(struct ...), and let prepare "
            "allocate what is larger than %d MiB",
            table->state_size, STATE_MOST >> 20);
    look_at_options(table, findings);
}

/* ---- In children ---- */

/* Whether the child that ran `fn` came to its end, and what it returned. Otherwise it is said what became of it. */
static bool in_child(int (*fn)(const char *path, void *arg), const char *path, void *arg, const char *who,
                     struct findings *findings)
{
    int status = 0;
    (void)fflush(stdout); /* or the child would print it again */
    pid_t pid = fork();
    if (pid == 0) {
        (void)alarm(3 * PATIENCE_S);
        int code = fn(path, arg);
        (void)fflush(stdout); /* found by the parent otherwise */
        _exit(code);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return false;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        say(findings, WRONG, "%s had not ended after %d s", who, 3 * PATIENCE_S);
    else if (WIFSIGNALED(status))
        say(findings, WRONG, "%s crashed: %s (signal %d)", who, sigdescr_np(WTERMSIG(status)),
            WTERMSIG(status));
    return WIFEXITED(status);
}

/* What the child that opened the plugin found, on a page that both see. */
struct opened {
    struct findings findings;
    bool to_its_end;
    bool has_enter;
    bool bound; /* its table says that it was built with kern/foundation.h */
    char name[32];
    struct kern_error err;
};

static int look(const char *path, void *arg)
{
    struct opened *opened = arg;
    struct core_catalog catalog = {0};
    struct core_plugin *plugin = NULL;
    int failed = core_catalog_builtin(&catalog, &opened->err);
    if (failed == 0)
        failed = core_plugin_add_path(&catalog, path, &plugin, &opened->err);
    if (failed == 0) {
        const struct kern_plugin *table = plugin->table;
        (void)snprintf(opened->name, sizeof(opened->name), "%s", table->name); /* names are short */
        opened->has_enter = table->enter != NULL;
        say(&opened->findings, OK, "%s %s: %s", table->name, table->version != NULL ? table->version : "-",
            table->summary != NULL ? table->summary : "-");
        say(&opened->findings, OK,
            "kern " KERN_VERSION " opens it: plugin interface %u, owner and modes are right",
            table->abi & 0xff);
        opened->bound = table->abi >> 8 != 0;
        look_at_table(table, path, &opened->findings);
    }
    opened->to_its_end = true;
    return 0;
}

/* What the child that ran the hooks found, on a page that both see. */
struct tried {
    int result, notes;
};

static int try_hooks(const char *path, void *arg)
{
    struct tried *tried = arg;
    tried->result = core_plugin_try(path, &tried->notes);
    return 0;
}

static void judge_hooks(const char *path, const struct opened *opened, struct tried *tried,
                        struct findings *findings)
{
    tried->result = -1;
    if (!in_child(try_hooks, path, tried, "one of its hooks", findings))
        return;
    findings->notes += tried->notes;
    bool entered = tried->result == 0 && opened->has_enter;
    if (tried->result == 0 || tried->result == CORE_TRY_NO_ENTER)
        say(findings, OK, "prepare%s teardown run, and leave nothing behind",
            entered ? ", enter and" : " and");
    else
        say(findings, WRONG, "%s",
            tried->result < 0 ? "a hook ended its process" : "one of its hooks is at fault");
}

/* The last line says what is so, and the exit code is 0 or 1 after it. */
static void conclude(const struct findings *findings)
{
    if (findings->wrong > 0)
        core_plugin_say("wrong", "not to be used: %d fault%s", findings->wrong,
                        findings->wrong > 1 ? "s" : "");
    else if (findings->notes > 0)
        core_plugin_say("ok", "usable, with %d note%s", findings->notes, findings->notes > 1 ? "s" : "");
    else
        core_plugin_say("ok", "usable");
}

/* Nothing of the plugin runs in this process: its constructors, too, may crash. */
static int check(const char *path, struct opened *opened, struct tried *tried, struct kern_error *err)
{
    struct findings *findings = &opened->findings;
    bool ended = in_child(look, path, opened, "opening it", findings);
    if (ended && !opened->to_its_end)
        say(findings, WRONG, "opening it ended the process");
    if (opened->err.category != KERN_ERROR_NONE) {
        *err = opened->err;
        return -EINVAL;
    }
    if (opened->to_its_end) {
        read_file(path, opened->bound, findings);
        measure(path, findings);
        judge_hooks(path, opened, tried, findings);
    }
    conclude(findings);
    return findings->wrong == 0 ? 0
                                : kern_refuse(err, 0, "plugin \"%s\" has %d fault(s)",
                                              opened->name[0] != '\0' ? opened->name : path, findings->wrong);
}

int core_plugin_check(const char *path, struct kern_error *err)
{
    struct shared {
        struct opened opened;
        struct tried tried;
    };
    auto_free char *resolved = realpath(path, NULL);
    if (resolved == NULL)
        return kern_refuse(err, errno, "cannot find plugin \"%s\"", path);
    struct shared *page =
        mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return kern_fail(err, errno, "cannot map a page to check the plugin with");
    int failed = check(resolved, &page->opened, &page->tried, err);
    (void)munmap(page, sizeof(*page)); /* was mapped with this size */
    return failed;
}
