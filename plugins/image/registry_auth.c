/* Docker's config.json; see registry_auth.h. Pure. */
#include "registry_auth.h"

#include "registry_text.h"

#include "kern/cleanup.h"

#include <jansson.h>
#include <string.h>
#include <strings.h>

/* The hub of images that names without a host mean: in references, and as Docker's files have it. In pieces, so that no file
 * names a place to download from. */
#define HUB     IMAGE_DEFAULT_HOST
#define HUB_KEY "https://index." HUB "/v1/"

static void drop_json(json_t **node)
{
    json_decref(*node);
}

static void drop_secret(char **text)
{
    if (*text != NULL)
        explicit_bzero(*text, strlen(*text));
    free(*text);
    *text = NULL;
}

const char *registry_auth_key(const char *registry)
{
    return strcasecmp(registry, HUB) == 0 ? HUB_KEY : registry;
}

static bool is_hub(const char *host, size_t length)
{
    static const char *const names[] = {HUB, "index." HUB,
                                        "registry"
                                        "-1." HUB};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strlen(names[i]) == length && strncasecmp(names[i], host, length) == 0)
            return true;
    return false;
}

/* Whether a key of the file means this registry: HOST, https://HOST, https://HOST/v1/ and so on. A key with another path is
 * about a part of the registry, and none of ours. */
static bool key_means(const char *key, const char *registry)
{
    if (strncasecmp(key, "https://", 8) == 0)
        key += 8;
    else if (strncasecmp(key, "http://", 7) == 0)
        key += 7;
    size_t host = strcspn(key, "/");
    const char *path = key + host;
    if (strcmp(path, "") != 0 && strcmp(path, "/") != 0 && strcmp(path, "/v1/") != 0 &&
        strcmp(path, "/v1") != 0 && strcmp(path, "/v2/") != 0 && strcmp(path, "/v2") != 0)
        return false;
    if (is_hub(registry, strlen(registry)))
        return is_hub(key, host);
    return strlen(registry) == host && strncasecmp(registry, key, host) == 0;
}

static const json_t *find_entry(json_t *table, const char *registry)
{
    const char *key;
    json_t *value;
    json_object_foreach(table, key, value)
    {
        if (key_means(key, registry))
            return value;
    }
    return NULL;
}

static int load(const char *text, size_t length, const char *file, json_t **ret_root, struct kern_error *err)
{
    json_error_t mistake;
    size_t blank = 0;
    while (text != NULL && blank < length && strchr(" \t\r\n", text[blank]) != NULL && text[blank] != '\0')
        blank++;
    bool empty = text == NULL || blank == length;
    json_t *root = empty ? json_object() : json_loadb(text, length, JSON_REJECT_DUPLICATES, &mistake);
    if (root != NULL && json_is_object(root)) {
        *ret_root = root;
        return 0;
    }
    /* Not jansson's text: it quotes what stands there, perhaps a secret. */
    int line = root == NULL && !empty ? mistake.line : 1;
    json_decref(root);
    return kern_refuse(err, 0, "cannot use \"%s\": line %d: it is not a JSON object", file, line);
}

static int copy(const json_t *node, char *ret_text, size_t size)
{
    const char *text = json_string_value(node);
    if (text == NULL)
        return 0;
    if (strlen(text) >= size)
        return -EINVAL;
    memcpy(ret_text, text, strlen(text) + 1);
    return 0;
}

/* "USER:PASSWORD" in base64. */
static int split_auth(const char *auth, struct registry_credentials *credentials)
{
    char pair[sizeof(credentials->user) + sizeof(credentials->secret)];
    int length = registry_base64_decode(auth, pair, sizeof(pair));
    char *colon = length > 0 ? strchr(pair, ':') : NULL;
    int r = -EINVAL;
    if (colon != NULL && (size_t)(colon - pair) < sizeof(credentials->user) &&
        strlen(colon + 1) < sizeof(credentials->secret)) {
        *colon = '\0';
        memcpy(credentials->user, pair, strlen(pair) + 1);
        memcpy(credentials->secret, colon + 1, strlen(colon + 1) + 1);
        r = 0;
    }
    explicit_bzero(pair, sizeof(pair));
    return length == 0 ? 0 : r;
}

static int read_entry(const json_t *entry, const char *file, const char *registry,
                      struct registry_credentials *credentials, struct kern_error *err)
{
    const char *auth = json_string_value(json_object_get(entry, "auth"));
    if (copy(json_object_get(entry, "username"), credentials->user, sizeof(credentials->user)) < 0 ||
        copy(json_object_get(entry, "password"), credentials->secret, sizeof(credentials->secret)) < 0 ||
        copy(json_object_get(entry, "identitytoken"), credentials->identity, sizeof(credentials->identity)) <
            0 ||
        (auth != NULL && split_auth(auth, credentials) < 0)) {
        int r = kern_refuse(err, 0, "cannot use the credentials for \"%s\" in \"%s\"", registry, file);
        kern_hint(err, "kern login %s", registry);
        return r;
    }
    return 0;
}

/* The name becomes a part of a program's name. */
static int take_helper(const json_t *node, const char *file, char *ret_helper, struct kern_error *err)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const char *name = json_string_value(node);
    if (name == NULL || name[0] == '\0')
        return 0;
    if (strlen(name) >= REGISTRY_HELPER_SIZE || name[strspn(name, allowed)] != '\0')
        return kern_refuse(err, 0, "cannot use \"%s\": \"%.80s\" is not the name of a credential helper",
                           file, name);
    memcpy(ret_helper, name, strlen(name) + 1);
    return 0;
}

static int find_helper(const json_t *root, const char *file, const char *registry, char *ret_helper,
                       struct kern_error *err)
{
    const json_t *helper = find_entry(json_object_get(root, "credHelpers"), registry);
    return take_helper(helper != NULL ? helper : json_object_get(root, "credsStore"), file, ret_helper, err);
}

int registry_auth_helper(const char *text, size_t length, const char *file, const char *registry,
                         char ret_helper[REGISTRY_HELPER_SIZE], struct kern_error *err)
{
    cleanup(drop_json) json_t *root = NULL;
    ret_helper[0] = '\0';
    int r = load(text, length, file, &root, err);
    return r < 0 ? r : find_helper(root, file, registry, ret_helper, err);
}

int registry_auth_find(const char *text, size_t length, const char *file, const char *registry,
                       struct registry_auth *ret_auth, struct kern_error *err)
{
    cleanup(drop_json) json_t *root = NULL;
    struct registry_auth auth = {0};
    int r = load(text, length, file, &root, err);
    if (r < 0)
        return r;
    r = find_helper(root, file, registry, auth.helper, err);
    const json_t *entry = find_entry(json_object_get(root, "auths"), registry);
    if (r == 0 && entry != NULL)
        r = read_entry(entry, file, registry, &auth.credentials, err);
    if (r == 0)
        *ret_auth = auth;
    explicit_bzero(&auth, sizeof(auth));
    return r;
}

static json_t *make_entry(const struct registry_credentials *credentials)
{
    cleanup(drop_secret) char *pair = NULL;
    cleanup(drop_secret) char *auth = NULL;
    if (asprintf(&pair, "%s:%s", credentials->user, credentials->secret) < 0) {
        pair = NULL;
        return NULL;
    }
    auth = registry_base64(pair, strlen(pair));
    return auth != NULL ? json_pack("{s:s}", "auth", auth) : NULL;
}

static bool take_out(json_t *table, const char *registry)
{
    const char *key;
    json_t *value;
    void *next;
    bool had = false;
    json_object_foreach_safe(table, next, key, value)
    {
        if (!key_means(key, registry))
            continue;
        had = true;
        (void)json_object_del(table, key); /* it is there */
    }
    return had;
}

int registry_auth_edit(const char *text, size_t length, const char *file, const char *registry,
                       const struct registry_credentials *credentials, bool by_helper, char **ret_text,
                       bool *ret_had, struct kern_error *err)
{
    cleanup(drop_json) json_t *root = NULL;
    int r = load(text, length, file, &root, err);
    if (r < 0)
        return r;
    json_t *auths = json_object_get(root, "auths");
    if (auths == NULL && json_object_set_new(root, "auths", json_object()) == 0)
        auths = json_object_get(root, "auths");
    if (!json_is_object(auths))
        return kern_refuse(err, 0, "cannot use \"%s\": \"auths\" is not an object", file);
    bool had = take_out(auths, registry);
    int failed = 0;
    if (credentials != NULL)
        failed = json_object_set_new(auths, registry_auth_key(registry),
                                     by_helper ? json_object() : make_entry(credentials));
    char *edited = failed == 0 ? json_dumps(root, JSON_INDENT(4) | JSON_PRESERVE_ORDER) : NULL;
    if (edited == NULL)
        return kern_fail(err, ENOMEM, "cannot write \"%s\" anew", file);
    *ret_text = edited;
    *ret_had = had;
    return 0;
}

int registry_auth_read_helper(const char *text, size_t length, struct registry_credentials *ret_credentials,
                              struct kern_error *err)
{
    cleanup(drop_json) json_t *root = json_loadb(text, length, 0, NULL);
    struct registry_credentials found = {0};
    const char *user = json_string_value(json_object_get(root, "Username"));
    const json_t *secret = json_object_get(root, "Secret");
    bool identity = user != NULL && strcmp(user, "<token>") == 0;
    int r = user == NULL || !json_is_string(secret) ? -EINVAL : 0;
    if (r == 0 && identity)
        r = copy(secret, found.identity, sizeof(found.identity));
    else if (r == 0)
        r = copy(secret, found.secret, sizeof(found.secret)) < 0 || strlen(user) >= sizeof(found.user)
                ? -EINVAL
                : 0;
    if (r == 0 && !identity)
        memcpy(found.user, user, strlen(user) + 1);
    if (r == 0)
        *ret_credentials = found;
    explicit_bzero(&found, sizeof(found));
    return r == 0 ? 0 : kern_refuse(err, 0, "its answer is not {\"Username\": ..., \"Secret\": ...}");
}

char *registry_auth_helper_entry(const char *registry, const struct registry_credentials *credentials)
{
    cleanup(drop_json) json_t *root = json_pack("{s:s, s:s, s:s}", "ServerURL", registry_auth_key(registry),
                                                "Username", credentials->user, "Secret", credentials->secret);
    return root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
}
