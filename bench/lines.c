/* What a GPIO line costs: requests it, toggles it, and asks for nothing, for comparison. Prints nanoseconds for each:
 * "request N toggle N call N", medians of requests and means of the others. For bench/lines. Usage: lines NODE LINE REQUESTS TOGGLES
 * [made-up|copy]; made-up: the chip takes no values, so that a toggle is a call that fails; copy: nor is it there to be asked for
 * lines, and a copy of the descriptor stands for them. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/gpio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int request(int chip, unsigned line, int copies)
{
    if (copies)
        return fcntl(chip, F_DUPFD_CLOEXEC, 3);
    struct gpio_v2_line_request wanted = {
        .num_lines = 1, .offsets = {line}, .config = {.flags = GPIO_V2_LINE_FLAG_OUTPUT}};
    if (ioctl(chip, GPIO_V2_GET_LINE_IOCTL, &wanted) != 0) {
        perror("request");
        exit(1);
    }
    return wanted.fd;
}

int main(int count, char **words)
{
    if (count < 5)
        return 2;
    int chip = open(words[1], O_RDWR | O_CLOEXEC);
    unsigned line = (unsigned)atoi(words[2]);
    int requests = atoi(words[3]), toggles = atoi(words[4]);
    int made_up = count > 5, copies = made_up && strcmp(words[5], "copy") == 0;
    double *took = calloc((size_t)requests, sizeof(*took));
    if (chip < 0 || took == NULL || requests == 0) {
        perror(words[1]);
        return 1;
    }
    for (int i = 0; i < requests; i++) {
        double start = now();
        close(request(chip, line, copies));
        took[i] = now() - start;
    }
    qsort(took, (size_t)requests, sizeof(*took), compare);
    int fd = request(chip, line, copies);
    double begun = now();
    for (int i = 0; i < toggles; i++) {
        struct gpio_v2_line_values values = {.bits = (unsigned)i & 1, .mask = 1};
        if (ioctl(fd, GPIO_V2_LINE_SET_VALUES_IOCTL, &values) != 0 && !made_up) {
            perror("toggle");
            return 1;
        }
    }
    double toggled = now();
    for (int i = 0; i < toggles; i++)
        (void)syscall(SYS_getppid); /* a call that does nothing */
    double called = now();
    printf("request %.0f toggle %.0f call %.0f\n", took[requests / 2], (toggled - begun) / toggles,
           (called - toggled) / toggles);
    free(took);
    return 0;
}
