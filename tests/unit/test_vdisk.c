/* The vdisk plugin's pure parts: what is read out of an ext4 superblock, and the arithmetic that makes an image hold exactly what
 * was asked for. */
#include "vdisk_ext4.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

static void put(unsigned char *bytes, unsigned at, uint32_t value, unsigned size)
{
    for (unsigned i = 0; i < size; i++)
        bytes[at + i] = (unsigned char)(value >> 8 * i);
}

static void a_superblock(unsigned char *bytes)
{
    memset(bytes, 0, VDISK_SUPER_BYTES);
    put(bytes, 4, 2000, 4);
    put(bytes, 12, 1900, 4);
    put(bytes, 24, 2, 4);
    put(bytes, 56, 0xef53, 2);
    put(bytes, 58, 1, 2);
    put(bytes, 336, 7, 4); /* counts only with the feature */
    put(bytes, 344, 6, 4);
}

static void superblocks(void **state)
{
    (void)state; /* no fixture */
    unsigned char bytes[VDISK_SUPER_BYTES];
    struct vdisk_super super;
    a_superblock(bytes);
    assert_int_equal(vdisk_read_super(bytes, &super), 0);
    assert_int_equal(super.blocks, 2000);
    assert_int_equal(super.free_blocks, 1900);
    assert_int_equal(super.clean, 1);
    put(bytes, 96, 0x80, 4);
    assert_int_equal(vdisk_read_super(bytes, &super), 0);
    assert_true(super.blocks == (UINT64_C(7) << 32) + 2000);
    assert_true(super.free_blocks == (UINT64_C(6) << 32) + 1900);
    assert_int_equal(super.grows, 0);
    memcpy(bytes + 136, "/vdisk/kern grows 3", 20); /* as the kernel writes it */
    assert_int_equal(vdisk_read_super(bytes, &super), 0);
    assert_int_equal(super.grows, 0);
    memcpy(bytes + 136, "kern grows 18446744073709551615", 32);
    assert_int_equal(vdisk_read_super(bytes, &super), 0);
    assert_int_equal(super.grows, 1);
    assert_true(super.used == UINT64_MAX);
}

static void what_must_be_checked_first(void **state)
{
    (void)state; /* no fixture */
    static const struct {
        unsigned at;
        uint32_t value;
    } rows[] = {{58, 0}, {58, 3}, {58, 2}, {96, 4}, {96, 0xc4}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsigned char bytes[VDISK_SUPER_BYTES];
        struct vdisk_super super;
        a_superblock(bytes);
        put(bytes, rows[i].at, rows[i].value, rows[i].at == 58 ? 2 : 4);
        assert_int_equal(vdisk_read_super(bytes, &super), 0);
        assert_int_equal(super.clean, 0);
    }
}

static void what_is_no_image(void **state)
{
    (void)state; /* no fixture */
    unsigned char bytes[VDISK_SUPER_BYTES] = {0};
    struct vdisk_super super = {.blocks = 5};
    assert_int_equal(vdisk_read_super(bytes, &super), -EINVAL);
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(vdisk_read_super(bytes, &super), -EINVAL);
    a_superblock(bytes);
    put(bytes, 24, 0, 4); /* blocks of 1024 bytes */
    assert_int_equal(vdisk_read_super(bytes, &super), -EINVAL);
    assert_int_equal(super.blocks, 5);
}

static void guesses_meet_the_wish(void **state)
{
    (void)state; /* no fixture */
    static const uint64_t sizes[] = {UINT64_C(1) << 20, UINT64_C(40) << 20, UINT64_C(3) << 30,
                                     UINT64_C(16) << 40, (UINT64_C(1) << 20) + 1};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (uint32_t kernel = 0; kernel < 2; kernel++) {
            uint64_t bytes = vdisk_first_guess(sizes[i]), wanted = 0;
            struct vdisk_super made = {0};
            for (int round = 0; round < 6 && (round == 0 || made.free_blocks != wanted); round++) {
                /* An mkfs that takes one block in thirty and a hundred more. */
                made.blocks = bytes / VDISK_BLOCK;
                made.free_blocks = made.blocks - made.blocks / 30 - 100;
                wanted = vdisk_wanted_free(sizes[i], &made, kernel);
                bytes = vdisk_next_guess(bytes, &made, wanted);
            }
            int64_t off = (int64_t)(made.free_blocks - wanted);
            assert_true(off >= -2 && off <= 2);
            assert_true(vdisk_first_guess(sizes[i]) > sizes[i]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(superblocks),
        cmocka_unit_test(what_must_be_checked_first),
        cmocka_unit_test(what_is_no_image),
        cmocka_unit_test(guesses_meet_the_wish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
