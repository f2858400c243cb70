/* One line of the audit record: JSON in a buffer of fixed size. Pure. */
#ifndef AUDIT_LINE_H
#define AUDIT_LINE_H

#include <stddef.h>
#include <stdint.h>

/* Below PIPE_BUF, so that lines of many boxes never mix, and a datagram takes one whole. */
#define AUDIT_LINE_MOST 3500

struct audit_line {
    char text[AUDIT_LINE_MOST + 8]; /* always terminated */
    size_t used;
    int cut; /* something did not fit: the line says so */
    int in_list;
};

/* `seconds` and `ms` of the Epoch, the box, the event. */
void audit_line_begin(struct audit_line *line, int64_t seconds, int ms, const char *box, const char *event);
/* NULL is null. Bytes that are no UTF-8 become U+FFFD. */
void audit_line_text(struct audit_line *line, const char *key, const char *value);
void audit_line_number(struct audit_line *line, const char *key, int64_t value);
/* "KEY": [ITEM, ...]: begin with the key, add, end. */
void audit_line_list(struct audit_line *line, const char *key);
void audit_line_item(struct audit_line *line, const char *value);
void audit_line_list_end(struct audit_line *line);
/* Closes the object and the line. */
void audit_line_end(struct audit_line *line);

#endif
