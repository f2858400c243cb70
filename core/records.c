/* Records of boxes; see records.h. Reading is done by verbs, writing by supervisors. Values are escaped so that each stands in
 * one line: a command or a label may hold any byte. */
#include "records.h"

#include "cleanup.h"
#include "registry.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* ---- Text ---- */

static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        if (from[0] == '\\' && from[1] != '\0') {
            from++;
            *to++ = *from == 'n' ? '\n' : *from;
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
}

static int split(struct core_record *record)
{
    size_t lines = 0;
    for (const char *at = record->text; *at != '\0'; at++)
        lines += *at == '\n';
    record->line = calloc(2 * lines + 2, sizeof(*record->line));
    if (record->line == NULL)
        return -ENOMEM;
    char *rest = NULL;
    for (char *line = strtok_r(record->text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char *space = strchr(line, ' ');
        if (space == NULL)
            continue;
        *space = '\0';
        unescape(space + 1);
        record->line[2 * record->count] = line;
        record->line[2 * record->count + 1] = space + 1;
        record->count++;
    }
    return 0;
}

const char *core_record_get(const struct core_record *record, const char *key)
{
    for (size_t i = record->count; i-- > 0;)
        if (strcmp(record->line[2 * i], key) == 0)
            return record->line[2 * i + 1];
    return NULL;
}

const char *core_record_nth(const struct core_record *record, const char *key, unsigned index)
{
    for (size_t i = 0; i < record->count; i++)
        if (strcmp(record->line[2 * i], key) == 0 && index-- == 0)
            return record->line[2 * i + 1];
    return NULL;
}

int64_t core_record_number(const struct core_record *record, const char *key, int64_t otherwise)
{
    const char *text = core_record_get(record, key);
    return text != NULL ? strtoll(text, NULL, 10) : otherwise;
}

void core_record_clear(struct core_record *record)
{
    free(record->text);
    free(record->line);
    *record = (struct core_record){0};
}

void core_records_clear(struct core_records *records)
{
    for (size_t i = 0; i < records->count; i++)
        core_record_clear(&records->item[i]);
    free(records->item);
    *records = (struct core_records){0};
}

/* ---- Reading ---- */

/* The supervisor and the outer init of a living box hold this lock; asking does not take it. */
static bool is_held(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* The record of a box that changed very often is longer than what is looked at: its beginning says what the box is, its end how it is
 * now. Returns the length, or -1. */
static ssize_t read_text(int fd, off_t size, char *text, size_t room)
{
    if (size < (off_t)room)
        return read(fd, text, room - 1);
    size_t half = room / 2;
    ssize_t head = pread(fd, text, half, 0);
    while (head > 0 && text[head - 1] != '\n')
        head--; /* a line that is cut is none */
    if (head < 0)
        return -1;
    ssize_t tail = pread(fd, text + head, half - 1, size - (off_t)half + 1);
    const char *line = tail > 0 ? memchr(text + head, '\n', (size_t)tail) : NULL;
    if (line == NULL)
        return head;
    size_t rest = (size_t)(text + head + tail - (line + 1));
    memmove(text + head, line + 1, rest);
    return head + (ssize_t)rest;
}

/* 0 with the record, -ENOENT for what is no box (any more). */
static int read_one(int folder, const char *name, bool exited, struct core_record *ret_record)
{
    auto_fd fd = openat(folder, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1)
        return -ENOENT;
    if (exited ? st.st_mtime + CORE_EXITED_FOR_S < time(NULL) : !is_held(fd))
        return -ENOENT;
    struct core_record record = {.exited = exited};
    size_t room = (size_t)st.st_size < CORE_RECORD_MOST ? (size_t)st.st_size + 512 : CORE_RECORD_MOST;
    record.text = malloc(room);
    ssize_t length = record.text != NULL ? read_text(fd, st.st_size, record.text, room) : -1;
    if (length < 0 || strncmp(record.text, "pid ", 4) != 0) {
        core_record_clear(&record);
        return -ENOENT;
    }
    record.text[length] = '\0';
    (void)snprintf(record.name, sizeof(record.name), "%s", name); /* callers check the length */
    if (split(&record) != 0) {
        core_record_clear(&record);
        return -ENOMEM;
    }
    record.pid = (int)core_record_number(&record, "pid", 0);
    *ret_record = record;
    return 0;
}

static int add(struct core_records *records, const struct core_record *record)
{
    if ((records->count & (records->count + 1)) == 0) { /* 0, 1, 3, 7 ... */
        struct core_record *more = realloc(records->item, (2 * records->count + 1) * sizeof(*more));
        if (more == NULL)
            return -ENOMEM;
        records->item = more;
    }
    records->item[records->count++] = *record;
    return 0;
}

static int read_folder(unsigned place, const char *which, bool exited, struct core_records *records)
{
    auto_fd run = core_registry_run(place);
    auto_fd folder = run >= 0 ? core_registry_folder(run, which) : -1;
    int copy = folder >= 0 ? fcntl(folder, F_DUPFD_CLOEXEC, 3) : -1;
    auto_dir dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (dir == NULL)
        return 0;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        struct core_record record;
        if (entry->d_name[0] == '.' || strlen(entry->d_name) > CORE_NAME_MAX)
            continue;
        int failed = read_one(folder, entry->d_name, exited, &record);
        if (failed == -ENOENT)
            continue;
        record.place = place;
        if (failed == 0 && add(records, &record) != 0) {
            core_record_clear(&record);
            failed = -ENOMEM;
        }
        if (failed != 0)
            return failed;
    }
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct core_record *one = a, *other = b;
    int order = strcmp(one->name, other->name);
    return order != 0 ? order : one->exited - other->exited;
}

/* Two ways to a run directory show each box twice, and a name that runs again hides how it ended before. */
static void drop_doubles(struct core_records *records)
{
    size_t kept = 0;
    for (size_t i = 0; i < records->count; i++) {
        if (kept > 0 && strcmp(records->item[kept - 1].name, records->item[i].name) == 0)
            core_record_clear(&records->item[i]);
        else
            records->item[kept++] = records->item[i];
    }
    records->count = kept;
}

int core_records_read(bool exited, struct core_records *ret_records, struct kern_error *err)
{
    struct core_records records = {0};
    int failed = 0;
    for (unsigned place = 0; failed == 0 && place < CORE_RUN_PLACES; place++) {
        failed = read_folder(place, "boxes", false, &records);
        if (failed == 0 && exited)
            failed = read_folder(place, "exited", true, &records);
    }
    if (failed != 0) {
        core_records_clear(&records);
        return kern_refuse(err, -failed, "cannot read the records of boxes");
    }
    if (records.count > 0)
        qsort(records.item, records.count, sizeof(*records.item), by_name);
    drop_doubles(&records);
    *ret_records = records;
    return 0;
}

static int find_in(const char *name, const char *which, bool exited, struct core_record *ret_record)
{
    int found = -ENOENT;
    if (name[0] == '.' || name[0] == '\0' || strchr(name, '/') != NULL || strlen(name) > CORE_NAME_MAX)
        return found;
    for (unsigned place = 0; found == -ENOENT && place < CORE_RUN_PLACES; place++) {
        auto_fd run = core_registry_run(place);
        auto_fd folder = run >= 0 ? core_registry_folder(run, which) : -1;
        found = folder >= 0 ? read_one(folder, name, exited, ret_record) : -ENOENT;
        if (found == 0)
            ret_record->place = place;
    }
    return found;
}

int core_record_find(const char *name, struct core_record *ret_record, struct kern_error *err)
{
    int found = find_in(name, "boxes", false, ret_record);
    if (found != -ENOENT)
        return found == 0 ? 0 : kern_refuse(err, -found, "cannot read the record of box '%s'", name);
    kern_refuse(err, 0, "no running box named '%s'", name);
    kern_hint(err, "kern ps shows those that run, kern ps -a those that ended as well");
    return -ENOENT;
}

int core_record_find_exited(const char *name, struct core_record *ret_record)
{
    return find_in(name, "exited", true, ret_record);
}
