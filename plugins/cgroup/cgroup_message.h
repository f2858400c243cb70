/* D-Bus messages, as much of them as it takes to ask a service manager for a unit: little-endian, no allocation. Pure. */
#ifndef CGROUP_MESSAGE_H
#define CGROUP_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#define CGROUP_MESSAGE_MAX 2048u
/* What must be there before the length of a whole message is known. */
#define CGROUP_MESSAGE_HEAD 16u

struct cgroup_message {
    uint8_t bytes[CGROUP_MESSAGE_MAX];
    size_t length;
    size_t body;       /* where it begins */
    uint32_t too_long; /* something did not fit: the message is of no use */
};

/* A method call; `destination` is NULL where no bus stands between. Then the arguments as `signature` names them, then
 * cgroup_message_end(). */
void cgroup_message_call(struct cgroup_message *message, uint32_t serial, const char *destination,
                         const char *path, const char *interface, const char *member, const char *signature);
void cgroup_message_string(struct cgroup_message *message, const char *text); /* s and o */
void cgroup_message_u32(struct cgroup_message *message, uint32_t number);     /* u and b */
void cgroup_message_signature(struct cgroup_message *message, const char *signature);
/* An array whose elements begin at multiples of `align`; returns what cgroup_message_close() takes. */
size_t cgroup_message_array(struct cgroup_message *message, uint32_t align);
void cgroup_message_close(struct cgroup_message *message, size_t array);
void cgroup_message_struct(struct cgroup_message *message); /* before the fields of a struct */
/* 0, or -EMSGSIZE. */
int cgroup_message_end(struct cgroup_message *message);

enum cgroup_reply_kind { CGROUP_REPLY_OTHER, CGROUP_REPLY_RETURN, CGROUP_REPLY_ERROR };

struct cgroup_reply {
    enum cgroup_reply_kind kind;
    uint32_t to;     /* the serial that it answers */
    char error[128]; /* the name of an error, cut */
    char text[512];  /* the first argument, where that is a string or a variant with one; else "" */
};

/* How long the message is that begins with these CGROUP_MESSAGE_HEAD bytes: -EPROTO, or -EMSGSIZE beyond what the
 * protocol allows. */
int cgroup_reply_length(const uint8_t *head, size_t *ret_length);
/* A whole message. -EPROTO where it is none. */
int cgroup_reply_parse(const uint8_t *bytes, size_t length, struct cgroup_reply *ret_reply);

#endif
