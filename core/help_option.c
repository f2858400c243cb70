/* One option as words: what stands behind its flag, and its line of help; see help.h. Pure, host side. */
#include "help.h"

#include <string.h>

bool core_help_shows(const struct kern_option *option, uint32_t mask)
{
    return (option->flags & mask) != 0 && (option->flags & KERN_OPT_LATER) == 0;
}

void core_help_arg(const struct kern_option *option, char *ret_text, size_t size)
{
    const char *arg = option->arg != NULL ? option->arg : "VALUE";
    if (option->type == KERN_BOOL)
        ret_text[0] = '\0';
    else if ((option->flags & KERN_OPT_OPTIONAL) != 0)
        (void)snprintf(ret_text, size, "[%s]", arg); /* placeholders are short */
    else
        (void)snprintf(ret_text, size, "%s", arg); /* as above */
}

struct notes {
    char *text;
    size_t size;
    size_t used;
    bool open;
};

static void note(struct notes *notes, const char *word, const char *more)
{
    if (notes->used >= notes->size)
        return;
    int length = snprintf(notes->text + notes->used, notes->size - notes->used, "%s%s%s",
                          notes->open ? ", " : " (", word, more);
    notes->used += length > 0 ? (size_t)length : 0;
    notes->open = true;
}

/* Choices that the placeholder or the help already name are not said twice. */
static bool names_choices(const struct kern_option *option)
{
    for (const char *const *choice = option->choices; choice != NULL && *choice != NULL; choice++) {
        bool named = (option->arg != NULL && strstr(option->arg, *choice) != NULL) ||
                     strstr(option->help, *choice) != NULL;
        if (!named)
            return false;
    }
    return true;
}

void core_help_line(const struct kern_option *option, char *ret_text, size_t size)
{
    int length = snprintf(ret_text, size, "%s", option->help);
    struct notes notes = {.text = ret_text, .size = size, .used = length > 0 ? (size_t)length : size};
    if (!names_choices(option)) {
        note(&notes, "one of ", option->choices[0]);
        for (const char *const *choice = option->choices + 1; *choice != NULL; choice++)
            note(&notes, *choice, "");
    }
    if (option->fallback != NULL && option->type != KERN_BOOL && strstr(option->help, "(default") == NULL)
        note(&notes, "default: ", option->fallback);
    if ((option->flags & KERN_OPT_COMMAS) != 0)
        note(&notes, "repeatable", " or separated by commas");
    else if ((option->flags & KERN_OPT_LIST) != 0)
        note(&notes, "repeatable", "");
    if ((option->flags & KERN_OPT_REQUIRED) != 0)
        note(&notes, "required", "");
    if (notes.open && notes.used + 1 < notes.size) {
        ret_text[notes.used] = ')';
        ret_text[notes.used + 1] = '\0';
    }
}
