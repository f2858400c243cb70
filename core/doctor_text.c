/* The list of checks and its two layouts: lines for people, JSON for programs; see doctor.h. Pure, host side. */
#include "doctor.h"

#include "log.h"

#include <stdarg.h>
#include <string.h>

static const char *const status_words[] = {"ok", "warn", "fail"};

struct core_doctor_check *core_doctor_add(struct core_doctor *doctor, const char *name)
{
    size_t last = CORE_DOCTOR_MOST - 1;
    struct core_doctor_check *check = &doctor->check[doctor->count < last ? doctor->count : last];
    if (doctor->count < last)
        doctor->count++;
    *check = (struct core_doctor_check){.name = name, .status = CORE_DOCTOR_FAIL};
    return check;
}

void core_doctor_say(struct core_doctor_check *check, enum core_doctor_status status, const char *format, ...)
{
    va_list args;
    check->status = status;
    va_start(args, format);
    (void)vsnprintf(check->detail, sizeof(check->detail), format, args); /* a cut line is better than none */
    va_end(args);
}

void core_doctor_fix(struct core_doctor_check *check, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(check->fix, sizeof(check->fix), format, args); /* sized for the longest, the profile */
    va_end(args);
}

bool core_doctor_is_ok(const struct core_doctor *doctor)
{
    for (size_t i = 0; i < doctor->count; i++)
        if (doctor->check[i].status == CORE_DOCTOR_FAIL)
            return false;
    return true;
}

static void print_line(FILE *out, const char *before, const char *text, size_t length)
{
    char line[600], clean[1200];
    (void)snprintf(line, sizeof(line), "%.*s", (int)length, text); /* lines are shorter */
    core_escape(line, clean, sizeof(clean));
    (void)fprintf(out, "%s%s\n", before, clean); /* what is lost is found when standard output is closed */
}

/* Several lines are a here-document, which an indentation would break. */
static void print_fix(FILE *out, const char *fix)
{
    bool single = strchr(fix, '\n') == NULL;
    if (!single)
        (void)fputs("      hint:\n", out); /* as above */
    for (const char *line = fix; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        print_line(out, single ? "      hint: " : "", line, length);
        line += length + (line[length] == '\n');
    }
}

void core_doctor_print(const struct core_doctor *doctor, FILE *out)
{
    int width = 0;
    for (size_t i = 0; i < doctor->count; i++) {
        int length = (int)strlen(doctor->check[i].name);
        width = length > width ? length : width;
    }
    for (size_t i = 0; i < doctor->count; i++) {
        const struct core_doctor_check *check = &doctor->check[i];
        char start[80];
        (void)snprintf(start, sizeof(start), "%-4s  %-*s  ", status_words[check->status], width,
                       check->name); /* names are short */
        print_line(out, start, check->detail, strlen(check->detail));
        /* Five limits may be mended by one line: it stands below the last of them. */
        bool again = i + 1 < doctor->count && strcmp(check->fix, doctor->check[i + 1].fix) == 0;
        if (check->fix[0] != '\0' && !again)
            print_fix(out, check->fix);
    }
}

void core_doctor_json(const struct core_doctor *doctor, struct core_json *json)
{
    core_json_open(json, NULL, '{');
    core_json_int(json, "version", 1);
    core_json_string(json, "kern", KERN_VERSION);
    core_json_bool(json, "ok", core_doctor_is_ok(doctor));
    core_json_open(json, "checks", '[');
    for (size_t i = 0; i < doctor->count; i++) {
        const struct core_doctor_check *check = &doctor->check[i];
        core_json_open(json, NULL, '{');
        core_json_string(json, "name", check->name);
        core_json_string(json, "status", status_words[check->status]);
        core_json_string(json, "detail", check->detail);
        core_json_string(json, "fix", check->fix[0] != '\0' ? check->fix : NULL);
        core_json_close(json, '}');
    }
    core_json_close(json, ']');
    core_json_close(json, '}');
}
