#include <math.h>
#include "core/normal.h"
#include "core/philox.h"
#include "tests/support/test.h"

/* Known answers published with Random123 (kat_vectors, philox4x32 10). */
TEST(known_answers) {
    uint32_t out[4];
    gs_philox(0, 0, 0, out);
    assert_int_equal(out[0], 0x6627e8d5);
    assert_int_equal(out[1], 0xe169c58d);
    assert_int_equal(out[2], 0xbc57ac4c);
    assert_int_equal(out[3], 0x9b00dbd8);
    gs_philox(UINT64_MAX, UINT64_MAX, UINT64_MAX, out);
    assert_int_equal(out[0], 0x408f276d);
    assert_int_equal(out[1], 0x41c83b0e);
    assert_int_equal(out[2], 0xa20bc7c6);
    assert_int_equal(out[3], 0x6d5451fd);
    gs_philox(0x299f31d0a4093822u, 0x0370734413198a2eu, 0x85a308d3243f6a88u, out);
    assert_int_equal(out[0], 0xd16cfe09);
    assert_int_equal(out[1], 0x94fdcceb);
    assert_int_equal(out[2], 0x5001e420);
    assert_int_equal(out[3], 0x24126ea1);
}

TEST(uniform_stays_below_1) {
    assert_true(gs_uniform(UINT32_MAX) < 1.0f);
    assert_true(gs_uniform(0) == 0.0f);
}

/* Expected values: Python's statistics.NormalDist().inv_cdf((word + 0.5) / 2**32), rounded to f32. */
TEST(normal_numbers) {
    const struct {
        uint32_t word;
        float normal;
    } want[] = {{0, -6.33795786f},           {1, -6.16642952f},
                {5, -5.95750761f},           {1000, -5.03985119f},
                {0x10000000, -1.53412056f},  {0x13333334, -1.43953145f},
                {0x40000000, -0.674489737f}, {0x80000000, 2.91809937e-10f}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_true(gs_normal(want[i].word) == want[i].normal);
        assert_true(gs_normal(~want[i].word) == -want[i].normal);
    }
    /* 65536 steps through the distribution: the variance is 1 and the fourth moment 3 */
    double squares = 0, fourths = 0;
    float before = -7;
    for (uint32_t i = 0; i < 65536; i++) {
        float z = gs_normal(i << 16 | 0x8000);
        assert_true(z > before);
        before = z;
        squares += (double)z * (double)z / 65536;
        fourths += pow((double)z, 4) / 65536;
    }
    assert_near(squares, 1, 1e-4, 0);
    assert_near(fourths, 3, 1e-3, 0);
}
