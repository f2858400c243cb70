/* Which kern.toml counts, and which is not trusted: real files in a folder of the test's own. No privileges;
 * the test of another owner is skipped without root. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct place {
    char folder[64];
    char file[PATH_MAX]; /* folder/sub/kern.toml */
    struct kern_error err;
};

static void at(const struct place *place, const char *name, char *ret_path)
{
    (void)snprintf(ret_path, PATH_MAX, "%s/%s", place->folder, name);
}

static void write_file(const char *path, const char *text)
{
    FILE *out = fopen(path, "we");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(path, 0644), 0);
}

static int make_place(void **state)
{
    struct place *place = calloc(1, sizeof(*place));
    char sub[PATH_MAX];
    *state = place;
    if (place == NULL)
        return -1;
    (void)snprintf(place->folder, sizeof(place->folder), "/tmp/kern-test-source-XXXXXX");
    if (mkdtemp(place->folder) == NULL)
        return -1;
    at(place, "sub", sub);
    at(place, "sub/kern.toml", place->file);
    if (mkdir(sub, 0755) != 0)
        return -1;
    write_file(place->file, "[box]\nmemory = \"1g\"\n");
    (void)unsetenv("KERN_CONFIG");
    return setenv("XDG_CONFIG_HOME", place->folder, 1);
}

static int drop_place(void **state)
{
    struct place *place = *state;
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", place->folder);
    int r = system(command);
    free(place);
    (void)unsetenv("KERN_CONFIG");
    return r;
}

static void assert_read(struct place *place, const char *chosen, const char *path, int trust)
{
    struct config_source source = {0};
    int r = config_source_read(chosen, &source, &place->err);
    assert_string_equal(place->err.message, "");
    assert_int_equal(r, 0);
    assert_string_equal(source.path, path);
    assert_int_equal(source.trust, trust);
    config_source_clear(&source);
}

static void assert_refused(struct place *place, const char *chosen, const char *format, const char *path)
{
    struct config_source source = {0};
    char message[PATH_MAX + 200];
    const char *mark = strstr(format, "FILE");
    assert_non_null(mark);
    (void)snprintf(message, sizeof(message), "%.*s%s%s", (int)(mark - format), format, path, mark + 4);
    place->err = (struct kern_error){0};
    assert_true(config_source_read(chosen, &source, &place->err) < 0);
    assert_string_equal(place->err.message, message);
    assert_int_equal(place->err.category, KERN_ERROR_REFUSED);
    assert_null(source.text);
}

static void the_order_is_flag_environment_user(void **state)
{
    struct place *place = *state;
    char folder[PATH_MAX], own[PATH_MAX], other[PATH_MAX];
    at(place, "kern", folder);
    at(place, "kern/kern.toml", own);
    at(place, "other.toml", other);
    assert_int_equal(mkdir(folder, 0755), 0);
    write_file(own, "");
    write_file(other, "");
    assert_read(place, NULL, own, CORE_CONFIG_OWN);
    assert_int_equal(setenv("KERN_CONFIG", "", 1), 0); /* empty counts as unset */
    assert_read(place, NULL, own, CORE_CONFIG_OWN);
    assert_int_equal(setenv("KERN_CONFIG", other, 1), 0);
    assert_read(place, NULL, other, CORE_CONFIG_FOREIGN);
    assert_read(place, place->file, place->file, CORE_CONFIG_FOREIGN);
}

static void without_a_file_there_is_the_compiled_one(void **state)
{
    struct place *place = *state;
    if (access("/etc/kern/kern.toml", F_OK) == 0)
        skip(); /* this machine has a file that counts */
    assert_read(place, NULL, "(compiled default)", CORE_CONFIG_COMPILED);
    assert_int_equal(setenv("XDG_CONFIG_HOME", "relative", 1), 0);
    assert_int_equal(setenv("HOME", place->folder, 1), 0);
    assert_read(place, NULL, "(compiled default)", CORE_CONFIG_COMPILED);
}

static void a_chosen_file_must_be_there(void **state)
{
    struct place *place = *state;
    assert_refused(place, "/no/such.toml", "cannot open \"FILE\": No such file or directory",
                   "/no/such.toml");
    assert_int_equal(setenv("KERN_CONFIG", "/no/such.toml", 1), 0);
    assert_refused(place, NULL, "cannot open \"FILE\", which KERN_CONFIG names: No such file or directory",
                   "/no/such.toml");
}

static void the_text_and_the_real_folder_are_read(void **state)
{
    struct place *place = *state;
    struct config_source source = {0};
    char link[PATH_MAX], sub[PATH_MAX];
    at(place, "link.toml", link);
    at(place, "sub", sub);
    assert_int_equal(symlink("sub/kern.toml", link), 0);
    assert_int_equal(config_source_read(link, &source, NULL), 0);
    assert_string_equal(source.path, link);
    assert_string_equal(source.folder, sub);
    assert_string_equal(source.text, "[box]\nmemory = \"1g\"\n");
    assert_int_equal(source.length, 20);
    config_source_clear(&source);
    config_source_clear(NULL);
}

static void what_others_can_write_is_not_trusted(void **state)
{
    struct place *place = *state;
    char hint[PATH_MAX + 32], sub[PATH_MAX], message[PATH_MAX + 64];
    at(place, "sub", sub);
    for (mode_t mode = 0020; mode >= 0002; mode >>= 3) {
        assert_int_equal(chmod(place->file, 0644 | mode), 0);
        assert_refused(place, place->file, "cannot trust \"FILE\": others than its owner may write to it",
                       place->file);
        (void)snprintf(hint, sizeof(hint), "chmod go-w '%s'", place->file);
        assert_string_equal(place->err.hint, hint);
    }
    assert_int_equal(chmod(place->file, 0600), 0);
    assert_int_equal(chmod(sub, 0757), 0);
    (void)snprintf(message, sizeof(message),
                   "cannot trust \"FILE\": its folder \"%s\" may be written by others", sub);
    assert_refused(place, place->file, message, place->file);
    (void)snprintf(hint, sizeof(hint), "chmod go-w '%s'", sub);
    assert_string_equal(place->err.hint, hint);
    assert_int_equal(chmod(sub, 01777), 0); /* sticky, like /tmp: nobody else can move the file away */
    place->err = (struct kern_error){0};
    assert_read(place, place->file, place->file, CORE_CONFIG_FOREIGN);
    assert_int_equal(chmod(sub, 0755), 0);
    assert_int_equal(chmod(place->folder, 0777), 0);
    (void)snprintf(message, sizeof(message),
                   "cannot trust \"FILE\": its folder \"%s\" may be written by others", place->folder);
    assert_refused(place, place->file, message, place->file);
}

static void the_file_of_another_user_is_not_trusted(void **state)
{
    struct place *place = *state;
    if (geteuid() != 0)
        skip(); /* only root can give a file away */
    assert_int_equal(chown(place->file, 12345, 12345), 0);
    assert_refused(place, place->file,
                   "cannot trust \"FILE\": it belongs to user 12345, not to you or to root", place->file);
    assert_non_null(strstr(place->err.hint, "chown"));
}

static void only_a_regular_file_of_sensible_size_is_read(void **state)
{
    struct place *place = *state;
    char path[PATH_MAX];
    at(place, "fifo", path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused(place, path, "cannot read \"FILE\": it is not a regular file", path);
    at(place, "sub", path);
    assert_refused(place, path, "cannot read \"FILE\": it is not a regular file", path);
    assert_int_equal(truncate(place->file, (off_t)CORE_TOML_MAX_SIZE + 1), 0);
    assert_refused(place, place->file, "cannot read \"FILE\": File too large", place->file);
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, make_place, drop_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_PLACE(the_order_is_flag_environment_user),
        IN_PLACE(without_a_file_there_is_the_compiled_one),
        IN_PLACE(a_chosen_file_must_be_there),
        IN_PLACE(the_text_and_the_real_folder_are_read),
        IN_PLACE(what_others_can_write_is_not_trusted),
        IN_PLACE(the_file_of_another_user_is_not_trusted),
        IN_PLACE(only_a_regular_file_of_sensible_size_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
