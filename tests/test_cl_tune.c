/* The sizes of tiles: their text, what is kept of them, and the search. */
#include "cl/cl.h"
#include "io/cache.h"
#include "tests/devices.h"
#include "tests/program.h"
#include "tests/test.h"
#include "tune.h"

#include <math.h>

TEST(tiles_have_a_text) {
    char text[GS_CL_TILES_TEXT];
    gs_cl_tiles t = gs_cl_tiles_default(false, 16);
    assert_true(gs_cl_tiles_parse("cpu vector=8 rows=5 dot_rows=2 unroll=4 pack=0", &t));
    assert_int_equal(t.vector, 8);
    assert_int_equal(t.pack, 0);
    gs_cl_tiles_print(&t, text);
    assert_string_equal(text, "cpu vector=8 rows=5 dot_rows=2 unroll=4 pack=0");
    assert_true(gs_cl_tiles_parse("cpu rows=7", &t)); /* the others stay */
    assert_true(t.rows == 7 && t.vector == 8 && t.unroll == 4);
    assert_true(gs_cl_tiles_parse("gpu tile=128 each=8 step=8", &t));
    gs_cl_tiles_print(&t, text);
    assert_string_equal(text, "gpu tile=128 each=8 step=8");
    assert_int_equal(gs_cl_group(&t), 256);
    assert_true(gs_cl_tiles_parse("cpu4", &t));
    assert_true(!t.gpu && t.vector == 4);

    char before[GS_CL_TILES_TEXT];
    gs_cl_tiles_print(&t, before);
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
                           "gpu tile=32 each=8", /* 16 work-items for 32 rows */
                           "gpu step=64"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (gs_cl_tiles_parse(wrong[i], &t)) fail_msg("'%s' is taken", wrong[i]);
        gs_cl_tiles_print(&t, text);
        assert_string_equal(text, before);
    }
}

/* The tiles of a device that is opened now. */
static void opened(char text[GS_CL_TILES_TEXT]) {
    gs_device *d;
    assert_ok(gs_device_open("cl", 0, &d));
    gs_cl_tiles_print(&((gs_cl *)d->state)->tiles, text);
    gs_device_close(d);
}

TEST(tuned_tiles_are_used) {
    const char *given = getenv("GRADSUM_CL_TILES");
    gs_test_need_opencl();
    if (given && *given) skip_because("GRADSUM_CL_TILES=%s chooses the tiles", given);
    char text[GS_CL_TILES_TEXT], usual[GS_CL_TILES_TEXT];
    setenv("GRADSUM_CACHE", gs_test_folder(), 1);
    opened(usual);
    gs_device *d;
    assert_ok(gs_device_open("cl", 0, &d));
    gs_cl *cl = d->state;
    const char *want = "cpu vector=4 rows=3 dot_rows=2 unroll=2 pack=77";
    assert_true(gs_cl_tiles_parse(want, &cl->tiles));
    assert_true(gs_cl_tuned_write(cl));
    char digest[65];
    gs_sha256(cl->identity, strlen(cl->identity), digest);
    gs_device_close(d);
    opened(text);
    assert_string_equal(text, want);
    gs_test_shell(NULL, "rm \"$GRADSUM_CACHE\"/*.tiles"); /* as tune --help says */
    opened(text);
    assert_string_equal(text, usual);

    setenv("GRADSUM_CL_TILES", "cpu8 rows=2", 1); /* it overrides */
    opened(text);
    assert_has(text, "cpu vector=8 rows=2 ");
    setenv("GRADSUM_CL_TILES", "cpu rows=200", 1);
    assert_fails(GS_E_USAGE, "GRADSUM_CL_TILES is 'cpu rows=200'", gs_device_open("cl", 0, &d));
    unsetenv("GRADSUM_CL_TILES");

    const char *name = gs_test_format("%s.tiles", digest); /* whole, but senseless */
    assert_true(gs_cache_write(name, "cpu vector=5", 12));
    gs_test_catch_stderr();
    const gs_status status = gs_device_open("cl", 0, &d);
    char *said = gs_test_caught();
    assert_ok(status);
    gs_cl_tiles_print(&((gs_cl *)d->state)->tiles, text);
    gs_device_close(d);
    assert_has(said, ".tiles is damaged and ignored");
    assert_string_equal(text, usual);
    unsetenv("GRADSUM_CACHE");
}

static bool count_rows(void *context, const gs_tune_row *row) {
    assert_true(row->correct);
    return ++*(int *)context < 1000;
}

/* Ctrl-C */
static bool no_more(void *context, const gs_tune_row *row) {
    (void)row;
    return ++*(int *)context < 2;
}

TEST(the_search_can_be_stopped) {
    gs_test_need_opencl();
    gs_tune_result r;
    int rows = 0;
    assert_fails(GS_E_INTERRUPTED, "stopped by a signal after 2 of", gs_tune("cl", 60, no_more, &rows, &r));
    assert_int_equal(rows, 2);
    assert_false(r.kept);
}

TEST(the_search_keeps_the_best) {
    gs_test_need_opencl();
    gs_tune_result r;
    char text[GS_CL_TILES_TEXT];
    assert_fails(GS_E_USAGE, "not an OpenCL device", gs_tune("cpu", 0, NULL, NULL, &r));
    assert_fails(GS_E_DEVICE, "platform 99", gs_tune("cl:99.0", 0, NULL, NULL, &r));
    setenv("GRADSUM_CACHE", gs_test_folder(), 1);
    char *output = gs_test_output(0, "tune --seconds 0"); /* no time: the first candidate alone */
    const char *given = getenv("GRADSUM_CL_TILES");
    opened(text);
    if ((!given || !*given) && !strstr(output, text)) fail_msg("kept: %s; %s", text, output);
    for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n"))
        if (strlen(line) > 80) fail_msg("%zu columns: %s", strlen(line), line);
    unsetenv("GRADSUM_CACHE");
}

/* Other tiles are in use: the fastest candidate is kept where it is faster than these, and only there. */
TEST(slower_tiles_are_not_kept) {
    gs_test_need_opencl();
    const char *given = getenv("GRADSUM_CL_TILES");
    if (given && *given) skip_because("GRADSUM_CL_TILES=%s chooses the tiles", given);
    gs_tune_result r;
    setenv("GRADSUM_CACHE", gs_test_folder(), 1);
    gs_device *d;
    assert_ok(gs_device_open("cl", 0, &d));
    const gs_cl_tiles usual = gs_cl_of(d)->tiles;
    gs_device_close(d);
    char other[GS_CL_TILES_TEXT], text[GS_CL_TILES_TEXT];
    gs_cl_tiles tiles = usual;
    if (usual.gpu)
        tiles.step = usual.step == 16 ? 8 : 16;
    else
        tiles.rows = usual.rows - 1;
    gs_cl_tiles_print(&tiles, other);
    setenv("GRADSUM_CL_TILES", other, 1);
    int rows = 0;
    assert_ok(gs_tune("cl", 0, count_rows, &rows, &r));
    assert_string_equal(r.before.tiles, other);
    assert_true(rows == 1 && r.candidates == 1 && r.correct == 1);
    assert_true(r.best.score > 0 && r.peak_gflops > 0 && r.peak_gb_s > 0);
    for (int i = 0; i < 2; i++) assert_true(r.sgemm_gflops[i][0] > 0 && r.sgemm_gflops[i][1] > 0);
    double gain = pow(r.best.score / r.before.score, GS_TUNE_CASES);
    for (int i = 0; i < 2; i++) gain *= r.sgemm_gflops[i][1] / r.sgemm_gflops[i][0];
    assert_int_equal(r.faster, gain > 1);
    assert_int_equal(r.kept, r.faster);
    unsetenv("GRADSUM_CL_TILES");
    opened(text); /* the candidate was the default: it is in use if kept, and if nothing was kept */
    assert_string_equal(text, r.best.tiles);
    unsetenv("GRADSUM_CACHE");
}

TEST(the_command) {
    gs_test_program_prints(0, "--seconds", "tune --help");
    gs_test_program_prints(0, "rm ~/.cache/gradsum/*.tiles", "tune --help");
    gs_test_program_prints(2, "did you mean --seconds?", "tune --second 3");
    gs_test_program_prints(2, "not an OpenCL device", "tune --device cpu");
    gs_test_program_prints(2, "'x' is not", "tune --seconds x");
}
