/* Executes a file of the box; see program.h.
 *
 * Whatever a name of the box leads to runs with the box's identity and filter, so that a root which swaps it harms itself. But for
 * one: /proc/self/exe is kern's own file on the host until execve is done with it (CVE-2019-5736). A program that runs in its
 * name has a descriptor of it, and where the box has the ids of its owner, as with a kern that stands in its user's home, it can
 * change the file. So a name that leads there is refused; and where kern's file is at risk and somebody could swap the name
 * after that was looked at, nothing is executed by name:
 *
 *  - The kernel gets a directory and the last part of a name that has no link in it, and is told to follow none
 *    (AT_SYMLINK_NOFOLLOW). Only the last part of a path can lead to kern's file, because that is no directory.
 *  - The directory is close-on-exec, for which the kernel refuses whatever it would run by another program. A file that
 *    becomes a script meanwhile is therefore not run; the #! line of one that was a script before is followed here.
 *
 * The price: the process is called as the file is (busybox, not sleep), and nothing is run by binfmt_misc. */
#include "program.h"

#include "cleanup.h"
#include "sys.h"

#include <elf.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define LEVELS    5u /* programs that run a script, as in the kernel */
#define LINE_MOST 256u
#define ADDED \
    (2u * (LEVELS + 1)) /* words: an interpreter and its argument, also of the script that is one too many */

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#else
#define OUR_MACHINE EM_AARCH64
#endif

/* ---- Is it kern's own? ---- */

/* What the file is run by: its #! line, or the loader that an ELF program names. "" when there is none. */
static void read_interpreter(int fd, char *ret_path, size_t size)
{
    char head[4096];
    ret_path[0] = '\0';
    long length = sys_read(fd, head, sizeof(head) - 1);
    if (length < 4)
        return;
    head[length] = '\0';
    const char *from = NULL;
    size_t most = 0;
    if (head[0] == '#' && head[1] == '!') {
        from = head + 2 + strspn(head + 2, " \t");
        most = strcspn(from, " \t\n");
    } else if (memcmp(head, ELFMAG, SELFMAG) == 0 && head[EI_CLASS] == ELFCLASS64 &&
               (size_t)length > sizeof(Elf64_Ehdr)) {
        Elf64_Ehdr header;
        memcpy(&header, head, sizeof(header));
        /* The file may say anything: an offset near the end of all numbers must not come out at their beginning. */
        size_t room = header.e_phoff < (size_t)length ? (size_t)length - header.e_phoff : 0;
        for (unsigned i = 0; i < header.e_phnum && (i + 1) * sizeof(Elf64_Phdr) <= room; i++) {
            Elf64_Phdr segment;
            memcpy(&segment, head + header.e_phoff + i * sizeof(segment), sizeof(segment));
            if (segment.p_type == PT_INTERP && segment.p_offset < (size_t)length) {
                from = head + segment.p_offset;
                most = strnlen(from, (size_t)length - segment.p_offset);
            }
        }
    }
    if (from == NULL || most >= size)
        return;
    memcpy(ret_path, from, most);
    ret_path[most] = '\0';
}

/* Where a filter keeps openat2 back: is it kern's own file that stands at the end of the name? */
static bool leads_to_kern(const char *name)
{
    struct stat there, own;
    return fstatat(AT_FDCWD, name, &there, 0) == 0 && fstatat(AT_FDCWD, "/proc/self/exe", &own, 0) == 0 &&
           there.st_dev == own.st_dev && there.st_ino == own.st_ino;
}

/* Returns -EXDEV for a name that leads through a link of /proc; -ELOOP is one of links that lead to each other. */
static int open_program(const char *name, int flags)
{
    int fd = sys_open_beneath(AT_FDCWD, name, flags, 0, 0);
    if (fd == -ELOOP)
        return sys_call(SYS_faccessat, AT_FDCWD, SYS_P(name), 0, 0, 0, 0) == -ELOOP ? -ELOOP : -EXDEV;
    if (fd != -ENOSYS && fd != -EPERM)
        return fd;
    return leads_to_kern(name) ? -EXDEV : sys_open(AT_FDCWD, name, flags, 0);
}

/* Returns -EXDEV for a program that is reached through a link of /proc, itself or what runs it. */
static int check_path(const char *file)
{
    char name[PATH_MAX];
    if (strlen(file) >= sizeof(name))
        return -ENAMETOOLONG;
    memcpy(name, file, strlen(file) + 1);
    for (unsigned level = 0; level <= LEVELS && name[0] != '\0'; level++) {
        int fd = open_program(name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        if (fd == -EXDEV)
            return -EXDEV;
        if (fd < 0)
            return 0; /* unreadable or missing: for execve to say */
        read_interpreter(fd, name, sizeof(name));
        (void)sys_close(fd); /* only read */
    }
    return 0;
}

/* ---- By a name that nobody can swap ---- */

/* The directory and the last part of the name that a file has without links. */
static int find_place(const char *name, char path[PATH_MAX], int *ret_folder, const char **ret_last)
{
    char link[40];
    auto_fd fd = open_program(name, O_PATH);
    if (fd < 0)
        return fd;
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd); /* fits: a number is short */
    long length = sys_call(SYS_readlinkat, AT_FDCWD, SYS_P(link), SYS_P(path), PATH_MAX - 1, 0, 0);
    if (length < 0)
        return (int)length;
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL || slash[1] == '\0')
        return -EACCES; /* a directory, or what has no name */
    *slash = '\0';
    int folder = sys_open(AT_FDCWD, slash == path ? "/" : path, O_PATH | O_DIRECTORY, 0);
    if (folder < 0)
        return folder;
    *ret_folder = folder;
    *ret_last = slash + 1;
    return 0;
}

/* "#! INTERPRETER [ARGUMENT]", as the kernel cuts it: the argument is all the rest without the blanks around it, and ends where the
 * kernel reads no further. `whole`: the file has no more than this. */
static int cut_line(char *line, bool whole, char **ret_interpreter, char **ret_argument)
{
    char *end = strchr(line, '\n');
    char *word = line + 2 + strspn(line + 2, " \t");
    size_t length = strcspn(word, " \t\n");
    if (length == 0 || (end == NULL && !whole && word[length] == '\0'))
        return -ENOEXEC;     /* cut off: who knows what it says */
    bool open = end == NULL; /* only an end of the line ends the blanks in front of it */
    if (open)
        end = whole ? line + strlen(line) : line + LINE_MOST - 1;
    while (!(open && whole) && end > word && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *end = '\0';
    char *rest = word + length < end ? word + length : end;
    char *argument = rest + strspn(rest, " \t");
    *rest = '\0';
    *ret_interpreter = word;
    *ret_argument = *argument != '\0' ? argument : NULL;
    return 0;
}

static size_t room_size(const kern_box *box)
{
    size_t count = 0;
    while (box->command[count] != NULL)
        count++;
    return (count + ADDED + 1) * sizeof(char *);
}

/* The words of the command, with room for interpreters before them. On kern's memory it is kern that gives it back. */
static int make_room(kern_box *box, char ***ret_words)
{
    size_t size = room_size(box);
    long room = sys_call(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room < 0 && room > -4096)
        return (int)room;
    box->program_room = (void *)room;
    char **words = (char **)room + ADDED;
    memcpy(words, box->command, size - ADDED * sizeof(char *));
    *ret_words = words;
    return 0;
}

/* A program of another machine, which only binfmt_misc would run: ENOENT is what the kernel says of those. */
static int judge(int failed, const char *head, long length)
{
    Elf64_Half machine;
    if (failed != -ENOENT || length < 20 || memcmp(head, ELFMAG, SELFMAG) != 0)
        return failed;
    memcpy(&machine, head + offsetof(Elf64_Ehdr, e_machine), sizeof(machine));
    return machine != OUR_MACHINE ? -ENOEXEC : failed;
}

static int execute_pinned(kern_box *box, const char *file)
{
    char head[LEVELS + 1][LINE_MOST + 1], path[PATH_MAX], **words = NULL;
    char *name = (char *)(uintptr_t)file; /* execve takes its words so, and changes none */
    int failed = make_room(box, &words);
    for (unsigned level = 0; failed == 0 && level <= LEVELS; level++) {
        auto_fd folder = -1;
        const char *last = NULL;
        char *interpreter = NULL, *argument = NULL;
        failed = find_place(name, path, &folder, &last);
        if (failed != 0)
            return failed;
        int fd = sys_open(folder, last, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, 0);
        long length =
            fd >= 0 ? sys_read(fd, head[level], LINE_MOST) : 0; /* one may execute what one may not read */
        if (fd >= 0)
            (void)sys_close(fd); /* only read */
        length = length > 0 ? length : 0;
        head[level][length] = '\0';
        if (strncmp(head[level], "#!", 2) != 0) {
            failed = (int)sys_call(SYS_execveat, folder, SYS_P(last), SYS_P(words), SYS_P(box->child_env),
                                   AT_SYMLINK_NOFOLLOW, 0);
            return judge(failed, head[level], length);
        }
        /* Would this script itself be executed? execveat does not come to ask. */
        failed = (int)sys_call(SYS_faccessat, folder, SYS_P(last), X_OK, 0, 0, 0);
        if (failed == 0)
            failed = cut_line(head[level], length < (long)LINE_MOST, &interpreter, &argument);
        words[0] = name;
        if (failed == 0 && argument != NULL)
            *--words = argument;
        if (failed == 0)
            *--words = name = interpreter;
    }
    return failed != 0 ? failed : -ELOOP; /* a script that is run by a script, and so on */
}

/* ---- Which of both ---- */

int core_program_execute(kern_box *box, const char *file)
{
    int failed = check_path(file);
    if (failed != 0)
        return failed;
    /* At a start only those can swap a name that have the directory as well: other boxes. */
    if (box->own_file_at_risk && (box->reentered || core_has_host_directories(box)))
        return execute_pinned(box, file);
    return (int)sys_call(SYS_execve, SYS_P(file), SYS_P(box->command), SYS_P(box->child_env), 0, 0, 0);
}

/* ---- Host side ---- */

static bool is_mapped(const char *map, uid_t id)
{
    unsigned inside, outside, count;
    int used = 0;
    for (const char *at = map; sscanf(at, "%u %u %u%n", &inside, &outside, &count, &used) == 3; at += used)
        if (id >= outside && id - outside < count)
            return true;
    return false;
}

bool core_program_is_at_risk(const struct kern_ids *ids)
{
    struct stat own;
    return ids->how == KERN_IDS_NONE || stat("/proc/self/exe", &own) != 0 || (own.st_mode & 022) != 0 ||
           is_mapped(ids->uid_map, own.st_uid);
}

void core_program_forget(kern_box *box)
{
    if (box->program_room != NULL)
        (void)munmap(box->program_room, room_size(box)); /* as make_room() made it */
    box->program_room = NULL;
}
