/* From the words of the profiles to lines of chips and addresses of buses on this machine. Runs in kern, in prepare: nodes are
 * opened here, and known by what they are from then on. */
#include "vgpio_gpiod.h"
#include "vgpio_state.h"

#include "kern/cleanup.h"
#include "kern/foundation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* The chips of the machine, looked at once. */
struct machine {
    struct vgpio_chip_facts chip[VGPIO_CHIPS * 4];
    size_t count;
};

static void list_chips(const struct machine *machine, struct kern_error *err)
{
    char list[400] = "";
    size_t used = 0;
    for (size_t i = 0; i < machine->count && used < sizeof(list); i++) {
        const struct vgpio_chip_facts *chip = &machine->chip[i];
        used +=
            (size_t)snprintf(list + used, sizeof(list) - used, "%s%s \"%s\" (%u lines)", i > 0 ? ", " : "",
                             chip->name, chip->error != 0 ? strerror(chip->error) : chip->label, chip->lines);
    }
    kern_hint(err,
              machine->count > 0 ? "the chips here: %s"
                                 : "this machine has no GPIO chip (ls /dev/gpiochip*)%s",
              list);
}

static int is_called(const struct vgpio_chip_facts *chip, const char *word)
{
    return strcmp(chip->name, word) == 0 || strcmp(chip->path, word) == 0 ||
           (chip->error == 0 && strcmp(chip->label, word) == 0);
}

static int is_header(const struct vgpio_chip_facts *chip)
{
    return chip->error == 0 && strncmp(chip->label, "pinctrl-", 8) == 0;
}

static int refuse_closed(const struct vgpio_chip_facts *chip, const char *text, struct kern_error *err)
{
    int failed = kern_refuse(err, chip->error, "pin %s: cannot open \"%s\"", text, chip->path);
    kern_hint(
        err, "join the group that owns it (ls -l %s), such as: sudo usermod -aG gpio $USER, and log in again",
        chip->path);
    return failed;
}

/* `word` NULL: the one chip of the machine's header. -ENOENT without an error when there is none. */
static int choose_chip(const struct machine *machine, const char *word, const char *text,
                       const struct vgpio_chip_facts **ret_chip, struct kern_error *err)
{
    const struct vgpio_chip_facts *found = NULL;
    for (size_t i = 0; i < machine->count; i++) {
        const struct vgpio_chip_facts *chip = &machine->chip[i];
        if (word != NULL ? !is_called(chip, word) : !is_header(chip))
            continue;
        if (found != NULL) {
            int failed =
                word != NULL
                    ? kern_refuse(err, 0, "pin %s: two chips are called \"%s\"", text, word)
                    : kern_refuse(err, 0, "pin %s: several chips have a label that starts with \"pinctrl-\"",
                                  text);
            list_chips(machine, err);
            return failed;
        }
        found = chip;
    }
    if (found != NULL && found->error != 0)
        return refuse_closed(found, text, err);
    *ret_chip = found;
    return found != NULL ? 0 : -ENOENT;
}

/* ---- Lines by name ---- */

struct by_name {
    const char *name;
    uint32_t offset, matches;
};

static int compare_name(void *data, uint32_t offset, const struct vgpio_line_facts *line)
{
    struct by_name *search = data;
    if (strcmp(line->name, search->name) != 0)
        return 0;
    search->offset = offset;
    search->matches++;
    return 0;
}

static int find_named(const struct machine *machine, const char *chip_word, struct vgpio_pin *pin,
                      const char *text, const struct vgpio_chip_facts **ret_chip, struct kern_error *err)
{
    struct by_name search = {.name = pin->line};
    for (size_t i = 0; i < machine->count; i++) {
        const struct vgpio_chip_facts *chip = &machine->chip[i];
        uint32_t before = search.matches;
        if (chip->error != 0 || (chip_word != NULL && !is_called(chip, chip_word)))
            continue;
        (void)vgpio_gpiod_lines(chip->path, compare_name,
                                &search); /* a chip that went away has no such line */
        if (search.matches > before)
            *ret_chip = chip;
    }
    if (search.matches > 1) {
        int failed =
            kern_refuse(err, 0, "pin %s: %u lines are called \"%s\"", text, search.matches, pin->line);
        kern_hint(err, "say which: {chip = \"LABEL\", line = 17}; `kern probe` lists lines and chips");
        return failed;
    }
    pin->offset = search.offset;
    return search.matches == 1 ? 0 : -ENOENT;
}

/* ---- Granting ---- */

/* libgpiod asks /sys whether a node is a GPIO chip: its first generation by the device's number, its second by a link. */
static int vouch_for(kern_box *box, const char *name, dev_t rdev, struct kern_error *err)
{
    char path[96], number[32];
    int length = snprintf(number, sizeof(number), "%u:%u\n", major(rdev), minor(rdev)); /* fits */
    (void)snprintf(path, sizeof(path), "/sys/bus/gpio/devices/%s/dev", name);           /* fits */
    int failed = kern_add_file(box, path, 0444, number, (size_t)length, err);
    (void)snprintf(path, sizeof(path), "/sys/dev/char/%u:%u/subsystem", major(rdev), minor(rdev)); /* fits */
    return failed == 0 ? kern_add_link(box, path, "/sys/bus/gpio", err) : failed;
}

static int keep_chip(kern_box *box, struct vgpio_state *state, const struct vgpio_chip_facts *facts,
                     struct vgpio_chip **ret_chip, struct kern_error *err)
{
    static const char *const subsystem[] = {"gpio", NULL};
    for (size_t i = 0; i < state->chip_count; i++) {
        if (strcmp(state->chip[i].name, facts->name) == 0) {
            *ret_chip = &state->chip[i];
            return 0;
        }
    }
    if (state->chip_count == VGPIO_CHIPS)
        return kern_refuse(err, 0, "cannot use \"%s\": a box has lines of at most %u chips", facts->path,
                           VGPIO_CHIPS);
    auto_fd fd = -1;
    int failed = vgpio_open_node("pins", facts->path, subsystem, &fd, err);
    if (failed == -ENOENT)
        return kern_refuse(err, ENOENT, "cannot open \"%s\"", facts->path);
    if (failed == 0)
        failed = vgpio_put_node(box, fd, facts->path, err);
    struct stat st;
    if (failed != 0 || fstat(fd, &st) != 0)
        return failed != 0 ? failed : kern_fail(err, errno, "cannot look at \"%s\"", facts->path);
    failed = vouch_for(box, facts->name, st.st_rdev, err);
    if (failed != 0)
        return failed;
    struct vgpio_chip *chip = &state->chip[state->chip_count++];
    *chip = (struct vgpio_chip){.fd = steal_fd(&fd), .rdev = st.st_rdev, .line_count = facts->lines};
    (void)snprintf(chip->path, sizeof(chip->path), "%s", facts->path);    /* the same sizes, */
    (void)snprintf(chip->name, sizeof(chip->name), "%s", facts->name);    /* all */
    (void)snprintf(chip->label, sizeof(chip->label), "%s", facts->label); /* three */
    *ret_chip = chip;
    return 0;
}

static int grant_line(struct vgpio_chip *chip, const struct vgpio_pin *pin, struct kern_error *err)
{
    for (size_t i = 0; i < chip->granted.count; i++) {
        if (chip->granted.line[i].offset == pin->offset) {
            chip->granted.line[i].terms = pin->terms; /* of two profiles the later wins */
            return 0;
        }
    }
    size_t count = chip->granted.count + 1;
    struct vgpio_line *grown = reallocarray(chip->granted.line, count, sizeof(*grown));
    if (grown != NULL)
        chip->granted.line = grown;
    uint8_t *touched = realloc(chip->touched, count);
    if (touched != NULL)
        chip->touched = touched;
    if (grown == NULL || touched == NULL)
        return kern_fail(err, ENOMEM, "cannot keep a line of \"%s\"", chip->path);
    grown[count - 1] = (struct vgpio_line){.offset = pin->offset, .terms = pin->terms};
    touched[count - 1] = 0;
    chip->granted.count = count;
    return 0;
}

/* The pool's list of pins may name lines that the profile numbers, or the other way round; now both have a number. */
static int check_offered(const struct machine *machine, const kern_values *pool, const struct vgpio_pin *pin,
                         const struct vgpio_chip_facts *chip, const char *text, struct kern_error *err)
{
    uint32_t count = pool != NULL ? kern_get_count(pool, "pins") : 0;
    for (uint32_t i = 0; i < count; i++) {
        struct vgpio_pin offered;
        const struct vgpio_chip_facts *where = chip;
        int failed = vgpio_read_pin(kern_get_item(pool, "pins", i), &offered, err);
        if (failed != 0)
            return failed;
        if (offered.line[0] != '\0' && find_named(machine, NULL, &offered, text, &where, err) != 0)
            continue;
        if (where == chip && offered.offset == pin->offset)
            return 0;
    }
    return count == 0 ? 0
                      : kern_refuse(err, 0, "pin %s is not among the pins of pool \"%s\"", text,
                                    kern_get_string(pool, "id"));
}

/* No chip that could be looked at is meant. One that the caller may not open may be the one, and is no absent one. */
static int no_chip(kern_box *box, const kern_values *profile, const struct machine *machine, const char *word,
                   const struct vgpio_pin *pin, const char *text, struct kern_error *err)
{
    for (size_t i = 0; i < machine->count; i++)
        if (machine->chip[i].error == EACCES || machine->chip[i].error == EPERM)
            return refuse_closed(&machine->chip[i], text, err);
    if (machine->count > 0 && pin->line[0] == '\0' && word == NULL) {
        int failed = kern_refuse(err, 0, "pin %s: no chip has a label that starts with \"pinctrl-\"", text);
        list_chips(machine, err);
        return failed;
    }
    char what[192], number[16];
    (void)snprintf(number, sizeof(number), "line %u", pin->offset); /* fits */
    (void)snprintf(what, sizeof(what), "%s%s%s%s", pin->line[0] != '\0' ? pin->line : number,
                   word != NULL ? " of chip \"" : "", word != NULL ? word : "",
                   word != NULL ? "\"" : ""); /* for people: a cut one says enough */
    return vgpio_absent(box, profile, "pins", what, err);
}

static int grant_pin(kern_box *box, struct vgpio_state *state, const struct machine *machine,
                     const kern_values *profile, const kern_values *pool, const char *text,
                     struct kern_error *err)
{
    struct vgpio_pin pin;
    const struct vgpio_chip_facts *facts = NULL;
    int failed = vgpio_read_pin(text, &pin, err);
    if (failed != 0)
        return failed;
    const char *word = pin.chip[0] != '\0' ? pin.chip : pool != NULL ? kern_get_string(pool, "chip") : NULL;
    failed = pin.line[0] != '\0' ? find_named(machine, word, &pin, text, &facts, err)
                                 : choose_chip(machine, word, text, &facts, err);
    if (failed == -ENOENT)
        return no_chip(box, profile, machine, word, &pin, text, err);
    if (failed == 0 && pin.offset >= facts->lines)
        failed = kern_refuse(err, 0, "pin %s: \"%s\" has lines 0 to %u", text, facts->name, facts->lines - 1);
    if (failed == 0)
        failed = check_offered(machine, pool, &pin, facts, text, err);
    struct vgpio_chip *chip = NULL;
    if (failed == 0)
        failed = keep_chip(box, state, facts, &chip, err);
    static const struct vgpio_terms none = {0};
    if (memcmp(&pin.terms, &none, sizeof(none)) != 0)
        state->has_terms = 1;
    return failed == 0 ? grant_line(chip, &pin, err) : failed;
}

static int grant_bus(kern_box *box, struct vgpio_state *state, const kern_values *profile, const char *text,
                     struct kern_error *err)
{
    static const char *const subsystem[] = {"i2c-dev", NULL};
    struct vgpio_i2c i2c;
    char path[64];
    int failed = vgpio_read_i2c(text, &i2c, err);
    if (failed != 0)
        return failed;
    for (size_t i = 0; i < state->bus_count; i++) {
        if (state->bus[i].bus.number == i2c.bus) {
            vgpio_bus_add(&state->bus[i].bus, &i2c);
            return 0;
        }
    }
    if (state->bus_count == VGPIO_BUSES)
        return kern_refuse(err, 0, "cannot use i2c %s: a box has at most %u buses", text, VGPIO_BUSES);
    (void)snprintf(path, sizeof(path), "/dev/i2c-%u", i2c.bus); /* fits */
    auto_fd fd = -1;
    failed = vgpio_open_node("i2c", path, subsystem, &fd, err);
    if (failed == -ENOENT)
        return vgpio_absent(box, profile, "i2c", path, err);
    struct stat st;
    if (failed != 0 || fstat(fd, &st) != 0)
        return failed != 0 ? failed : kern_fail(err, errno, "cannot look at \"%s\"", path);
    struct vgpio_node_bus *bus = &state->bus[state->bus_count++];
    *bus = (struct vgpio_node_bus){.fd = steal_fd(&fd), .own = -1, .rdev = st.st_rdev};
    for (size_t i = 0; i < VGPIO_POOL; i++)
        bus->pool[i] = -1;
    (void)snprintf(bus->path, sizeof(bus->path), "%s", path); /* the same size */
    vgpio_bus_add(&bus->bus, &i2c);
    return 0;
}

/* Only now is it known whether some profile gives the whole bus. */
static int put_bus(kern_box *box, struct vgpio_state *state, struct vgpio_node_bus *bus,
                   struct kern_error *err)
{
    if (bus->bus.whole)
        return vgpio_put_node(box, bus->fd, bus->path, err);
    if (kern_privileged(box))
        return kern_refuse(
            err, 0, "cannot give single addresses of \"%s\" to a box with --privileged, which may mount",
            bus->path);
    state->has_restricted = 1;
    char link[40];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", bus->fd); /* fits: a number is short */
    bus->own = open(link, O_RDWR | O_CLOEXEC);
    if (bus->own < 0) {
        int failed = kern_refuse(err, errno, "cannot open \"%s\"", bus->path);
        kern_hint(
            err,
            "join the group that owns it (ls -l %s), such as: sudo usermod -aG i2c $USER, and log in again",
            bus->path);
        return failed;
    }
    return kern_add_bind(box, bus->fd, bus->path, KERN_MOUNT_SHOWN, err);
}

int vgpio_grant(kern_box *box, struct vgpio_state *state, struct kern_error *err)
{
    auto_free struct machine *machine = calloc(1, sizeof(*machine));
    state->chip = calloc(VGPIO_CHIPS, sizeof(*state->chip));
    state->bus = calloc(VGPIO_BUSES, sizeof(*state->bus));
    if (machine == NULL || state->chip == NULL || state->bus == NULL)
        return kern_fail(err, ENOMEM, "cannot keep the devices of the box");
    int failed = 0, looked = 0;
    for (uint32_t i = 0; failed == 0 && i < kern_profile_count(box); i++) {
        const kern_values *profile = kern_profile(box, i);
        uint32_t pins = kern_get_count(profile, "pins");
        if (pins > 0 && !looked++) {
            size_t most = sizeof(machine->chip) / sizeof(machine->chip[0]);
            machine->count = vgpio_gpiod_chips(machine->chip, most);
            machine->count = machine->count < most ? machine->count : most;
        }
        for (uint32_t k = 0; failed == 0 && k < pins; k++)
            failed = grant_pin(box, state, machine, profile, kern_profile_pool(box, i),
                               kern_get_item(profile, "pins", k), err);
        for (uint32_t k = 0; failed == 0 && k < kern_get_count(profile, "i2c"); k++)
            failed = grant_bus(box, state, profile, kern_get_item(profile, "i2c", k), err);
    }
    for (size_t i = 0; failed == 0 && i < state->bus_count; i++)
        failed = put_bus(box, state, &state->bus[i], err);
    return failed;
}

void vgpio_grant_clear(struct vgpio_state *state)
{
    for (size_t i = 0; i < state->chip_count; i++) {
        kern_close_fd(&state->chip[i].fd);
        free(state->chip[i].granted.line);
        free(state->chip[i].touched);
    }
    for (size_t i = 0; i < state->bus_count; i++) {
        kern_close_fd(&state->bus[i].fd);
        kern_close_fd(&state->bus[i].own);
        vgpio_pool_clear(&state->bus[i]);
    }
    free(state->chip);
    free(state->bus);
}
