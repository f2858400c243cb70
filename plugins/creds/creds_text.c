/* Numbers and near misses; see creds_text.h. Pure. */
#include "creds_text.h"

#include <errno.h>
#include <string.h>

/* The longest word of the tables has 18 letters; a longer typed one is no near miss of any. */
#define LONGEST 31

int creds_decimal(const char *text, size_t length, uint64_t max, uint64_t *ret_number)
{
    if (length == 0 || (length > 1 && text[0] == '0'))
        return -EINVAL;
    for (size_t i = 0; i < length; i++)
        if (text[i] < '0' || text[i] > '9')
            return -EINVAL;
    uint64_t number = 0;
    for (size_t i = 0; i < length; i++) {
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (digit > max || number > (max - digit) / 10)
            return -ERANGE;
        number = number * 10 + digit;
    }
    *ret_number = number;
    return 0;
}

/* tolower() asks the locale. */
static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static size_t least(size_t a, size_t b, size_t c)
{
    size_t smaller = a < b ? a : b;
    return smaller < c ? smaller : c;
}

/* Levenshtein distance, one row at a time. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t row[LONGEST + 1];
    for (size_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t above = row[j];
            size_t changed = diagonal + (lower(a[i - 1]) != lower(b[j - 1]));
            row[j] = least(above + 1, row[j - 1] + 1, changed);
            diagonal = above;
        }
    }
    return row[b_length];
}

const char *creds_nearest(const char *typed, const char *const *words, size_t count)
{
    size_t typed_length = strlen(typed);
    if (typed_length == 0 || typed_length > LONGEST)
        return NULL;
    /* A third of the letters may be wrong: beyond that the suggestion would puzzle more than help. */
    size_t best = typed_length / 3 + 2;
    const char *nearest = NULL;
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(words[i]);
        if (length > LONGEST)
            continue;
        size_t far = distance(typed, typed_length, words[i], length);
        if (far < best && far < typed_length) {
            best = far;
            nearest = words[i];
        }
    }
    return nearest;
}
