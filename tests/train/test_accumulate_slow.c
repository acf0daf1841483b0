/* --accumulate and a slow worker change only time and memory; all ranks must agree on these options. */
#include "tests/support/training.h"

/* ---- --accumulate ---- */

/* The weights equal those of a single pass up to rounding, but not bit for bit, which shows that the passes are
 * separate. This also holds when the last batch, of 6 samples, leaves passes empty. */
TEST(accumulation_equals_the_large_batch) {
    static const char *const ways[] = {"--accumulate 2",      "--accumulate 7",      ON_2 "--accumulate 2",
                                       ON_2 "--accumulate 7", ON_3 "--accumulate 2", ON_3 "--accumulate 7"};
    gs_settings s = gs_test_settings("cpu");
    gs_result one = gs_test_train(&s);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        s = gs_test_settings("cpu %s", ways[i]);
        gs_result r = gs_test_train(&s);
        assert_same_within_rounding(&one, &r, ways[i]);
        assert_true(memcmp(one.weights, r.weights, one.params * sizeof(float)) != 0);
    }
}

static size_t micro_batch_seen;

static void look_at_micro_batch(void *context, const gs_worker *w) {
    (void)context;
    micro_batch_seen = w->input.most;
}

/* Large samples are computed a few at a time. Batches that fit into memory are divided as usual and keep their bits. */
TEST(large_samples_in_small_pieces) {
    static const struct {
        const char *model;
        gs_shape in;
        gs_batch_norm_groups norm;
        size_t most;
    } pieces[] = {{"mlp", {1, 28, 28, 0}, {0}, 256},
                  {"lenet", {1, 28, 28, 0}, {0}, 256},
                  {"cnn", {3, 32, 32, 0}, {0}, 256},
                  {"gpt 155", {1, 1, 1, 64}, {0}, 256},
                  {"resnet20", {3, 32, 32, 0}, {GS_BATCH_NORM_GLOBAL, 0}, 4096},
                  {"resnet20", {3, 32, 32, 0}, {GS_BATCH_NORM_LOCAL, 0}, 256},
                  {"resnet50", {3, 224, 224, 0}, {GS_BATCH_NORM_GHOST, 16}, 256},
                  {"vgg11", {3, 224, 224, 0}, {0}, 16},
                  {"gpt2", {1, 1, 1, 64}, {0}, 16},
                  {"gpt2", {1, 1, 1, 1024}, {0}, 1}};
    gs_settings s = gs_settings_default();
    size_t most;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        s.model = pieces[i].model;
        s.batch_norm = pieces[i].norm;
        assert_ok(gs_largest_micro_batch(&s, pieces[i].in, &most));
        if (most != pieces[i].most) fail_msg("%s: %zu, wanted %zu", s.model, most, pieces[i].most);
    }
    s.micro_batch = 77;
    assert_ok(gs_largest_micro_batch(&s, pieces[9].in, &most));
    assert_int_equal(most, 77);
}

/* The purpose of --accumulate: the device holds only part of the samples at a time. 6000 / 2 / 4 = 750. */
TEST(accumulation_saves_memory) {
    gs_settings s = gs_test_settings("cpu,cpu --model 'flatten, linear 10' --batch all --steps 1 "
                                     "--micro-batch 100000 --accumulate 4");
    gs_result r;
    assert_ok(gs_train(&s, &(gs_observer){.start = look_at_micro_batch}, &r));
    assert_int_equal(micro_batch_seen, 750);
    gs_result_free(&r);
    assert_prints(2, "--accumulate 65: more passes than the 64 samples",
                  "train --devices cpu,cpu --accumulate 65");
    assert_prints(2, "--accumulate 33: more passes than the 32 samples",
                  "launch -n 2 -- train --devices cpu,cpu --accumulate 33");
    assert_prints(2, "--accumulate: '0' is not a whole number", "train --accumulate 0");
    assert_prints(2, "each worker has 8 of the 8; wanted at most 8", "train --exact --accumulate 9");
    assert_prints(0, "passes   4 over", "train --exact --model softmax --steps 2 --accumulate 3");
    assert_prints(0, "passes   4 over", "train --model softmax --steps 2 --accumulate 4");
}

/* ---- a slow worker ---- */

TEST(a_slow_worker_changes_nothing_but_time) {
    gs_settings s = gs_test_settings("cpu,cpu");
    gs_result fast = gs_test_train(&s), slow;
    s.jitter = (gs_jitter){1, {{1, 5e-3, 1}}};
    slow = gs_test_train(&s);
    assert_same_bits(&fast, &slow, "--jitter 1:5ms");
    /* true on any machine: 2 workers process 6000 + 333 samples in 20 steps of at least 5 ms */
    assert_true(slow.samples_per_s <= (6000 + 333) / (GS_TEST_STEPS * 5e-3));
    assert_prints(0, "jitter   worker 1 pauses 2.5 ms in 100 % of its steps",
                  "train --model softmax --steps 2 --devices cpu,cpu --jitter 1:2.5ms");
    assert_prints(2, "there is no worker 2; workers are 0 to 1",
                  "train --model softmax --steps 2 --devices cpu,cpu --jitter 2:5ms");
    assert_prints(2, "--jitter: there is no worker 5; the only one is worker 0", "train --jitter 5:50ms");
}

/* The other rank reports the timeout when it expires, not when the sleeper wakes. */
static const char *sleeper_is_not_named(double timeout, void *context) {
    (void)context;
    const char *wanted = gs_test_format("no answer within %g s from rank 0", timeout);
    char *output;
    const int status = gs_test_program(
        &output, "train --model softmax --devices cpu,cpu --jitter 0:1000s --timeout %g", timeout);
    return status == 1 && strstr(output, wanted) ? NULL : gs_test_wrong("exit %d: %s", status, output);
}

TEST(a_sleeper_wakes_when_another_fails) {
    gs_test_patiently(0.3, sleeper_is_not_named, NULL);
}

/* ---- all of them ---- */

/* A rank started with a different option would wait forever. */
TEST(ranks_must_agree_on_the_mode) {
    static const char *const cases[][3] = {
        {"--model lenet --pipeline 2", "--model lenet --pipeline 2 --pipeline-cut 3",
         "rank 1 and rank 0 differ in --pipeline-cut (3 versus "},
        {"--model lenet --pipeline 2", "--model lenet",
         "rank 1 and rank 0 differ in --pipeline (none versus 2)"},
        {"--exact", "", "rank 1 runs without --exact, rank 0 with it"},
        {"--batch 60", "--batch 64", "rank 1 and rank 0 differ in --batch (64 versus 60)"},
        {"", "--keep-going", "rank 1 runs with --keep-going, rank 0 without it"},
        {"", "--save $GRADSUM_RENDEZVOUS.st", "rank 1 runs with --save, rank 0 without it"},
        {"--verify 3", "--verify 4", "rank 1 and rank 0 differ in --verify (4 versus 3)"},
        {"--verify 3", "", "rank 1 and rank 0 differ in --verify (never versus 3)"},
        {"--accumulate 2", "", "rank 1 and rank 0 differ in --accumulate (1 versus 2)"},
        {"--jitter 1:5ms", "--jitter 0:5ms",
         "rank 1 and rank 0 differ in --jitter (0:5ms@100% versus 1:5ms@100%)"},
        {"", "--jitter 0:5ms", "rank 1 and rank 0 differ in --jitter (0:5ms@100% versus none)"},
        {"--jitter 0:5ms@5%", "", "rank 1 and rank 0 differ in --jitter (none versus 0:5ms@5%)"},
        {"--link 1ms,1Gbit/s", "--link 1ms,1MB/s",
         "process 1 and process 0 differ in --link (1ms,1MB/s versus 1ms,125MB/s)"},
        {"", "--link 1ms,1MB/s", "process 1 and process 0 differ in --link (1ms,1MB/s versus none)"},
        {"--sync local --every 3", "--sync local --every 4",
         "rank 1 and rank 0 differ in --every (4 versus 3)"},
        {"--sync async --staleness 3", "--sync async --staleness 4",
         "rank 1 and rank 0 differ in --staleness (4 versus 3)"},
        {"--sync async --staleness 3", "--sync ps", "rank 1 and rank 0 differ in --sync (ps versus async)"},
        {"--sync ring", "--sync ps", "rank 1 and rank 0 differ in --sync (ps versus ring)"},
        {"--lr 0.05", "--lr 0.1", "rank 1 and rank 0 differ in --lr (0.1 versus 0.05)"},
        {"--lr 0.1", "--lr 0.10000001", "rank 1 and rank 0 differ in --lr (0.10000001 versus 0.1)"},
        {"--momentum 0", "", "rank 1 and rank 0 differ in --momentum (0.9 versus 0)"},
        {"--weight-decay 1e-4", "", "rank 1 and rank 0 differ in --weight-decay (0 versus 0.0001)"},
        {"", "--loss squared_error",
         "rank 1 and rank 0 differ in --loss (squared_error versus cross_entropy)"},
        {"", "--model 'flatten, linear 10, tanh'",
         "rank 1 and rank 0 differ in --model (flatten, linear 10, tanh versus flatten, linear 10)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ranks_print(2, cases[i][2], "train --model softmax --steps 3 --threads 1", cases[i][0],
                           cases[i][1]);
    }
}

/* A model without weights learns nothing, but every strategy finishes, with the SHA-256 of zero bytes. */
#define NOTHING "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

TEST(every_way_ends_without_weights) {
    static const char *const ways[] = {"--sync ring",
                                       "--sync local --every 2",
                                       "--sync async --staleness 1",
                                       "--exact",
                                       "--bucket 8",
                                       "--precision f16",
                                       "--zero 1",
                                       "--zero 2",
                                       "--zero 3 --accumulate 2",
                                       "--zero 3 --exact"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        assert_prints(0, NOTHING,
                      "train --model \"max_pool 7, flatten\" --devices cpu,cpu --steps 2 --epochs 1 %s",
                      ways[i]);
}
