/* --sync async: no worker waits for all the others. The test group async is short enough for ThreadSanitizer; accuracy
 * is not. */
#include "tests/support/training.h"

/* ---- --sync async ---- */

static uint64_t sum_of(const uint64_t *count, size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += count[i];
    return sum;
}

/* K = 0 equals the synchronous parameter server bit for bit, with momentum, decay, uneven batches and empty parts. */
TEST(async_with_k_0_is_synchronous) {
    static const char *const devices[] = {"cpu", "cpu,cpu", "cpu,cpu,cpu", "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu"};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        gs_settings s = gs_test_settings("%s --sync ps", devices[i]);
        gs_result synchronous = gs_test_train(&s);
        s = gs_test_with(s, "--sync async --staleness 0");
        gs_result r = gs_test_train(&s);
        assert_same_bits(&synchronous, &r, devices[i]);
        assert_near(r.train_loss, synchronous.train_loss, 0, 1e-5);
        assert_int_equal(r.staleness.counts, 1);
        assert_int_equal(r.staleness.count[0], GS_TEST_STEPS * gs_devices_count(devices[i]));
        assert_int_equal(r.staleness.leads, 1);
    }
}

/* A single worker is never late, for any K. */
TEST(async_of_one_worker_is_synchronous) {
    assert_ways_have_the_bits("", "--sync async --staleness 3");
}

TEST(async_with_k_0_between_processes) {
    static const char *const runs[] = {"launch -n 4 -- train", "launch -n 2 -- train --devices cpu,cpu"};
    static const char mlp[] = "%s --model mlp --steps 20 --tests 0 --threads 1 --sync %s";
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const char *synchronous = gs_test_sha256(mlp, runs[i], "ps");
        const char *sha256 = gs_test_sha256(mlp, runs[i], "async --staleness 0");
        assert_string_equal(sha256, synchronous);
    }
}

/* The others run K steps ahead of a slow worker, and no further. */
TEST(async_keeps_its_bound) {
    for (int k = 1; k <= 3; k += 2) {
        gs_settings s =
            gs_test_settings("cpu,cpu,cpu --model 'flatten, linear 10' --sync async --jitter 2:20ms");
        s.staleness = k;
        gs_result r = gs_test_train(&s);
        assert_int_equal(r.steps, GS_TEST_STEPS);
        const gs_staleness *seen = &r.staleness;
        assert_int_equal(sum_of(seen->count, seen->counts), 3 * GS_TEST_STEPS);
        assert_true(seen->counts <= 2 * (2 * (size_t)k + 1) + 1);
        assert_int_equal(seen->leads, k + 1);
        assert_true(seen->lead[k] > 0);
        /* in both epochs, each worker starts every step but the first after the server's answer */
        assert_int_equal(sum_of(seen->lead, seen->leads), 3 * (GS_TEST_STEPS - 2));
    }
}

/* Training is equally accurate for any order of gradients. It uses plain SGD, because the usual momentum, with which a
 * gradient moves the weights more than once, is near the limit of stability, which staleness lowers. The rate decays to
 * 0, because with large last steps the result would depend on which gradient came last. */
TEST_IN(accuracy, async_is_as_accurate) {
    gs_settings s = gs_test_options("--model 'flatten, linear 64, relu, linear 10' --devices cpu,cpu,cpu,cpu "
                                    "--threads 1 --momentum 0 --lr 0.1 --schedule cosine --epochs 8");
    gs_result synchronous = gs_test_train(&s);
    s = gs_test_with(s, "--sync async --staleness 4");
    gs_result r = gs_test_train(&s);
    assert_true(r.test_accuracy >= synchronous.test_accuracy - 0.01);
    assert_near(r.test_loss, synchronous.test_loss, 0, 0.01);
    assert_true(r.staleness.counts > 1); /* the run really was asynchronous */
}

TEST(async_tells_its_staleness) {
    static const char command[] = "--model softmax --steps 50 --threads 1 --sync async --staleness 2";
    assert_prints(0, "stale    gradients, by", "train --devices cpu,cpu %s", command);
    assert_prints(0, "\"steps_ahead\":[", "launch -n 2 -- train %s --json", command);
    assert_prints(0, "\"staleness\":[", "launch -n 2 -- train --devices cpu,cpu %s --json", command);
    assert_prints(2, "--sync async needs --staleness K", "train --sync async");
    assert_prints(2, "--staleness 3 works only with --sync async; --sync is allreduce",
                  "train --staleness 3");
    assert_prints(2, "weights differ by design", "train --sync async --staleness 1 --verify 5");
    assert_prints(2, "does not work with --sync async", "train --sync async --staleness 1 --exact");
    assert_prints(2, "--every 2 works only with --sync local; --sync is async",
                  "train --sync async --staleness 1 --every 2");
    assert_prints(2, "local, async", "train --sync nobody --steps 1");
}

/* If one worker fails, all workers end with its message, including those that wait for the server. */
static int failing_rank;

static void fail_at_step_5(gs_worker *w) {
    if (w->comm->rank == failing_rank && w->step == 5) gs_comm_abort(w->comm, "lost on purpose");
}

TEST(async_ends_when_a_worker_is_lost) {
    for (failing_rank = 0; failing_rank < 3; failing_rank++)
        for (int k = 0; k <= 2; k += 2) {
            gs_settings s = gs_test_settings("cpu,cpu,cpu --sync async");
            s.staleness = k;
            s.test_hook = fail_at_step_5;
            assert_train_fails(GS_E_PEER, "lost on purpose", &s);
        }
}
