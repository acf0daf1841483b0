/* Tile sizes: their text form, and a device that uses them. */
#include "cl/cl.h"
#include "tests/support/devices.h"
#include "tests/support/test.h"

TEST(tiles_have_a_text) {
    gs_cl_tiles t = gs_cl_tiles_default(false, 16);
    assert_true(gs_cl_tiles_parse("cpu vector=8 rows=5 dot_rows=2 unroll=4 pack=0", &t));
    assert_true(!t.gpu && t.vector == 8 && t.rows == 5 && t.dot_rows == 2 && t.unroll == 4 && t.pack == 0);
    assert_true(gs_cl_tiles_parse("cpu rows=7", &t)); /* all other sizes keep their values */
    assert_true(t.rows == 7 && t.vector == 8 && t.unroll == 4);
    assert_true(gs_cl_tiles_parse("gpu tile=128 each=8 step=8", &t));
    assert_true(t.gpu && t.tile == 128 && t.each == 8 && t.step == 8);
    assert_int_equal(gs_cl_group(&t), 256);
    assert_true(gs_cl_tiles_parse("cpu4", &t));
    assert_true(!t.gpu && t.vector == 4);

    const gs_cl_tiles before = t;
    const char *wrong[] = {"",
                           "tpu",
                           "cpu5",
                           "cpu vector=5",
                           "cpu rows=0",
                           "cpu rows=17",
                           "cpu rows=x",
                           "cpu rows",
                           "cpu rows=99999999999999999999",
                           "cpu dot_rows=9",
                           "cpu unroll=0",
                           "cpu pack=-1",
                           "gpu tile=48",
                           "gpu tile=128 each=2",
                           "gpu tile=32 each=8", /* a multiple is needed: 16 work-items for 32 rows */
                           "gpu step=64"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (gs_cl_tiles_parse(wrong[i], &t)) fail_msg("'%s' was accepted", wrong[i]);
        assert_memory_equal(&t, &before, sizeof t);
    }
}

TEST(the_environment_sets_them) {
    const char *given = getenv("GRADSUM_CL_TILES");
    gs_test_need_opencl();
    if (given && *given) skip_because("GRADSUM_CL_TILES=%s chooses the tiles", given);
    gs_device *d;
    setenv("GRADSUM_CL_TILES", "cpu8 rows=2", 1);
    assert_ok(gs_device_open("cl", 0, &d));
    const gs_cl_tiles t = gs_cl_of(d)->tiles;
    gs_device_close(d);
    assert_true(!t.gpu && t.vector == 8 && t.rows == 2);
    setenv("GRADSUM_CL_TILES", "cpu rows=200", 1);
    assert_fails(GS_E_USAGE, "GRADSUM_CL_TILES is 'cpu rows=200'", gs_device_open("cl", 0, &d));
    unsetenv("GRADSUM_CL_TILES");
}
