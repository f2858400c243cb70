/* The view plugin's pure parts: lists and masks of CPUs, the choice of what a box sees, the text of its files, and what is read
 * out of the kernel's. */
#include "view_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static struct view_cpus list(const char *text)
{
    struct view_cpus cpus;
    assert_int_equal(view_cpus_parse(text, &cpus), 0);
    return cpus;
}

static void lists_round_trip(void **state)
{
    (void)state; /* no fixture */
    static const struct {
        const char *in, *out;
    } rows[] = {{"0", "0\n"},         {"0-2,4\n", "0-2,4\n"}, {"4,0-2", "0-2,4\n"},
                {"63-64", "63-64\n"}, {"8191", "8191\n"},     {"", "\n"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[64];
        struct view_cpus cpus = list(rows[i].in);
        assert_int_equal(view_cpus_format(&cpus, text, sizeof(text)), strlen(rows[i].out));
        assert_string_equal(text, rows[i].out);
    }
}

static void the_next_cpu(void **state)
{
    (void)state; /* no fixture */
    struct view_cpus cpus = list("0,63-64,8191");
    static const uint32_t rows[][2] = {{0, 0},     {1, 63},      {63, 63},     {64, 64},
                                       {65, 8191}, {8191, 8191}, {8192, 8192}, {9000, 8192}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(view_cpus_next(&cpus, rows[i][0]), rows[i][1]);
    cpus = list("");
    assert_int_equal(view_cpus_next(&cpus, 0), VIEW_CPU_MAX);
}

static void what_is_no_list(void **state)
{
    (void)state; /* no fixture */
    static const char *const texts[] = {"x",  "-1",  "1-",   "2-1",         "1,,2",
                                        "1,", "1 2", "8192", "99999999999", "1-x"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct view_cpus cpus = list("7");
        assert_true(view_cpus_parse(texts[i], &cpus) < 0);
        assert_int_equal(view_cpus_count(&cpus), 1);
    }
}

static void a_short_buffer_cuts_after_a_whole_cpu(void **state)
{
    (void)state; /* no fixture */
    struct view_cpus cpus = list("1,3,100");
    char text[8];
    assert_int_equal(view_cpus_format(&cpus, text, 7), 4);
    assert_string_equal(text, "1,3\n");
    assert_int_equal(view_cpus_format(&cpus, text, 1), 0);
}

static void boxes_differ_in_their_choice(void **state)
{
    (void)state; /* no fixture */
    struct view_cpus machine = list("0-3,8-11"), chosen;
    uint32_t firsts = 0;
    for (uint32_t seed = 1; seed < 200; seed++) {
        struct view_cpus beyond;
        view_cpus_choose(&machine, 3, seed, &chosen);
        assert_int_equal(view_cpus_count(&chosen), 3);
        beyond = chosen;
        view_cpus_keep(&beyond, &machine);
        assert_memory_equal(&beyond, &chosen, sizeof(chosen));
        for (uint32_t cpu = 0; cpu < 12; cpu++)
            firsts |= view_cpus_has(&chosen, cpu) << cpu;
    }
    assert_int_equal(firsts, 0xf0f); /* each CPU was somebody's */
    view_cpus_choose(&machine, 8, 5, &chosen);
    assert_memory_equal(&chosen, &machine, sizeof(chosen));
    view_cpus_choose(&machine, 100, 5, &chosen);
    assert_memory_equal(&chosen, &machine, sizeof(chosen));
}

static void what_a_task_narrowed_itself_to_comes_back(void **state)
{
    (void)state; /* no fixture */
    static const struct {
        const char *real, *told;
    } rows[] = {{"0-7", "4-5\n"}, {"2", "2\n"},     {"4", "4\n"},       {"2-3", "2-3\n"},
                {"1,5", "1,5\n"}, {"", "\n"},       {"0-3", "0-1\n"},   {"5-7", "5-6\n"},
                {"5", "5\n"},     {"4-5", "4-5\n"}, {"0-8191", "4-5\n"}};
    struct view_cpus shown = list("4-5");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[64];
        struct view_cpus real = list(rows[i].real), told;
        view_cpus_narrow(&real, &shown, 2, &told);
        (void)view_cpus_format(&told, text, sizeof(text));
        assert_string_equal(text, rows[i].told);
    }
}

static void meminfo_adds_up(void **state)
{
    (void)state; /* no fixture */
    char text[4096];
    const struct view_memory memory = {.total = 100 << 20,
                                       .used = 60 << 20,
                                       .inactive_file = 10 << 20,
                                       .active_file = 5 << 20,
                                       .slab_reclaimable = 1 << 20,
                                       .file = 20 << 20};
    size_t length = view_meminfo(&memory, text, sizeof(text));
    assert_int_equal(length, strlen(text));
    assert_non_null(strstr(text, "MemTotal:         102400 kB\n"));
    assert_non_null(strstr(text, "\nMemFree:           40960 kB\n"));
    assert_non_null(strstr(text, "\nMemAvailable:      57344 kB\n"));
    assert_non_null(strstr(text, "\nCached:            20480 kB\n"));
    assert_true(length < 2048); /* what the box begins with must have room */
    /* More in use than the cap, which a kernel may show for a moment. */
    const struct view_memory over = {.total = 1 << 20, .used = 2 << 20};
    (void)view_meminfo(&over, text, sizeof(text));
    assert_non_null(strstr(text, "MemFree:               0 kB\n"));
    /* Whole lines only. */
    length = view_meminfo(&memory, text, 40);
    assert_string_equal(text, "MemTotal:         102400 kB\n");
    assert_int_equal(length, strlen(text));
}

static void stat_has_a_line_for_each_cpu(void **state)
{
    (void)state; /* no fixture */
    char text[1024];
    const struct view_figures figures = {.uptime_us = 10000000,
                                         .user_us = 4000000,
                                         .sys_us = 1000000,
                                         .boot_s = 77,
                                         .last_pid = 9,
                                         .running = 1,
                                         .load = {0.5, 0.25, 0.125}};
    struct view_cpus cpus = list("2,5");
    (void)view_stat(&figures, &cpus, text, sizeof(text));
    assert_non_null(strstr(text, "cpu  400 0 100 1500 0 0 0 0 0 0\n"
                                 "cpu2 200 0 50 750 0 0 0 0 0 0\ncpu5 200 0 50 750 0 0 0 0 0 0\n"));
    assert_non_null(strstr(text, "btime 77\nprocesses 9\nprocs_running 1\nprocs_blocked 0\n"));
    (void)view_uptime(&figures, 2, text, sizeof(text));
    assert_string_equal(text, "10.00 15.00\n");
    (void)view_loadavg(&figures, text, sizeof(text));
    assert_string_equal(text, "0.50 0.25 0.13 1/0 9\n");
}

#define BLOCK(number) "processor\t: " number "\nmodel\t: m" number "\n\n"

static void cpuinfo_keeps_whole_blocks(void **state)
{
    (void)state; /* no fixture */
    char text[512];
    struct view_cpus cpus = list("1-2");
    (void)view_cpuinfo(BLOCK("0") BLOCK("1") BLOCK("2") BLOCK("3") "Hardware\t: x\n", &cpus, text,
                       sizeof(text));
    assert_string_equal(text, BLOCK("1") BLOCK("2") "Hardware\t: x\n");
    (void)view_cpuinfo_first("processor\t: 0\nmodel\t: m0\n\nprocessor\t: 1\nmod", &cpus, text, sizeof(text));
    assert_string_equal(text, "processor\t: 1\nmodel\t: m0\n\nprocessor\t: 2\nmodel\t: m0\n\n");
    assert_int_equal(view_cpuinfo_first("nothing\n", &cpus, text, sizeof(text)), 0);
    assert_int_equal(view_cpuinfo("", &cpus, text, sizeof(text)), 0);
}

static void sysinfo_says_the_same(void **state)
{
    (void)state; /* no fixture */
    struct sysinfo info;
    const struct view_figures figures = {
        .memory = {.total = 100, .used = 30, .swap_total = 5, .swap_used = 9},
        .uptime_us = 2500000,
        .tasks = 70000,
        .load = {1, 0.5, 0}};
    view_sysinfo(&figures, &info);
    assert_int_equal(info.totalram, 100);
    assert_int_equal(info.freeram, 70);
    assert_int_equal(info.freeswap, 0);
    assert_int_equal(info.uptime, 2);
    assert_int_equal(info.procs, 65535);
    assert_int_equal(info.mem_unit, 1);
    assert_int_equal(info.loads[0], 65536);
    assert_int_equal(info.loads[1], 32768);
}

static void load_comes_and_goes_as_the_kernels(void **state)
{
    (void)state; /* no fixture */
    double load[3] = {0, 0, 0};
    for (int i = 0; i < 12; i++)
        view_load_step(load, 1, 5);
    assert_true(load[0] > 0.62 && load[0] < 0.64); /* 1 - 1/e after a minute */
    assert_true(load[1] > 0.17 && load[1] < 0.19);
    for (int i = 0; i < 12; i++)
        view_load_step(load, 0, 5);
    assert_true(load[0] > 0.22 && load[0] < 0.24);
}

static void counters_of_both_versions(void **state)
{
    (void)state; /* no fixture */
    struct view_memory memory = {.total = 1};
    view_memory_stat("anon 10\nfile 20\nfile_mapped 3\nslab_reclaimable 4\ninactive_file 5\n", 2, &memory);
    assert_int_equal(memory.anon, 10);
    assert_int_equal(memory.file, 20);
    assert_int_equal(memory.mapped, 3);
    assert_int_equal(memory.slab_reclaimable, 4);
    assert_int_equal(memory.inactive_file, 5);
    view_memory_stat("cache 1\nrss 2\ntotal_cache 30\ntotal_rss 40\n", 1, &memory);
    assert_int_equal(memory.file, 30);
    assert_int_equal(memory.anon, 40);
    assert_int_equal(memory.slab_reclaimable, 0);
    assert_int_equal(memory.total, 1);
    assert_int_equal(view_field("ab 1\nabc 2\nb", "abc"), 2);
    assert_int_equal(view_field("", "abc"), 0);
    assert_int_equal(view_field("abc", "abc"), 0);
}

static void a_tasks_name_does_not_lead_astray(void **state)
{
    (void)state; /* no fixture */
    char task_state = 0;
    uint32_t threads = 0;
    static const char good[] = "12 (a) R 1) ) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 42 0 99";
    assert_int_equal(view_task_stat(good, &task_state, &threads), 0);
    assert_int_equal(task_state, 'S');
    assert_int_equal(threads, 42);
    static const char *const bad[] = {"", "12", "12 (a)", "12 (a) ", "12 (a) S 1 2 3", "12 (a) 4 1 2 3"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(view_task_stat(bad[i], &task_state, &threads), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_round_trip),
        cmocka_unit_test(the_next_cpu),
        cmocka_unit_test(what_is_no_list),
        cmocka_unit_test(a_short_buffer_cuts_after_a_whole_cpu),
        cmocka_unit_test(boxes_differ_in_their_choice),
        cmocka_unit_test(what_a_task_narrowed_itself_to_comes_back),
        cmocka_unit_test(meminfo_adds_up),
        cmocka_unit_test(stat_has_a_line_for_each_cpu),
        cmocka_unit_test(cpuinfo_keeps_whole_blocks),
        cmocka_unit_test(sysinfo_says_the_same),
        cmocka_unit_test(load_comes_and_goes_as_the_kernels),
        cmocka_unit_test(counters_of_both_versions),
        cmocka_unit_test(a_tasks_name_does_not_lead_astray),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
