/* Reads --user and account lines; see creds_user.h. Pure. */
#include "creds_user.h"

#include "creds_text.h"

#include <errno.h>
#include <string.h>

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* What useradd makes; a trailing $ is Samba's mark of a machine account. */
static bool is_name(const char *text, size_t length)
{
    if (!is_letter(text[0]))
        return false;
    for (size_t i = 1; i < length; i++) {
        bool last_dollar = text[i] == '$' && i + 1 == length;
        if (!is_letter(text[i]) && !is_digit(text[i]) && text[i] != '.' && text[i] != '-' && !last_dollar)
            return false;
    }
    return true;
}

/* Returns what is wrong with it, or NULL. */
static const char *read_id(const char *text, size_t length, struct creds_id *ret_id)
{
    if (length == 0)
        return "a part is empty";
    if (is_digit(text[0])) {
        uint64_t number = 0;
        int result = creds_decimal(text, length, CREDS_ID_MAX, &number);
        if (result == -ERANGE)
            return "ids end at 4294967294";
        if (result < 0)
            return "what starts with a digit must be a plain decimal number without leading zeros";
        *ret_id = (struct creds_id){.given = true, .number = (uint32_t)number};
        return NULL;
    }
    if (length >= sizeof(ret_id->name))
        return "the name is longer than 63 characters";
    if (!is_name(text, length))
        return "it is neither a number nor a name";
    *ret_id = (struct creds_id){.given = true};
    memcpy(ret_id->name, text, length);
    return NULL;
}

int creds_user_parse(const char *text, struct creds_user *ret_user, struct kern_error *err)
{
    struct creds_user user = {.group = {.given = false}};
    const char *colon = strchr(text, ':');
    size_t length = colon != NULL ? (size_t)(colon - text) : strlen(text);
    const char *wrong = read_id(text, length, &user.user);
    if (wrong == NULL && colon != NULL)
        wrong = strchr(colon + 1, ':') != NULL ? "it has more than one colon"
                                               : read_id(colon + 1, strlen(colon + 1), &user.group);
    if (wrong != NULL) {
        int result = kern_refuse(err, 0, "cannot use --user \"%s\": %s", text, wrong);
        kern_hint(err, "give numbers or names of the box, such as --user 1000:1000 or --user app");
        return result;
    }
    *ret_user = user;
    return 0;
}

struct field {
    const char *at;
    size_t length;
};

/* Splits at colons into at most `room` fields; what follows the last one is left out. */
static size_t split(const char *line, size_t length, struct field *ret_field, size_t room)
{
    size_t count = 0;
    const char *end = line + length;
    while (count < room) {
        const char *colon = memchr(line, ':', (size_t)(end - line));
        const char *stop = colon != NULL ? colon : end;
        ret_field[count++] = (struct field){.at = line, .length = (size_t)(stop - line)};
        if (colon == NULL)
            break;
        line = colon + 1;
    }
    return count;
}

static bool is_named(const struct field *field, const char *name)
{
    return field->length == strlen(name) && memcmp(field->at, name, field->length) == 0;
}

static bool read_number(const struct field *field, uint32_t *ret_number)
{
    uint64_t number = 0;
    if (creds_decimal(field->at, field->length, CREDS_ID_MAX, &number) < 0)
        return false;
    *ret_number = (uint32_t)number;
    return true;
}

/* HOME ends up in the environment of every program of the box: an image may not slip odd bytes into it. */
static void read_home(const struct field *field, char *ret_home, size_t room)
{
    bool usable = field->length > 0 && field->length < room && field->at[0] == '/';
    for (size_t i = 0; usable && i < field->length; i++)
        usable = (unsigned char)field->at[i] >= 0x20 && field->at[i] != 0x7f;
    const char *home = usable ? field->at : "/";
    size_t length = usable ? field->length : 1;
    memcpy(ret_home, home, length);
    ret_home[length] = '\0';
}

int creds_user_match_passwd(const char *line, size_t length, const struct creds_id *wanted,
                            struct creds_account *ret_account)
{
    struct field field[6] = {{.at = NULL}};
    size_t count = split(line, length, field, 6);
    bool by_name = wanted->name[0] != '\0';
    if (by_name && !is_named(&field[0], wanted->name))
        return 0;
    uint32_t uid = 0;
    uint32_t gid = 0;
    bool sound = count >= 4 && read_number(&field[2], &uid) && read_number(&field[3], &gid);
    if (!sound)
        return by_name ? -EINVAL : 0;
    if (!by_name && uid != wanted->number)
        return 0;
    ret_account->uid = uid;
    ret_account->gid = gid;
    read_home(&field[5], ret_account->home, sizeof(ret_account->home));
    return 1;
}

int creds_user_match_group(const char *line, size_t length, const struct creds_id *wanted, uint32_t *ret_gid)
{
    struct field field[3] = {{.at = NULL}};
    size_t count = split(line, length, field, 3);
    if (!is_named(&field[0], wanted->name))
        return 0;
    uint32_t gid = 0;
    if (count < 3 || !read_number(&field[2], &gid))
        return -EINVAL;
    *ret_gid = gid;
    return 1;
}
