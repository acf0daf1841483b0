/* Values sent in 16 bits: the conversions, bit for bit; every scheme with 16-bit values; training with them. */
#include "core/philox.h"
#include "tests/support/training.h"
#include "tests/support/ranks.h"

#include <math.h>

static const gs_wire formats[] = {GS_WIRE_F16, GS_WIRE_BF16};

/* ---- the conversions, against the definition of the formats ---- */

static int fraction_bits(gs_wire wire) {
    return wire == GS_WIRE_F16 ? 10 : 7;
}

static uint32_t infinity_of(gs_wire wire) {
    return wire == GS_WIRE_F16 ? 0x7c00 : 0x7f80;
}

/* The value of the 15 bits without the sign, by the textbook; infinity's bits count as the number after the largest. */
static double meaning(gs_wire wire, uint32_t size) {
    int p = fraction_bits(wire), bias = wire == GS_WIRE_F16 ? 15 : 127;
    int exponent = (int)(size >> p), fraction = (int)(size & ((1u << p) - 1));
    if (exponent == 0) return ldexp(fraction, 1 - bias - p);
    return ldexp((1 << p) + fraction, exponent - bias - p);
}

/* Searches all representable numbers for the nearest one; on a tie the even one. */
static uint16_t nearest(gs_wire wire, float x) {
    uint32_t low = 0, high = infinity_of(wire), sign = signbit(x) ? 0x8000 : 0;
    double size = fabs((double)x);
    if (size >= meaning(wire, high)) return (uint16_t)(sign | high);
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        *(meaning(wire, middle) <= size ? &low : &high) = middle;
    }
    double below = size - meaning(wire, low), above = meaning(wire, high) - size;
    bool up = above < below || (above == below && high % 2 == 0);
    return (uint16_t)(sign | (up ? high : low));
}

/* Converts a single value, and checks that the vector code gives the same bits in an array. */
static uint16_t narrow(gs_wire wire, float x, float *kept) {
    uint16_t alone, among[16];
    float data[16];
    *kept = x;
    gs_wire_narrow(wire, &alone, kept, 1);
    for (int i = 0; i < 16; i++) data[i] = x;
    gs_wire_narrow(wire, among, data, 16);
    for (int i = 0; i < 16; i++)
        if (among[i] != alone || bits_of(data[i]) != bits_of(*kept))
            fail_msg("%s: %a alone gives %04x, in an array %04x", gs_wire_name(wire), (double)x, alone,
                     among[i]);
    return alone;
}

static void assert_nearest(gs_wire wire, float x) {
    float kept;
    uint16_t got = narrow(wire, x, &kept), wanted = nearest(wire, x);
    if (got != wanted) fail_msg("%s of %a: %04x, wanted %04x", gs_wire_name(wire), (double)x, got, wanted);
    float widened;
    gs_wire_widen(wire, &widened, &got, 1);
    if (bits_of(kept) != bits_of(widened)) fail_msg("the sender keeps %a, not %a", kept, widened);
}

TEST(every_pattern_means_what_it_should) {
    static uint16_t all[65536];
    static float wide[65536], sum[65536];
    for (int i = 0; i < 65536; i++) all[i] = (uint16_t)i;
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        gs_wire wire = formats[f];
        gs_wire_widen(wire, wide, all, 65536);
        for (int i = 0; i < 65536; i++) sum[i] = 0.75f;
        gs_wire_widen_add(wire, sum, all, 65536);
        for (uint32_t i = 0; i < 65536; i++) {
            uint32_t size = i & 0x7fff;
            float x = wide[i], kept, one;
            gs_wire_widen(wire, &one, &all[i], 1);
            if (size > infinity_of(wire)) { /* the kind of NaN may change, but it must stay a NaN */
                float add = 0.75f;
                gs_wire_widen_add(wire, &add, &all[i], 1);
                if (!isnan(x) || !isnan(one) || !isnan(sum[i]) || !isnan(add)) fail_msg("not a NaN: %04x", i);
                uint16_t back = narrow(wire, x, &kept);
                if (!isnan(kept) || (back & 0x7fff) <= infinity_of(wire)) fail_msg("NaN %04x is lost", i);
                /* a value that was sent can be sent on unchanged */
                assert_int_equal(narrow(wire, kept, &one), back);
                assert_int_equal(bits_of(one), bits_of(kept));
                continue;
            }
            double wanted = size == infinity_of(wire) ? INFINITY : meaning(wire, size);
            if ((double)fabsf(x) != wanted || !!signbit(x) != i >> 15 || bits_of(one) != bits_of(x))
                fail_msg("%s %04x is %a, wanted %a", gs_wire_name(wire), i, (double)x, wanted);
            if (bits_of(sum[i]) != bits_of(0.75f + x)) fail_msg("0.75 + %04x is %a", i, (double)sum[i]);
            assert_int_equal(narrow(wire, x, &kept), i);
            assert_int_equal(bits_of(kept), bits_of(x));
        }
    }
}

/* Each number, the midpoint to the next number, and the neighbours of both. */
TEST(rounding_is_to_nearest_even) {
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        gs_wire wire = formats[f];
        for (uint32_t size = 0; size < infinity_of(wire); size++) {
            double low = meaning(wire, size), high = meaning(wire, size + 1);
            float middle = (float)((low + high) / 2); /* exact, because it needs only one more bit */
            for (int step = -1; step <= 1; step++) {
                assert_nearest(wire, float_of(bits_of(middle) + (uint32_t)step));
                assert_nearest(wire, -float_of(bits_of(middle) + (uint32_t)step));
                if (size > 0) assert_nearest(wire, float_of(bits_of((float)low) + (uint32_t)step));
            }
        }
        for (uint32_t i = 0; i < 300000; i++) {
            uint32_t word[4];
            gs_philox(7, 0, i, word);
            for (int k = 0; k < 4; k++)
                if (!isnan(float_of(word[k])) && !isinf(float_of(word[k])))
                    assert_nearest(wire, float_of(word[k]));
        }
    }
    float kept;
    assert_int_equal(narrow(GS_WIRE_F16, 65519.996f, &kept), 0x7bff); /* 65504, the largest f16 */
    assert_int_equal(narrow(GS_WIRE_F16, 65520, &kept), 0x7c00);
    assert_true(isinf(kept));
    assert_int_equal(narrow(GS_WIRE_F16, -1e30f, &kept), 0xfc00);
    assert_int_equal(narrow(GS_WIRE_F16, INFINITY, &kept), 0x7c00);
    assert_int_equal(narrow(GS_WIRE_BF16, -INFINITY, &kept), 0xff80);
    assert_int_equal(narrow(GS_WIRE_BF16, 3.4028235e38f, &kept), 0x7f80);
    assert_int_equal(narrow(GS_WIRE_F16, -0.0f, &kept), 0x8000);
    assert_true(isnan(float_of(0x7f800001)) && narrow(GS_WIRE_BF16, float_of(0x7f800001), &kept) == 0x7fc0);
    assert_int_equal(narrow(GS_WIRE_F16, float_of(0xff800001), &kept), 0xfe00);
}

/* ---- every scheme ---- */

enum { MOST = 1004, TAIL = 4 };

static float number(int rank, size_t i) {
    return sinf((float)(i % 1009) + 0.37f * (float)rank) * (float)(1 + i % 13);
}

/* Each rank rounds its values, and the sum may be rounded after each addition. Each rounding changes it by at most half
 * a unit in the last place of `sizes`, the sum of all magnitudes. */
static double tolerance(gs_wire wire, int ranks, double sizes) {
    return ldexp(sizes, -fraction_bits(wire) - 1) * (ranks + 1);
}

typedef struct seen {
    gs_wire wire;
    size_t narrow; /* elements from here on belong to the tail */
    bool rounded;  /* each value must be representable in 16 bits */
} seen;

static void see_message(void *context, const gs_sync_message *m) {
    seen *s = context;
    for (size_t i = 0; i < m->count && m->first + i < s->narrow; i++) {
        uint16_t h;
        float kept = m->data[i];
        gs_wire_narrow(s->wire, &h, &kept, 1);
        s->rounded = s->rounded && bits_of(kept) == bits_of(m->data[i]);
    }
}

static void see_round(void *context, int rank, int round, const float *data, size_t count) {
    (void)context, (void)rank, (void)round, (void)data, (void)count;
}

static gs_status check_sum(const gs_sync *s, const float *x, size_t count, size_t tail) {
    int ranks = s->comm->size;
    for (size_t i = 0; i < count; i++) {
        double sum = 0, sizes = 0;
        for (int r = 0; r < ranks; r++) {
            sum += (double)number(r, i);
            sizes += fabs((double)number(r, i));
        }
        if (i >= count - tail) { /* 257, 258, ...: bf16 would round them to 256 and 258 */
            float wanted = 0;
            for (int r = 0; r < ranks; r++) wanted += (float)(257 + i % 7 + (size_t)r);
            RANK_CHECK(x[i] == wanted, "%s as %s: %g in the tail, wanted %g", s->scheme->name,
                       gs_wire_name(s->wire), x[i], wanted);
            continue;
        }
        RANK_CHECK(fabs((double)x[i] - sum) <= tolerance(s->wire, ranks, sizes),
                   "%s as %s: sum %zu of %zu is %.9g, wanted %.9g", s->scheme->name, gs_wire_name(s->wire), i,
                   count, x[i], sum);
    }
    return GS_OK;
}

static gs_status check_same(gs_comm *c, const char *name, const float *x, float *first, size_t count) {
    memcpy(first, x, count * sizeof *x);
    GS_TRY(gs_comm_broadcast(c, first, count, GS_F32, 0));
    for (size_t i = 0; i < count; i++)
        RANK_CHECK(bits_of(first[i]) == bits_of(x[i]), "%s: sum %zu of %zu is %a on rank %d, %a on rank 0",
                   name, i, count, x[i], c->rank, first[i]);
    return GS_OK;
}

static gs_status check_count(gs_sync *s, float *x, float *first, size_t count, size_t tail) {
    gs_comm *c = s->comm;
    const char *name = s->scheme->name;
    seen seen_by_me = {s->wire, count - tail, true};
    const gs_sync_observer observer = {&seen_by_me, see_message, see_round, NULL};
    for (size_t i = 0; i < count; i++)
        x[i] = i < count - tail ? number(c->rank, i) : (float)(257 + i % 7 + (size_t)c->rank);
    x[count] = 4711; /* a guard value after the end */
    s->tail = tail;
    s->observer = &observer;
    gs_status status = gs_sync_run(s, x, count);
    s->observer = NULL;
    GS_TRY(status);
    RANK_CHECK(x[count] == 4711, "%s writes past the end", name);
    RANK_CHECK(seen_by_me.rounded, "%s: an observer saw a value not in %s", name, gs_wire_name(s->wire));
    GS_TRY(check_sum(s, x, count, tail));
    GS_TRY(check_same(c, name, x, first, count));
    return GS_OK;
}

static gs_status check_scheme(gs_sync *s, float *x, float *first) {
    static const size_t counts[] = {1, 2, 7, 250, 1003};
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        GS_TRY(check_count(s, x, first, counts[n], 0));
        GS_TRY(check_count(s, x, first, counts[n], counts[n] < TAIL ? counts[n] : TAIL));
    }
    return GS_OK;
}

static gs_status schemes_sum(gs_comm *c, void *context) {
    const gs_test_layout *layout = context;
    float *x = gs_test_scratch((MOST + 1) * sizeof *x), *first = gs_test_scratch(MOST * sizeof *x);
    for (int i = 0; gs_sync_schemes()[i]; i++)
        for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
            gs_sync *s;
            /* `auto` measures for a while, then becomes one of the others */
            if (gs_sync_schemes()[i] == &gs_sync_auto && layout->processes > 0) continue;
            GS_TRY(gs_sync_create_wire(gs_sync_schemes()[i], c, (gs_sync_array){MOST, formats[f], TAIL}, &s));
            gs_status status = check_scheme(s, x, first);
            gs_sync_free(s);
            GS_TRY(status);
        }
    return GS_OK;
}

TEST(every_scheme_gives_all_ranks_the_same_bits) {
    static const gs_test_layout layouts[] = {
        {"2 threads", 0, {2}},         {"3 threads", 0, {3}},
        {"4 threads", 0, {4}},         {"5 threads", 0, {5}},
        {"3 processes", 3, {1, 1, 1}}, {"processes of 1, 3 and 2 threads", 3, {1, 3, 2}},
    };
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        gs_test_ranks_checked_ok(&layouts[i], schemes_sum, (void *)&layouts[i]);
}

/* A sum beyond the range of f16 becomes infinity on every rank; other values are not affected. */
static gs_status overflow(gs_comm *c, void *context) {
    (void)context;
    for (int i = 0; gs_sync_schemes()[i]; i++) {
        gs_sync *s;
        float x[3] = {60000, 1, 60000};
        GS_TRY(gs_sync_create_wire(gs_sync_schemes()[i], c, (gs_sync_array){3, GS_WIRE_F16, 1}, &s));
        gs_status status = gs_sync_run(s, x, 3);
        const char *name = s->scheme->name;
        bool exchange = s->scheme == &gs_sync_recursive_doubling; /* its last sum is not sent */
        gs_sync_free(s);
        GS_TRY(status);
        RANK_CHECK(isinf(x[0]) || (exchange && x[0] == 120000), "%s: 2 * 60000 = %g as f16", name, x[0]);
        RANK_CHECK(x[1] == 2 && x[2] == 120000, "%s: %g, %g", name, x[1], x[2]);
    }
    return GS_OK;
}

TEST(too_large_for_f16_is_infinity) {
    gs_test_ranks_ok(&(gs_test_layout){"2 threads", 0, {2}}, overflow, NULL);
}

/* ---- training ---- */

static const char MODEL[] =
    "conv 4 3x3 stride 2 pad 1, relu, max_pool 2, flatten, linear 16, tanh, linear 10";

static gs_settings settings_for(const char *devices, const char *sync, gs_wire wire) {
    gs_settings s = gs_test_options("--devices %s --model '%s'", devices, MODEL);
    s.sync = sync;
    s.wire = wire;
    s.batch = 333; /* step 19 has 6 samples, and step 20 starts epoch 2 */
    s = gs_test_with(s, "--steps 20 --threads 1");
    return s;
}

/* bf16 cannot represent 333: between 256 and 512 it has only the even numbers. */
static void counts_are_whole(void *context, int epoch, uint64_t done, uint64_t of, const gs_score *score) {
    (void)of;
    if (score->samples != (epoch == 1 && done == 19 ? 6 : 333) || score->correct != floor(score->correct))
        *(bool *)context = false;
}

/* The weights are close to those of f32, but not equal; after each step all workers hold the same weights. */
TEST(training_stays_near_f32) {
    /* seen: at most 1.7e-4 and 3.7e-4, of weights up to 1 */
    const double near[] = {[GS_WIRE_F16] = 5e-4, [GS_WIRE_BF16] = 1.2e-3};
    for (const gs_sync_scheme *const *scheme = gs_sync_schemes(); *scheme; scheme++) {
        gs_settings s = settings_for("cpu,cpu,cpu", (*scheme)->name, GS_WIRE_F32);
        gs_result exact = gs_test_train(&s);
        for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
            gs_result r;
            bool whole = true;
            s.wire = formats[f];
            s.verify = 1;
            assert_ok(gs_train(&s, &(gs_observer){.context = &whole, .step = counts_are_whole}, &r));
            assert_true(whole);
            double d = gs_test_difference(&exact, &r);
            if (!(d > 1e-6 && d <= near[s.wire]))
                fail_msg("%s as %s: weights differ by %g from those with f32, wanted at most %g", s.sync,
                         gs_wire_name(s.wire), d, near[s.wire]);
            gs_result_free(&r);
        }
    }
}

TEST(wrong_use_is_refused) {
    assert_prints(0, "sha256", "train --exact --wire f32 --model softmax --steps 1");
    assert_prints(2, "unknown option --wire", "eval --wire f16");
    assert_ranks_print(2, "rank 1 and rank 0 differ in --wire (f32 versus f16)",
                       "train --model softmax --steps 3 --threads 1", "--wire f16", "");
}

TEST(a_step_can_be_watched) {
    for (int i = 0; gs_sync_schemes()[i]; i++)
        for (int workers = 2; workers <= 8; workers += 3)
            assert_prints(0, "bf16", "step --no-pause --wire bf16 --workers %d --size 13 --sync %s", workers,
                          gs_sync_schemes()[i]->name);
    assert_prints(2, "wanted at most 8 workers", "step --wire bf16 --workers 9");
    assert_prints(2, "wanted at most 11 workers", "step --wire f16 --workers 12");
}
