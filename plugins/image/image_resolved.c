/* A resolved image; see image_resolved.h. Runs in kern's prepare, where it must be quick, and wherever images are made. */
#include "image_resolved.h"

#include "image_place.h"
#include "kern/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define FIRST "kern-image 1"

/* ---- Writing ---- */

static int add(struct image_text *out, const char *bytes, size_t length)
{
    if (out->length + length + 1 > out->room) {
        size_t room = (out->length + length + 1) * 2;
        char *grown = realloc(out->text, room);
        if (grown == NULL)
            return -ENOMEM;
        out->text = grown;
        out->room = room;
    }
    memcpy(out->text + out->length, bytes, length);
    out->length += length;
    out->text[out->length] = '\0';
    return 0;
}

/* A value is one line: line ends and "%" are written as %XX. */
int image_text_line(struct image_text *out, const char *word, const char *value)
{
    static const char hex[] = "0123456789abcdef";
    int failed = add(out, word, strlen(word));
    if (failed == 0 && value != NULL)
        failed = add(out, " ", 1);
    for (const char *c = value; failed == 0 && c != NULL && *c != '\0'; c++) {
        const char escaped[3] = {'%', hex[(unsigned char)*c >> 4], hex[(unsigned char)*c & 15]};
        int plain = *c != '\n' && *c != '%';
        failed = add(out, plain ? c : escaped, plain ? 1 : 3);
    }
    return failed != 0 ? failed : add(out, "\n", 1);
}

/* ---- Reading ---- */

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int unescape(char *value)
{
    char *to = value;
    for (const char *from = value; *from != '\0'; from++) {
        if (*from != '%') {
            *to++ = *from;
            continue;
        }
        int high = digit(from[1]), low = high < 0 ? -1 : digit(from[2]);
        if (low < 0 || high * 16 + low == 0)
            return -EBADMSG;
        *to++ = (char)(high * 16 + low);
        from += 2;
    }
    *to = '\0';
    return 0;
}

/* Lines of one word stand together, so that a list is a run of `items`. */
static int put_item(struct image_list *list, char **slot, char *value)
{
    if (list->count == 0)
        list->item = slot;
    if (list->item + list->count != slot)
        return -EBADMSG;
    list->count++;
    *slot = value;
    return 0;
}

static int take_line(struct image_resolved *image, const char *word, char *value, char **slot, int *ret_used)
{
    struct {
        const char *word;
        char **to;
    } const texts[] = {{"ref", &image->ref},           {"digest", &image->digest},
                       {"manifest", &image->manifest}, {"config", &image->config},
                       {"platform", &image->platform}, {"workdir", &image->workdir},
                       {"user", &image->user},         {"stop", &image->stop_signal}};
    struct {
        const char *word;
        struct image_list *to;
    } const lists[] = {{"layer", &image->layer},
                       {"entrypoint", &image->entrypoint},
                       {"cmd", &image->cmd},
                       {"env", &image->env},
                       {"volume", &image->volume}};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (strcmp(word, texts[i].word) == 0) {
            *texts[i].to = value;
            return 0;
        }
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        if (strcmp(word, lists[i].word) == 0) {
            *ret_used = 1;
            return put_item(lists[i].to, slot, value);
        }
    if (strcmp(word, "pulled") == 0)
        image->pulled = strtoll(value, NULL, 10);
    return 0; /* a later kern's word: what matters to this one is there all the same */
}

static int take_lines(struct image_resolved *image)
{
    size_t used = 0;
    char *line = image->text;
    for (int first = 1;; first = 0) {
        char *end = strchr(line, '\n');
        if (end == NULL)
            return -EBADMSG;
        *end = '\0';
        if (first && strcmp(line, FIRST) != 0)
            return -EBADMSG;
        if (strcmp(line, "end") == 0)
            return end[1] == '\0' && image->ref != NULL && image->digest != NULL && image->manifest != NULL &&
                           image->config != NULL && image->platform != NULL && image->layer.count > 0
                       ? 0
                       : -EBADMSG;
        char *value = strchr(line, ' ');
        if (!first && value != NULL) {
            *value++ = '\0';
            int takes = 0;
            int failed = unescape(value);
            if (failed == 0 && used == IMAGE_VALUES_MOST)
                failed = -EBADMSG;
            if (failed == 0)
                failed = take_line(image, line, value, &image->items[used], &takes);
            if (failed != 0)
                return failed;
            used += (size_t)takes;
        }
        line = end + 1;
    }
}

int image_resolved_parse(char *text, struct image_resolved *ret_image)
{
    struct image_resolved image = {.text = text, .items = calloc(IMAGE_VALUES_MOST, sizeof(char *))};
    int failed = image.items == NULL || text == NULL ? -ENOMEM : take_lines(&image);
    if (failed != 0)
        image_resolved_clear(&image);
    else
        *ret_image = image;
    return failed;
}

int image_resolved_read(int refs, const char *full, struct image_resolved *ret_image)
{
    char name[IMAGE_REF_SIZE];
    image_ref_file(full, name);
    auto_fd fd = openat(refs, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > IMAGE_RESOLVED_MOST)
        return -EBADMSG;
    auto_free char *text = malloc((size_t)st.st_size + 1);
    ssize_t length = text != NULL ? read(fd, text, (size_t)st.st_size) : -1;
    if (length < 0)
        return text != NULL ? -errno : -ENOMEM;
    text[length] = '\0';
    return image_resolved_parse(steal_ptr(text), ret_image);
}

void image_resolved_clear(struct image_resolved *image)
{
    free(image->text);
    free(image->items);
    *image = (struct image_resolved){0};
}
