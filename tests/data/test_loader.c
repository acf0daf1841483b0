/* The loader: which samples it delivers, whether all of them arrive, and how it limits its rate. */
#include "tests/support/training.h"

#include <math.h>
#include "data/order.h"

enum { COUNT = 103, PIXELS = 6, EPOCHS = 3, SEED = 7 };

static unsigned char images[COUNT * PIXELS], labels[COUNT];

/* Each byte encodes its sample and its offset. */
static const gs_dataset *small_set(void) {
    static gs_dataset set = {.count = COUNT, .shape = {1, 2, 3, 0}, .classes = 10};
    for (int i = 0; i < COUNT; i++) {
        labels[i] = (unsigned char)(i % 10);
        for (int k = 0; k < PIXELS; k++) images[i * PIXELS + k] = (unsigned char)(i + 37 * k);
    }
    set.images = images;
    set.labels = labels;
    return &set;
}

/* ---- schedules ---- */

typedef struct schedule_case {
    size_t batch;
    int parts, passes;
    size_t most;
    uint64_t steps;
} schedule_case;

/* Short last batches and passes, batches with empty parts, passes without samples, and one batch of all samples. */
static const schedule_case schedule_cases[] = {{10, 1, 1, 4, 0},      {10, 3, 1, 100, 0},  {10, 3, 2, 2, 0},
                                               {COUNT, 1, 1, 1, 0},   {COUNT, 8, 5, 3, 0}, {4, 8, 1, 128, 0},
                                               {COUNT, 1, 7, 128, 2}, {10, 2, 1, 2, 15},   {1, 1, 1, 1, 200}};
enum { SCHEDULE_CASES = sizeof schedule_cases / sizeof *schedule_cases };

static gs_schedule schedule_of(const schedule_case *c, int first_part, int mine) {
    return (gs_schedule){.count = COUNT,
                         .batch = c->batch,
                         .parts = c->parts,
                         .first_part = first_part,
                         .mine = mine,
                         .passes = c->passes,
                         .most = c->most,
                         .epochs = EPOCHS,
                         .steps = c->steps};
}

/* The expected micro-batches, in the order of a step, from nested loops. */
typedef struct expected {
    gs_schedule_position at;
    const gs_schedule *schedule;
} expected;

static void assert_same_micro_batch(gs_micro_batch got, gs_micro_batch want) {
    assert_int_equal(got.epoch, want.epoch);
    assert_int_equal(got.step, want.step);
    assert_int_equal(got.first, want.first);
    assert_int_equal(got.n, want.n);
    assert_int_equal(got.offset, want.offset);
    assert_int_equal(got.batch, want.batch);
    assert_int_equal(got.part, want.part);
    assert_int_equal(got.last, want.last);
}

static void wanted(expected *e, gs_micro_batch want) {
    gs_micro_batch micro_batch;
    if (!gs_schedule_next(e->schedule, &e->at, &micro_batch))
        fail_msg("no micro-batch at sample %zu", want.first);
    assert_same_micro_batch(micro_batch, want);
    assert_true(micro_batch.n <= gs_schedule_largest(e->schedule));
}

TEST(schedule_follows_the_step) {
    for (int i = 0; i < SCHEDULE_CASES; i++) {
        const schedule_case *c = &schedule_cases[i];
        for (int part = 0; part < c->parts; part++) {
            gs_schedule s = schedule_of(c, part, 1);
            expected e = {.schedule = &s};
            uint64_t step = 0;
            for (uint64_t epoch = 1; epoch <= EPOCHS; epoch++)
                for (size_t b = 0; b < COUNT && (!c->steps || step < c->steps); b += c->batch) {
                    size_t batch = COUNT - b < c->batch ? COUNT - b : c->batch;
                    gs_shard mine = gs_shard_of(batch, part, c->parts);
                    gs_micro_batch want = {.epoch = epoch, .batch = batch, .part = mine.count};
                    want.step = ++step;
                    if (mine.count == 0) { /* one empty micro-batch */
                        want.offset = mine.first;
                        want.first = b + mine.first;
                        want.last = true;
                        wanted(&e, want);
                    }
                    for (int p = 0; p < c->passes; p++) {
                        gs_shard pass = gs_shard_of(mine.count, p, c->passes);
                        for (size_t done = 0; done < pass.count; done += c->most) {
                            size_t left = pass.count - done;
                            want.n = left < c->most ? left : c->most;
                            want.offset = mine.first + pass.first + done;
                            want.first = b + want.offset;
                            want.last = want.offset + want.n == mine.first + mine.count;
                            wanted(&e, want);
                        }
                    }
                }
            gs_micro_batch none;
            assert_false(gs_schedule_next(&s, &e.at, &none));
            assert_false(gs_schedule_next(&s, &e.at, &none));
        }
    }
}

/* In each batch, a worker with four of eight virtual shards gets what four workers with one shard each would get. */
TEST(several_parts_come_in_their_order) {
    gs_schedule four = {.count = COUNT,
                        .batch = 20,
                        .parts = 8,
                        .first_part = 4,
                        .mine = 4,
                        .passes = 2,
                        .most = 3,
                        .epochs = 2},
                one[4];
    gs_schedule_position at = {0}, at_one[4] = {{0}};
    size_t samples = 0;
    gs_micro_batch micro_batch, wanted_micro_batch;
    for (int k = 0; k < 4; k++) {
        one[k] = four;
        one[k].first_part = 4 + k;
        one[k].mine = 1;
    }
    for (int batch = 0; batch < 12; batch++)
        for (int k = 0; k < 4; k++) {
            size_t in_batch = COUNT - (size_t)(batch % 6) * 20;
            gs_shard part = gs_shard_of(in_batch < 20 ? in_batch : 20, 4 + k, 8);
            size_t done = 0;
            do {
                assert_true(gs_schedule_next(&four, &at, &micro_batch));
                assert_true(gs_schedule_next(&one[k], &at_one[k], &wanted_micro_batch));
                assert_same_micro_batch(micro_batch, wanted_micro_batch);
                done += micro_batch.n;
            } while (!micro_batch.last);
            assert_int_equal(done, part.count);
            samples += done;
        }
    assert_false(gs_schedule_next(&four, &at, &micro_batch));
    /* 20 = 4 * 3 + 4 * 2: parts 4 to 7 get 8 of each full batch, but none of the last one's 3 samples */
    assert_int_equal(samples, 2 * 5 * 8);
}

/* Four neighbouring parts as the leaves of one: the same samples, in one micro-batch. The last batch has 3 samples. */
TEST(leaves_are_the_parts) {
    gs_schedule whole = {.count = COUNT,
                         .batch = 20,
                         .parts = 8,
                         .mine = 8,
                         .leaves = 4,
                         .passes = 1,
                         .most = 99,
                         .epochs = 1};
    gs_schedule_position at = {0};
    gs_micro_batch m;
    for (int i = 0; gs_schedule_next(&whole, &at, &m); i++) {
        const int first = i % 2 * 4;
        assert_int_equal(m.leaves.count, 4);
        assert_true(m.last);
        for (int k = 0; k < 4; k++) {
            const gs_shard leaf = gs_shard_of(m.batch, first + k, 8);
            assert_int_equal(m.offset + m.leaves.at[k], leaf.first);
            assert_int_equal(m.leaves.at[k + 1] - m.leaves.at[k], leaf.count);
        }
        assert_int_equal(m.leaves.at[4], m.n);
    }
    assert_int_equal(gs_schedule_largest(&whole), 12);
}

/* ---- the loader's samples ---- */

/* Compares all micro-batches of one part's schedule with the expected samples; returns their number. */
static int drain(const gs_schedule *s, double bytes_per_s, int most) {
    const gs_dataset *set = small_set();
    static uint32_t order[COUNT];
    gs_loader *loader;
    gs_schedule_position at = {0};
    gs_micro_batch micro_batch;
    uint64_t epoch = 0;
    int micro_batches = 0;
    assert_ok(gs_loader_create(set, s, NULL, SEED, bytes_per_s, &loader));
    for (; micro_batches < most && gs_schedule_next(s, &at, &micro_batch); micro_batches++) {
        const gs_loaded *got;
        assert_ok(gs_loader_next(loader, &got));
        if (micro_batch.epoch != epoch) gs_epoch_order(SEED, epoch = micro_batch.epoch, COUNT, order);
        assert_same_micro_batch(got->micro_batch, micro_batch);
        for (size_t i = 0; i < micro_batch.n; i++) {
            uint32_t sample = order[micro_batch.first + i];
            assert_int_equal(((const int32_t *)got->targets)[i], labels[sample]);
            assert_memory_equal((const unsigned char *)got->inputs + i * PIXELS, images + sample * PIXELS,
                                PIXELS);
        }
    }
    assert_true(gs_loader_waited(loader) >= 0);
    gs_loader_free(loader);
    return micro_batches;
}

TEST(every_sample_comes_whole) {
    for (int i = 0; i < SCHEDULE_CASES; i++)
        for (int part = 0; part < schedule_cases[i].parts; part++) {
            gs_schedule s = schedule_of(&schedule_cases[i], part, 1);
            drain(&s, 0, 1000000);
        }
}

/* A run may end at any time: after 0, 1, ... micro-batches, while the loader is sleeping or working. */
TEST(it_can_be_freed_at_any_moment) {
    gs_schedule s = schedule_of(&(schedule_case){3, 1, 1, 3, 0}, 0, 1);
    for (int micro_batches = 0; micro_batches < 80; micro_batches++)
        assert_int_equal(drain(&s, 0, micro_batches), micro_batches);
    gs_loader_free(NULL);
}

/* In batches with fewer samples than workers, a worker without samples gets one empty micro-batch per batch. */
TEST(a_worker_may_have_nothing) {
    gs_schedule s = schedule_of(&(schedule_case){4, 8, 1, 128, 0}, 7, 1);
    assert_int_equal(drain(&s, 0, 1000000), EPOCHS * ((COUNT + 3) / 4));
}

/* ---- the rate limit ---- */

TEST(a_pace_is_kept) {
    gs_throttle p = {.rate = 100};
    assert_near(gs_throttle_until(&p, 50, 200), 52, 1e-12, 0);
    assert_near(gs_throttle_until(&p, 50.5, 100), 53, 1e-12, 0); /* queued after the earlier request */
    assert_near(gs_throttle_until(&p, 53, 50), 53.5, 1e-12, 0);
    assert_near(gs_throttle_until(&p, 60, 10), 60.1, 1e-12, 0); /* idle since 53.5, which gives no credit */
    assert_near(gs_throttle_until(&p, 60, 10), 60.2, 1e-12, 0);
    gs_throttle none = {0};
    assert_near(gs_throttle_until(&none, 60, 1e18), 60, 0, 0);
}

/* In a busy period exactly rate times time is transferred. */
TEST(a_pace_neither_drifts_nor_bursts) {
    gs_throttle p = {.rate = 1e6};
    double now = 1000, moved = 0;
    for (int i = 0; i < 10000; i++) {
        double bytes = 1 + i % 997;
        moved += bytes;
        now = gs_throttle_until(&p, now, bytes);
        assert_near(now, 1000 + moved / 1e6, 1e-7, 0);
    }
}

/* It delivers the same samples, only later: 309 samples of 7 bytes take 11 ms at 200,000 bytes per second. */
TEST(a_throttled_loader_brings_the_same) {
    gs_schedule s = schedule_of(&schedule_cases[0], 0, 1);
    assert_int_equal(gs_sample_bytes(small_set()), PIXELS + 1);
    assert_int_equal(drain(&s, 2e5, 1000000), drain(&s, 0, 1000000));
}

/* At one byte per second the first micro-batch would take 28 s, but the run ends sooner. If the loader kept sleeping,
 * the alarm would end the test. */
TEST(a_throttled_loader_can_be_freed) {
    gs_schedule s = schedule_of(&schedule_cases[0], 0, 1);
    for (int i = 0; i < 5; i++) assert_int_equal(drain(&s, 1e-3, 0), 0);
}

/* ---- in a run ---- */

/* The timing of samples does not change the weights. */
TEST(throttling_changes_no_weight) {
    gs_settings s = gs_test_options("--model 'flatten, linear 10' --devices cpu,cpu,cpu --threads 1 "
                                    "--batch 100 --steps 10");
    gs_result fast, slow;
    fast = gs_test_train(&s);
    s.throttle = 4;
    slow = gs_test_train(&s);
    assert_memory_equal(fast.weights, slow.weights, fast.params * sizeof(float));
    assert_true(fast.waited >= 0 && fast.waited <= 1);
    assert_true(slow.waited >= 0 && slow.waited <= 1);
}

TEST(the_program_throttles) {
    assert_prints(0, "throttle each worker's loader supplies 50 MB", "%s",
                  "train --model softmax --steps 3 --throttle 50");
    assert_prints(0, "loader   workers waited for it ", "train --model softmax --steps 3");
    assert_prints(0, "\"loader_wait\":", "train --model softmax --steps 3 --json");
    assert_prints(0, "\"throttle_mb_per_s\":2.5", "train --model softmax --steps 3 --json --throttle 2.5");
    assert_prints(0, "\"loader_wait\":", "%s", "compare --model softmax --steps 3 --devices-list cpu --json");
    assert_prints(2, "--throttle: '0' is not a number from 0.001", "train --throttle 0");
    assert_prints(2, "--throttle: 'fast' is not a number", "train --throttle fast");
    assert_prints(2, "--throttle needs a value: MB/S", "train --throttle");
}

/* In any batch, every boundary is a multiple of G; the parts are consecutive and differ by at most one group. */
TEST(groups_stay_together) {
    for (size_t total = 0; total <= 70; total++)
        for (size_t together = 0; together <= 20; together += together == 0 ? 1 : 3)
            for (int n = 1; n <= 9; n++) {
                const size_t unit = together ? together : 1, groups = (total + unit - 1) / unit;
                size_t end = 0;
                for (int i = 0; i < n; i++) {
                    const gs_shard part = gs_schedule_cut(total, i, n, together);
                    const size_t mine = (part.count + unit - 1) / unit;
                    assert_int_equal(part.first, end);
                    end += part.count;
                    assert_true(end % unit == 0 || end == total);
                    assert_true(mine == groups / (size_t)n || mine == groups / (size_t)n + 1);
                }
                assert_int_equal(end, total);
            }
}
