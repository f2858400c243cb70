/* Image references and digests; see image_ref.h. Pure: used by the plugin, the verbs and the registry client. */
#include "image_ref.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LONGEST 240u /* in full; it is the name of a file */

#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

static int refuse(const char *text, const char *why, struct kern_error *err)
{
    kern_refuse(err, 0, "cannot use image \"%.300s\": %s", text, why);
    kern_hint(err, "write it as NAME, NAME:TAG, HOST[:PORT]/NAME:TAG or NAME@sha256:DIGEST");
    return -EINVAL;
}

int image_digest_is_valid(const char *text)
{
    return strncmp(text, "sha256:", 7) == 0 && strlen(text) == IMAGE_DIGEST_SIZE - 1 &&
           strspn(text + 7, DIGITS "abcdef") == 64;
}

/* [a-z0-9] words, joined by ".", "_", "__" or dashes; `length` bytes. */
static int is_part(const char *part, size_t length)
{
    size_t at = 0;
    for (;;) {
        size_t word = 0;
        while (at + word < length && strchr(LOWER DIGITS, part[at + word]) != NULL)
            word++;
        if (word == 0)
            return 0;
        at += word;
        if (at == length)
            return 1;
        size_t mark = 0;
        while (at + mark < length && part[at + mark] == part[at] && strchr("._-", part[at]) != NULL)
            mark++;
        if (mark == 0 || (part[at] == '.' && mark > 1) || (part[at] == '_' && mark > 2))
            return 0;
        at += mark;
    }
}

static int is_repository(const char *name)
{
    for (;;) {
        size_t length = strcspn(name, "/");
        if (!is_part(name, length))
            return 0;
        if (name[length] == '\0')
            return 1;
        name += length + 1;
    }
}

static int is_host(const char *host)
{
    const char *colon = strchr(host, ':');
    size_t length = colon != NULL ? (size_t)(colon - host) : strlen(host);
    if (length == 0 || strspn(host, LOWER UPPER DIGITS ".-") != length || host[0] == '-' || host[0] == '.' ||
        host[length - 1] == '-' || host[length - 1] == '.' || strstr(host, "..") != NULL)
        return 0;
    return colon == NULL ||
           (colon[1] != '\0' && strlen(colon + 1) <= 5 && strspn(colon + 1, DIGITS) == strlen(colon + 1));
}

static int is_tag(const char *tag)
{
    size_t length = strlen(tag);
    return length > 0 && length <= 128 && tag[0] != '.' && tag[0] != '-' &&
           strspn(tag, LOWER UPPER DIGITS "._-") == length;
}

/* The first segment is a host if it could not be part of a name of the default one. */
static int has_host(const char *text)
{
    size_t length = strcspn(text, "/");
    if (text[length] == '\0')
        return 0;
    return memchr(text, '.', length) != NULL || memchr(text, ':', length) != NULL ||
           (length == 9 && memcmp(text, "localhost", 9) == 0);
}

/* Cuts "@DIGEST" and ":TAG" off the end of `name`. */
static int take_end(char *name, const char *text, struct image_ref *ref, struct kern_error *err)
{
    char *at = strchr(name, '@');
    if (at != NULL) {
        *at = '\0';
        if (!image_digest_is_valid(at + 1))
            return refuse(text, "a digest is \"sha256:\" and 64 hexadecimal digits", err);
        memcpy(ref->digest, at + 1, IMAGE_DIGEST_SIZE);
    }
    char *slash = strrchr(name, '/');
    char *colon = strchr(slash != NULL ? slash : name, ':');
    if (colon == NULL) {
        (void)snprintf(ref->tag, sizeof(ref->tag), "latest"); /* fits */
        return 0;
    }
    *colon = '\0';
    if (!is_tag(colon + 1))
        return refuse(text, "a tag is up to 128 letters, digits, \".\", \"_\" and \"-\"", err);
    (void)snprintf(ref->tag, sizeof(ref->tag), "%s", colon + 1); /* judged above */
    return 0;
}

int image_ref_parse(const char *text, struct image_ref *ret_ref, struct kern_error *err)
{
    struct image_ref ref = {0};
    char name[512];
    if (text[0] == '\0')
        return refuse(text, "the reference is empty", err);
    if (strlen(text) >= sizeof(name))
        return refuse(text, "the reference is too long", err);
    memcpy(name, text, strlen(text) + 1);
    int failed = take_end(name, text, &ref, err);
    if (failed != 0)
        return failed;
    const char *rest = name;
    (void)snprintf(ref.host, sizeof(ref.host), IMAGE_DEFAULT_HOST); /* fits */
    if (has_host(name)) {
        size_t length = strcspn(name, "/");
        if (length >= sizeof(ref.host))
            return refuse(text, "the host's name is too long", err);
        memcpy(ref.host, name, length);
        ref.host[length] = '\0';
        rest = name + length + 1;
    }
    if (!is_host(ref.host))
        return refuse(text, "that is not a host's name", err);
    if (strcmp(ref.host, "index." IMAGE_DEFAULT_HOST) == 0)
        (void)snprintf(ref.host, sizeof(ref.host), IMAGE_DEFAULT_HOST); /* another name of the same */
    if (!is_repository(rest))
        return refuse(text, "a name is lower-case letters and digits, joined by \".\", \"_\", \"-\" or \"/\"",
                      err);
    int official = strcmp(ref.host, IMAGE_DEFAULT_HOST) == 0 && strchr(rest, '/') == NULL;
    size_t end = ref.digest[0] != '\0' ? IMAGE_DIGEST_SIZE : 1 + strlen(ref.tag);
    if (strlen(ref.host) + 1 + (official ? 8 : 0) + strlen(rest) + end > LONGEST)
        return refuse(text, "the reference is too long", err);
    (void)snprintf(ref.repository, sizeof(ref.repository), "%s%.*s", official ? "library/" : "", (int)LONGEST,
                   rest); /* judged above */
    if (ref.digest[0] != '\0')
        ref.tag[0] = '\0';
    *ret_ref = ref;
    return 0;
}

/* Returns the end. The parser saw to it that there is room. */
static char *put(char *text, const char *word)
{
    size_t length = strlen(word);
    memcpy(text, word, length + 1);
    return text + length;
}

static void put_rest(char *text, const struct image_ref *ref, const char *name)
{
    int pinned = ref->digest[0] != '\0';
    text = put(text, name);
    text = put(text, pinned ? "@" : ":");
    (void)put(text, pinned ? ref->digest : ref->tag); /* the end is not needed */
}

void image_ref_full(const struct image_ref *ref, char ret_text[static IMAGE_REF_SIZE])
{
    put_rest(put(put(ret_text, ref->host), "/"), ref, ref->repository);
}

void image_ref_short(const struct image_ref *ref, char ret_text[static IMAGE_REF_SIZE])
{
    const char *name = ref->repository;
    int ours = strcmp(ref->host, IMAGE_DEFAULT_HOST) == 0;
    /* A repository whose first part looks like a host would be read as one. */
    if (!ours || has_host(name)) {
        image_ref_full(ref, ret_text);
        return;
    }
    put_rest(ret_text, ref,
             strncmp(name, "library/", 8) == 0 && strchr(name + 8, '/') == NULL ? name + 8 : name);
}
