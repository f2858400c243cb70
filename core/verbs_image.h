/* The options of the verbs of images, for the table in verbs.c. What they do: plugins/image. */
#ifndef CORE_VERBS_IMAGE_H
#define CORE_VERBS_IMAGE_H

#include "image/registry_manifest.h"

static const struct kern_option load_flags[] = {
    {.name = "input",
     .type = KERN_PATH,
     .flags = KERN_OPT_FLAG,
     .arg = "FILE",
     .letter = "i",
     .help = "archive, or directory of an OCI layout (default: standard input)"},
    IMAGE_LIMITS(KERN_OPT_FLAG),
    {.name = NULL},
};

static const struct kern_option import_flags[] = {
    {.name = "env",
     .type = KERN_STRING,
     .flags = KERN_OPT_FLAG | KERN_OPT_LIST,
     .arg = "K=V",
     .letter = "e",
     .help = "environment variable of the image"},
    {.name = "entrypoint",
     .type = KERN_STRING,
     .flags = KERN_OPT_FLAG | KERN_OPT_LIST,
     .arg = "WORD",
     .help = "a word that goes before each command; may be given several times"},
    {.name = "workdir",
     .type = KERN_STRING,
     .flags = KERN_OPT_FLAG,
     .arg = "DIR",
     .letter = "w",
     .help = "working directory of the image"},
    {.name = "user",
     .type = KERN_STRING,
     .flags = KERN_OPT_FLAG,
     .arg = "U[:G]",
     .letter = "u",
     .help = "user of the image"},
    IMAGE_LIMITS(KERN_OPT_FLAG),
    {.name = NULL},
};

static const struct kern_option save_flags[] = {
    {.name = "output",
     .type = KERN_PATH,
     .flags = KERN_OPT_FLAG,
     .arg = "FILE",
     .letter = "o",
     .help = "the archive (default: standard output)"},
    {.name = NULL},
};

static const struct kern_option images_flags[] = {
    {.name = "json", .type = KERN_BOOL, .flags = KERN_OPT_FLAG, .help = "print JSON"},
    {.name = "quiet", .type = KERN_BOOL, .flags = KERN_OPT_FLAG, .letter = "q", .help = "names only"},
    {.name = NULL},
};

#endif
