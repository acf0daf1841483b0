/* gradsum profile: operators that measure the device's limits, what follows from them, and the table. No test here
 * depends on actual times. */
#include "predict/profile.h"
#include "tests/support/training.h"

#include <math.h>
#include "tests/support/on_devices.h"

/* ---- the measuring operators ---- */

static void fill_random(float *x, size_t count, unsigned seed) {
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / (float)(1 << 23) - 1;
    }
}

enum { MOST = 5000 };

/* Counts around the block size of every build (16 to 192 floats), with several threads and an unaligned address. */
static const size_t counts[] = {0, 1, 15, 16, 31, 33, 80, 129, 191, 192, 193, 1000, 4097};

TEST(fma_loop_computes) {
    static float x[MOST], y[MOST];
    fill_random(x, MOST, 1);
    FOR_EACH_DEVICE (d)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (size_t rounds = 0; rounds <= 6; rounds += 3) {
                gs_mem m = gs_test_new_mem(d, x, MOST);
                assert_ok(d->ops->fma_loop(d, gs_at(m, 3), 0.75f, -0.5f, counts[c], rounds));
                assert_ok(d->ops->read(d, y, m, sizeof y));
                for (size_t i = 0; i < MOST; i++) {
                    double want = (double)x[i];
                    bool inside = i >= 3 && i < 3 + counts[c];
                    for (size_t r = 0; inside && r < rounds; r++) want = 0.75 * want - 0.5;
                    assert_near(y[i], want, inside ? 1e-6 : 0, 0);
                }
            }
}

TEST(triad_computes) {
    static float a[MOST], b[MOST], y[MOST];
    fill_random(a, MOST, 2);
    fill_random(b, MOST, 3);
    FOR_EACH_DEVICE (d)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            gs_mem ma = gs_test_new_mem(d, a, MOST), mb = gs_test_new_mem(d, b, MOST),
                   my = gs_test_new_mem(d, a, MOST);
            assert_ok(d->ops->triad(d, gs_at(my, 1), gs_at(ma, 2), gs_at(mb, 3), 0.5f, counts[c]));
            assert_ok(d->ops->read(d, y, my, sizeof y));
            for (size_t i = 0; i < MOST; i++) {
                bool inside = i >= 1 && i < 1 + counts[c];
                double want = inside ? (double)a[i + 1] + 0.5 * (double)b[i + 2] : (double)a[i];
                assert_near(y[i], want, inside ? 1e-6 : 0, 0);
            }
        }
}

/* ---- the roofline ---- */

static const gs_roofline ROOF = {
    .flops = 1e12, .bytes = {1e5, 1e6, 1e7, 1e8}, .rate = {400e9, 200e9, 100e9, 20e9}};

TEST(a_roofline_has_two_sides) {
    assert_near(gs_roofline_rate(&ROOF, 10), 400e9, 0, 1e-12); /* constant beyond both ends */
    assert_near(gs_roofline_rate(&ROOF, 1e5), 400e9, 0, 1e-12);
    assert_near(gs_roofline_rate(&ROOF, 1e6), 200e9, 0, 1e-12);
    assert_near(gs_roofline_rate(&ROOF, sqrt(1e6 * 1e7)), 150e9, 0, 1e-12);
    assert_near(gs_roofline_rate(&ROOF, 1e12), 20e9, 0, 1e-12);
    assert_near(gs_roofline_seconds(&ROOF, 1e12, 1e6), 1, 0, 1e-12);       /* bound by computation */
    assert_near(gs_roofline_seconds(&ROOF, 1e3, 1e9), 1.0 / 20, 0, 1e-12); /* bound by memory */
    assert_near(gs_roofline_seconds(&ROOF, 0, 0), 0, 0, 0);
}

TEST(a_measured_roofline_is_in_order) {
    gs_test_need_whole(); /* 96 MB */
    FOR_EACH_DEVICE (d) {
        gs_roofline r;
        assert_ok(gs_roofline_measure(d, 0.001, &r));
        assert_true(r.flops > 0 && isfinite(r.flops));
        for (int i = 0; i < GS_ROOFLINE_SIZES; i++) {
            assert_true(r.rate[i] > 0 && isfinite(r.rate[i]));
            if (i > 0) assert_true(r.bytes[i] > r.bytes[i - 1] && r.rate[i] <= r.rate[i - 1]);
        }
    }
}

/* ---- what follows from two rates ---- */

TEST(the_verdict_names_the_slower_one) {
    char text[400];
    gs_profile p = {.loader = 3e6, .step = 1e5, .sample_bytes = 785};
    gs_profile_verdict(&p, text, sizeof text);
    assert_has(text, "The training step bounds this run: the loader alone is 30 times as fast.",
               "uses 78.5 MB/s");
    p.loader = 2e4;
    gs_profile_verdict(&p, text, sizeof text);
    assert_has(text, "The loader bounds this run: the training step alone is 5 times as fast",
               "wait at least 80 % of the time", "is supplied with 15.7 MB/s");
}

/* ---- the table ---- */

static const gs_profile_row *row_of(const gs_profile *p, const char *name) {
    for (int i = 0; i < p->row_count; i++)
        if (strcmp(p->rows[i].name, name) == 0) return &p->rows[i];
    fail_msg("there is no row '%s'", name);
    return NULL;
}

static gs_profile profile_of(const char *model, const char *device, size_t batch) {
    gs_settings s = gs_settings_default();
    gs_profile p;
    s = gs_test_with(s, "--model '%s' --devices %s --threads 1", model, device);
    s.batch = batch;
    assert_ok(gs_profile_run(&s, 0.001, &p));
    return p;
}

/* A step's FLOPs and bytes, computed by hand; 300 samples form two micro-batches, so weights count twice. */
TEST(rows_count_operations_and_bytes) {
    enum { N = 300, PIECES = 2, IN = 784, H = 16, OUT = 10 };
    gs_profile p = profile_of("flatten, linear 16, relu, linear 10", "cpu", N);
    assert_int_equal(p.row_count, 6); /* data, 1, 2, 3, loss, update */
    double w1 = IN * H, b1 = H, w3 = H * OUT, b3 = OUT;
    const gs_profile_cell *c = row_of(&p, "1")->cell;
    double forward = N * (2.0 * IN * H + H) + N * H; /* includes the relu after it, which cpu fuses */
    assert_near(c[0].flops, forward, 0, 1e-9);
    assert_near(c[0].bytes, 4 * (N * (double)(IN + H) + PIECES * (w1 + b1)), 0, 1e-9);
    assert_near(c[1].flops, forward, 0, 1e-9); /* the first layer: dw and db, but no dx */
    assert_near(c[1].bytes, 4 * (N * (double)(IN + 2 * H) + PIECES * 2 * (w1 + b1)), 0, 1e-9); /* and y */
    c = row_of(&p, "2")->cell;
    for (int k = 0; k < GS_DIRECTIONS; k++)
        assert_true(c[k].bytes == 0 && c[k].flops == 0 && c[k].seconds == 0);
    c = row_of(&p, "3")->cell;
    forward = N * (2.0 * H * OUT + OUT);
    assert_near(c[0].flops, forward, 0, 1e-9);
    assert_near(c[1].flops, 2 * forward, 0, 1e-9);
    assert_near(c[1].bytes, 4 * (N * (double)(OUT + 2 * H) + PIECES * (2 * (w3 + b3) + w3)), 0, 1e-9);
    assert_near(row_of(&p, "update")->cell[1].bytes, 20 * (w1 + b1 + w3 + b3), 0, 1e-9);
    assert_near(row_of(&p, "data")->cell[0].bytes, 7.0 * N * IN, 0, 1e-9);
    gs_profile_cell all = gs_profile_total(&p);
    double flops = 0, seconds = 0;
    for (int i = 0; i < p.row_count; i++)
        for (int k = 0; k < GS_DIRECTIONS; k++) {
            flops += p.rows[i].cell[k].flops;
            seconds += p.rows[i].cell[k].seconds;
        }
    assert_near(all.flops, flops, 0, 1e-9);
    assert_near(all.seconds, seconds, 0, 1e-9);
    assert_true(p.loader > 0 && p.step > 0 && p.together > 0 && p.waited >= 0 && p.waited <= 1);
    gs_profile_free(&p);
}

/* Where a device fuses convolution, relu and pooling, they count as one operator, which moves fewer bytes; otherwise
 * each counts separately. */
TEST(a_fused_pooling_counts_once) {
    enum { N = 20, IN = 784, FULL = 3 * 784, OUT = 3 * 196, W = 27, B = 3 };
    const double conv = FULL * (2.0 * 9 + 1), pool = OUT * 4;
    FOR_EACH_DEVICE (d) {
        gs_profile p = profile_of("conv 3 3x3 pad 1, relu, max_pool 2, flatten, linear 10", d->name, N);
        const gs_profile_cell *c = row_of(&p, "0")->cell, *relu = row_of(&p, "1")->cell,
                              *last = row_of(&p, "2")->cell;
        for (int i = 0; i < GS_DIRECTIONS; i++)
            assert_near(c[i].flops + relu[i].flops + last[i].flops, N * (conv + FULL + pool), 0, 1e-9);
        if (relu[0].flops == 0 && last[0].flops == 0) {
            const gs_pool2d_sizes halves = {3, 28, 28, 14, 14, 2, 2, 2, 2, 0, 0};
            assert_true(d->ops->fuses(d, &(gs_epilogue){.relu = true, .pool = &halves}));
            assert_near(c[0].bytes, 4.0 * (N * (IN + 2 * OUT) + W + B), 0, 1e-9);
            assert_near(c[1].bytes, 4.0 * (N * (IN + 3 * OUT) + 2 * (W + B)), 0, 1e-9);
            assert_true(last[0].bytes == 0 && last[1].bytes == 0 && last[0].seconds == 0);
        } else {
            assert_near(last[0].bytes, 4.0 * N * (FULL + 2 * OUT), 0, 1e-9);
            assert_near(last[1].bytes, 4.0 * N * (FULL + 2 * OUT), 0, 1e-9);
        }
        gs_profile_free(&p);
    }
}

/* With nested containers, on both devices, each layer has a row, and no time is counted twice. */
TEST(every_layer_has_a_row) {
    FOR_EACH_DEVICE (d) {
        gs_profile p = profile_of("conv 4 3x3 stride 2 pad 1, residual (conv 4 3x3 pad 1, relu), max_pool 2, "
                                  "dropout 0.5, flatten, linear 10",
                                  d->name, 16);
        static const char *const names[] = {"data", "0", "1", "1.body.0", "1.body.1",
                                            "2",    "3", "5", "loss",     "update"};
        assert_int_equal(p.row_count, sizeof names / sizeof *names);
        for (int i = 0; i < p.row_count; i++) {
            assert_string_equal(p.rows[i].name, names[i]);
            for (int j = 0; j < GS_DIRECTIONS; j++) {
                bool none = ((i == 0 || i == p.row_count - 2) && j == GS_BACKWARD) ||
                            (i == p.row_count - 1 && j == GS_FORWARD);
                /* a relu that is fused into its convolution */
                if (strcmp(names[i], "1.body.1") == 0) none = d->ops->fuses(d, &(gs_epilogue){.relu = true});
                assert_true(none || (p.rows[i].cell[j].bytes > 0 && p.rows[i].cell[j].least > 0));
                assert_true(p.rows[i].cell[j].seconds > -1e-3); /* a difference of times may be negative */
            }
        }
        gs_profile_free(&p);
    }
}

TEST(the_program_profiles) {
    char *output = gs_test_output(0, "profile --seconds 0.05 --model lenet --threads 1 --batch 32");
    assert_has(output, "loader alone", "bounds this run", "conv 16 5x5");
    gs_test_fits(output, 80);
    output = gs_test_output(0, "profile --model softmax --throttle 3 --json 2>/dev/null");
    cJSON *o = gs_test_parse(output);
    /* one micro-batch per 33 ms and no faster, on any machine */
    assert_true(cJSON_GetObjectItem(o, "loader_samples_per_s")->valuedouble <= 3e6 / 785);
    assert_string_equal(cJSON_GetObjectItem(o, "bound")->valuestring, "loader");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(o, "layers")), 4);
    assert_prints(0, "products bf16",
                  "profile --seconds 0.05 --model softmax --batch 16 --threads 1 --precision bf16");
    assert_prints(0, "\"precision\":\"f16\"",
                  "profile --seconds 0.05 --model softmax --batch 16 --threads 1 --precision f16 --json");
}

/* Every layer has a time for plain loops; a layer that is fused into another one is counted there. */
TEST(plain_loops_are_beside_the_layers) {
    gs_settings s = gs_settings_default();
    gs_profile p;
    s = gs_test_with(s, "--model 'conv 3 3x3 pad 1, relu, max_pool 2, flatten, residual (linear 588, tanh), "
                        "linear 10' --batch 20 --threads 1");
    assert_ok(gs_profile_run(&s, 0.001, &p));
    assert_ok(gs_profile_plain(&s, 0.001, &p));
    for (int i = 0; i < p.row_count; i++)
        for (int k = 0; k < GS_DIRECTIONS; k++) {
            const gs_profile_row *r = &p.rows[i];
            if (r->cell[k].bytes > 0)
                assert_true(isfinite(r->plain[k]) && r->plain[k] > -1e-3); /* differences of times */
            else
                assert_true(r->plain[k] == 0);
        }
    const char *const learn[] = {"0", "4.body.0", "5"};
    for (size_t i = 0; i < sizeof learn / sizeof *learn; i++)
        for (int k = 0; k < GS_DIRECTIONS; k++) assert_true(row_of(&p, learn[i])->plain[k] > 0);
    gs_profile_free(&p);
    gs_device *cpu = gs_test_device("cpu", 1); /* new devices use the library's operators again */
    assert_true(cpu->ops->fuses(cpu, &(gs_epilogue){.relu = true}));
}

TEST(the_program_profiles_plain_loops) {
    char *output = gs_test_output(0, "profile --seconds 0.05 --model lenet --threads 1 --batch 16 --plain");
    char *table = strstr(output, "plain ms");
    assert_non_null(table);
    assert_has(table, "conv 16 5x5", "cpu/plain");
    gs_test_fits(output, 80);
    output =
        gs_test_output(0, "profile --seconds 0.05 --model softmax --batch 16 --plain --json 2>/dev/null");
    cJSON *o = gs_test_parse(output);
    cJSON *linear = cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(o, "layers"), 1), "forward");
    assert_true(cJSON_GetObjectItem(linear, "plain_seconds")->valuedouble > 0);
    assert_prints(0, "--plain", "profile --help");
}

TEST(wrong_use_of_profile_is_explained) {
    assert_prints(0, "example:", "profile --help");
    assert_prints(2,
                  "profile measures one device at a time, and 'cpu,cpu,cpu' names 3; wanted one of "
                  "them, as --device cpu",
                  "profile --devices cpu,cpu,cpu");
    assert_prints(2, "'0' is not a number from 0.01 to 60", "profile --seconds 0");
    assert_prints(2, "there are: cpu", "profile --device gpu");
    assert_prints(2, "larger than the training set, which has 6000", "profile --batch 6001");
    assert_prints(2, "profile learns nothing", "profile --load w.safetensors");
    assert_prints(2, "unknown option --epochs", "profile --epochs 3");
    assert_prints(2, "'zebra' is not an option", "profile zebra");
    assert_prints(2, "rellu", "profile --model 'flatten, rellu'");
    assert_prints(1, "fashion-mnist-small", "profile --data no-such-data");
}
