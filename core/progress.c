/* How far several transfers are; see kern/foundation.h. Host side: a verb, or prepare before the box exists. On a terminal, bars
 * that are drawn over each other on stderr; elsewhere one line for each that ended. */
#include <kern/foundation.h>

#include "cleanup.h"
#include "log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#define ITEMS_MAX 256u
#define INTERVAL  100 /* ms between two pictures */
#define BAR_WIDTH 24

struct item {
    char name[16];
    char state[32];
    uint64_t done, total;
    uint64_t before; /* of the last picture, for the rate */
    double rate;     /* bytes each second */
    bool known, ended, told;
};

struct kern_progress {
    bool bars, lines, quiet;
    unsigned drawn; /* lines that stand on the terminal */
    int64_t last;
    uint32_t count;
    struct item item[ITEMS_MAX];
};

static int64_t now_ms(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct kern_progress *kern_progress_new(uint32_t lines)
{
    struct kern_progress *progress = calloc(1, sizeof(*progress));
    const char *terminal = getenv("TERM");
    if (progress == NULL)
        return NULL;
    progress->quiet = core_log_switch("KERN_QUIET");
    progress->lines = lines != 0;
    progress->bars =
        !progress->quiet && isatty(STDERR_FILENO) == 1 && terminal != NULL && strcmp(terminal, "dumb") != 0;
    progress->last = now_ms();
    return progress;
}

void kern_progress_set(struct kern_progress *progress, uint32_t index, const struct kern_progress_item *news)
{
    if (progress == NULL || index >= ITEMS_MAX)
        return;
    struct item *item = &progress->item[index];
    if (item->known && strcmp(item->state, news->state) != 0)
        item->before = item->done = 0; /* unpacking counts anew */
    item->known = true;
    item->done = news->done;
    item->total = news->total;
    item->ended = news->ended != 0;
    (void)snprintf(item->name, sizeof(item->name), "%.12s", news->name);    /* so many digits tell it apart */
    (void)snprintf(item->state, sizeof(item->state), "%.31s", news->state); /* fits */
    if (index >= progress->count)
        progress->count = index + 1;
}

/* "12.3 MB", as registries and disks count. */
static void print_size(double bytes, char *ret_text, size_t size)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    unsigned unit = 0;
    for (; bytes >= 1000 && unit < 4; unit++)
        bytes /= 1000;
    (void)snprintf(ret_text, size, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]); /* fits */
}

static unsigned height(void)
{
    struct winsize size = {0};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 4 ? size.ws_row - 2u : 20;
}

/* Up to the first of our lines, and all below it away. */
static void wipe(struct kern_progress *progress)
{
    if (progress->drawn > 0)
        (void)fprintf(stderr, "\r\033[%uA\033[J", progress->drawn); /* a picture that is lost is no harm */
    progress->drawn = 0;
}

static void draw_item(struct item *item, int64_t elapsed)
{
    char done[24], total[24], rate[32] = "", bar[BAR_WIDTH + 1];
    unsigned full = item->total > 0 ? (unsigned)((double)item->done / (double)item->total * BAR_WIDTH) : 0;
    for (unsigned i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < full ? '=' : ' ';
    bar[BAR_WIDTH] = '\0';
    print_size((double)item->done, done, sizeof(done));
    print_size((double)item->total, total, sizeof(total));
    if (elapsed > 0 && item->done >= item->before)
        item->rate = 0.7 * item->rate + 0.3 * (double)(item->done - item->before) * 1000 / (double)elapsed;
    item->before = item->done;
    if (strcmp(item->state, "pulling") == 0 && item->rate > 1) {
        char figure[24];
        print_size(item->rate, figure, sizeof(figure));
        (void)snprintf(rate, sizeof(rate), ", %s/s", figure); /* fits */
    }
    /* As above: a picture that is lost is no harm. */
    if (item->ended || item->done == 0)
        (void)fprintf(stderr, "%s  %s, %s\033[K\n", item->name, item->state, total);
    else
        (void)fprintf(stderr, "%s  [%s] %s of %s%s, %s\033[K\n", item->name, bar, done, total, rate,
                      item->state);
}

/* Where there are more than the terminal has lines, those that move come first. */
static void draw_bars(struct kern_progress *progress, int64_t elapsed)
{
    unsigned room = height(), known = 0;
    wipe(progress);
    for (uint32_t i = 0; i < progress->count; i++)
        known += progress->item[i].known;
    for (uint32_t i = 0; i < progress->count && progress->drawn < room; i++) {
        struct item *item = &progress->item[i];
        if (!item->known || (known > room && (item->ended || item->done == 0)))
            continue;
        draw_item(item, elapsed);
        progress->drawn++;
    }
    (void)fflush(stderr); /* as above */
}

static void tell(const struct kern_progress *progress, const struct item *item)
{
    char total[24];
    print_size((double)item->total, total, sizeof(total));
    if (progress->lines)
        (void)printf("layer %s: %s, %s\n", item->name, item->state, total); /* found when stdout is closed */
    else
        core_log_note("layer %s: %s, %s", item->name, item->state, total);
}

void kern_progress_draw(struct kern_progress *progress, int32_t now)
{
    if (progress == NULL || progress->quiet)
        return;
    int64_t time = now_ms(), elapsed = time - progress->last;
    if (progress->bars) {
        if (now == 0 && elapsed < INTERVAL)
            return;
        draw_bars(progress, elapsed);
        progress->last = time;
        return;
    }
    for (uint32_t i = 0; i < progress->count; i++) {
        struct item *item = &progress->item[i];
        if (!item->ended || item->told)
            continue;
        item->told = true;
        tell(progress, item);
    }
    if (progress->lines)
        (void)fflush(stdout); /* found when stdout is closed */
}

void kern_progress_note(struct kern_progress *progress, const char *format, ...)
{
    char text[700];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args); /* a cut note is still a note */
    va_end(args);
    if (progress != NULL && progress->bars) {
        wipe(progress);
        (void)fflush(stderr); /* as above */
    }
    core_log_note("%s", text);
}

void kern_progress_free(struct kern_progress *progress)
{
    if (progress == NULL)
        return;
    if (progress->bars) {
        wipe(progress);
        (void)fflush(stderr); /* as above */
    }
    free(progress);
}
