/* For a kern with its plugins compiled in: formats that libarchive's tar writer names without using them. Without these the
 * static library would want libxml2, libbz2 and others for nothing. */
#include <archive.h>

#define NOT_WRITTEN(name)                                                   \
    int archive_write_set_format_##name(struct archive *archive)            \
    {                                                                       \
        archive_set_error(archive, -1, "this build does not write " #name); \
        return ARCHIVE_FATAL;                                               \
    }

NOT_WRITTEN(7zip)
NOT_WRITTEN(iso9660)
NOT_WRITTEN(mtree)
NOT_WRITTEN(mtree_classic)
NOT_WRITTEN(warc)
NOT_WRITTEN(xar)
NOT_WRITTEN(zip)
