/* Which known word did the user mean? Damerau and Levenshtein's distance with a threshold. Pure; host side. */
#include "options.h"

#include <string.h>

/* No option, profile or table name is longer; longer words get no suggestion. */
#define LONGEST 64u

static unsigned char folded(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (unsigned char)(c - 'A' + 'a');
    return c == '_' ? '-' : (unsigned char)c;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Letters added, left out, exchanged for another or swapped with their neighbour. Three rows of the usual
 * matrix are enough, the third for the swap. */
static unsigned distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    unsigned rows[3][LONGEST + 1];
    for (unsigned j = 0; j <= b_length; j++)
        rows[0][j] = j;
    for (unsigned i = 1; i <= a_length; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i + 2) % 3];
        row[0] = i;
        for (unsigned j = 1; j <= b_length; j++) {
            bool same = folded(a[i - 1]) == folded(b[j - 1]);
            row[j] = least(least(above[j] + 1, row[j - 1] + 1), above[j - 1] + (same ? 0 : 1));
            if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) &&
                folded(a[i - 2]) == folded(b[j - 1]))
                row[j] = least(row[j], rows[(i + 1) % 3][j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

/* "mem" for "memory": too far for the distance, and yet what was meant. */
static const char *longer(const char *typed, size_t length, const char *const *words)
{
    for (; length >= 3 && *words != NULL; words++) {
        size_t same = 0;
        while (same < length && folded(typed[same]) == folded((*words)[same]))
            same++;
        if (same == length)
            return *words;
    }
    return NULL;
}

const char *core_nearest(const char *typed, const char *const *words)
{
    size_t length = strlen(typed);
    const char *best = NULL;
    /* A third of the letters may be wrong, three at most: past that a suggestion is a guess. */
    unsigned best_distance = (unsigned)(length < 3 ? 1 : length / 3 > 3 ? 3 : length / 3) + 1;
    if (length == 0 || length > LONGEST)
        return NULL;
    for (const char *const *word = words; *word != NULL; word++) {
        size_t word_length = strlen(*word);
        if (word_length > LONGEST || word_length > length + best_distance ||
            length > word_length + best_distance)
            continue;
        unsigned d = distance(typed, length, *word, word_length);
        if (d < best_distance && d < word_length) {
            best_distance = d;
            best = *word;
        }
    }
    return best != NULL ? best : longer(typed, length, words);
}
