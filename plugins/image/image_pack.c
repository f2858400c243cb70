/* A directory as a tar, by libarchive. Runs in a child with the ids of the files in it, so that these are what an image has. */
#include "image_tool.h"

#include "kern/cleanup.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

/* The writer wants every byte; it leaves out those of a hole again, as the entry says where they are. */
static int fill(struct archive *tar, int64_t bytes)
{
    static const char zeros[16384];
    while (bytes > 0) {
        size_t part = bytes < (int64_t)sizeof(zeros) ? (size_t)bytes : sizeof(zeros);
        if (archive_write_data(tar, zeros, part) != (la_ssize_t)part)
            return -1;
        bytes -= (int64_t)part;
    }
    return 0;
}

static int copy_data(struct archive *disk, struct archive *tar, int64_t size)
{
    const void *bytes = NULL;
    size_t length = 0;
    int64_t at = 0, end = 0;
    for (;;) {
        int result = archive_read_data_block(disk, &bytes, &length, &at);
        if (result == ARCHIVE_EOF)
            return fill(tar, size - end);
        if (result != ARCHIVE_OK || fill(tar, at - end) != 0 ||
            archive_write_data(tar, bytes, length) != (la_ssize_t)length)
            return -1;
        end = at + (int64_t)length;
    }
}

static int copy_one(struct archive *disk, struct archive *tar, struct archive_entry *entry)
{
    if (archive_write_header(tar, entry) < ARCHIVE_WARN)
        return -1;
    return archive_entry_size(entry) > 0 ? copy_data(disk, tar, archive_entry_size(entry)) : 0;
}

static void fold_ids(struct archive_entry *entry)
{
    archive_entry_set_uid(entry, 0);
    archive_entry_set_gid(entry, 0);
}

static int copy_all(struct archive *disk, struct archive *tar, int fold)
{
    struct archive_entry_linkresolver *links = archive_entry_linkresolver_new();
    struct archive_entry *entry = archive_entry_new(), *spare = NULL;
    int failed = links == NULL || entry == NULL ? -1 : 0;
    if (failed == 0)
        archive_entry_linkresolver_set_strategy(links, ARCHIVE_FORMAT_TAR_PAX_INTERCHANGE);
    while (failed == 0) {
        int result = archive_read_next_header2(disk, entry);
        if (result == ARCHIVE_EOF)
            break;
        if (result < ARCHIVE_WARN) {
            (void)fprintf(stderr, "kern: cannot read \"%s\": %s\n", archive_entry_pathname(entry),
                          archive_error_string(disk)); /* the exit code says it, too */
            failed = -1;
            break;
        }
        (void)archive_read_disk_descend(disk); /* not a directory: nothing to descend into */
        if (fold)
            fold_ids(entry);
        archive_entry_linkify(links, &entry, &spare);
        if (entry != NULL && archive_entry_filetype(entry) != AE_IFSOCK)
            failed = copy_one(disk, tar, entry);
        if (entry == NULL)
            entry = archive_entry_new();
        failed = entry == NULL ? -1 : failed;
    }
    archive_entry_free(entry);
    archive_entry_linkresolver_free(links);
    return failed;
}

int image_pack_folder(int folder, int out, int fold)
{
    (void)setlocale(LC_CTYPE, "C.UTF-8"); /* names are written as UTF-8 where they are */
    if (fchdir(folder) != 0)
        return -1;
    struct archive *disk = archive_read_disk_new(), *tar = archive_write_new();
    int failed = disk == NULL || tar == NULL ? -1 : 0;
    if (failed == 0 &&
        (archive_read_disk_set_symlink_physical(disk) != ARCHIVE_OK ||
         archive_read_disk_set_behavior(disk, ARCHIVE_READDISK_NO_TRAVERSE_MOUNTS | ARCHIVE_READDISK_NO_ACL |
                                                  ARCHIVE_READDISK_NO_FFLAGS) != ARCHIVE_OK ||
         archive_write_set_format_pax_restricted(tar) != ARCHIVE_OK ||
         archive_write_open_fd(tar, out) != ARCHIVE_OK || archive_read_disk_open(disk, ".") != ARCHIVE_OK))
        failed = -1;
    if (failed == 0)
        failed = copy_all(disk, tar, fold);
    if (failed == 0 && archive_write_close(tar) != ARCHIVE_OK)
        failed = -1;
    (void)archive_read_free(disk); /* takes NULL; all is said */
    (void)archive_write_free(tar); /* as above */
    return failed;
}
