/* `kern cp`: files and trees as a stream, between kern and a process in the box that has the rights of the box's command. Both sides
 * have the same code: one walks a tree and sends, the other makes what comes. Neither believes the other: names are single,
 * links are made and never followed below what was named, and only files, directories and links are copied.
 *
 * May run in a copy of the supervisor with a small stack: buffers stand in the heap, and trees are walked without recursion. */
#ifndef CORE_COPY_H
#define CORE_COPY_H

#include "kern/plugin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core_execution;

#define CORE_COPY_DEEPEST 128 /* each level of a tree holds a descriptor */
#define CORE_COPY_CHUNK   65536u

enum core_copy_kind {
    CORE_COPY_FOLDER = 1, /* what follows is in it, until LEAVE */
    CORE_COPY_LEAVE,
    CORE_COPY_FILE, /* DATA and HOLE follow, until CLOSE */
    CORE_COPY_DATA,
    CORE_COPY_HOLE,
    CORE_COPY_CLOSE,
    CORE_COPY_LINK,  /* the text is where it leads */
    CORE_COPY_LEFT,  /* the text says what was left out and why */
    CORE_COPY_ERROR, /* the text says why nothing more comes */
    CORE_COPY_PLACE, /* from who receives, after the first FOLDER: what it made, for who sends not to walk into */
    CORE_COPY_DONE,
};

/* Names and texts follow: `name` bytes, then `size` bytes of DATA or a text. Sizes of files and holes are bytes, too. */
struct core_copy_record {
    uint32_t kind;
    uint32_t mode;
    uint64_t size; /* PLACE: the inode */
    int64_t seconds;
    uint64_t device; /* PLACE only */
    uint32_t nanoseconds;
    uint32_t name;
};

struct core_copy_io {
    int fd; /* a stream socket */
    char *out, *in;
    size_t out_used, in_at, in_end;
};

/* Where paths begin: a root that no path or link leaves, or (-1) wherever the caller stands. */
struct core_copy_place {
    int root;
};

int core_copy_open(struct core_copy_io *io, int fd);
void core_copy_close(struct core_copy_io *io);
/* All return 0 or -errno, -EPIPE when the other side has gone. */
int core_copy_write(struct core_copy_io *io, const void *bytes, size_t size);
int core_copy_flush(struct core_copy_io *io);
int core_copy_read(struct core_copy_io *io, void *ret_bytes, size_t size);
int core_copy_record(struct core_copy_io *io, const struct core_copy_record *record, const char *name);
int core_copy_text(struct core_copy_io *io, enum core_copy_kind kind, const char *text);
/* The text of such a record; cut to fit. */
int core_copy_read_text(struct core_copy_io *io, const struct core_copy_record *record, char *ret_text,
                        size_t size);

/* Opens `path`, links followed as the place has it; returns the descriptor or -errno. */
int core_copy_place_open(const struct core_copy_place *place, const char *path, int flags);
/* Whether the descriptor stands for something that the kernel makes up when it is read. */
bool core_copy_is_made_up(int fd);

/* Sends the file or tree at `path`, DONE at the end. What is left out on the way is told to `left` (once each). */
typedef void (*core_copy_left_fn)(void *context, const char *text);
int core_copy_send(const struct core_copy_place *place, const char *path, struct core_copy_io *io,
                   core_copy_left_fn left, void *context, struct kern_error *err);

/* Makes what comes at `path`: there, or, where that is a directory, in it under the name `base` ("": what a tree holds goes
 * into the directory itself). Ends with DONE. */
int core_copy_receive(const struct core_copy_place *place, const char *path, const char *base,
                      struct core_copy_io *io, core_copy_left_fn left, void *context, struct kern_error *err);

/* In the box's process: serves one request ("get" PATH, "put" PATH BASE) on descriptor 0; returns its exit code. */
int core_copy_serve(int root, char **words);

#endif
