#include "tests/test.h"

/* Known answers published with Random123 (kat_vectors, philox4x32 10). */
static void known_answers(void **state) {
    (void)state;
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

static void uniform_stays_below_1(void **state) {
    (void)state;
    assert_true(gs_uniform(UINT32_MAX) < 1.0f);
    assert_true(gs_uniform(0) == 0.0f);
}

GS_TESTS(philox, cmocka_unit_test(known_answers), cmocka_unit_test(uniform_stays_below_1))
