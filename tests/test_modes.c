/* Ways to make a step that differ from the plain one: what each promises about the weights. */
#include "tests/program.h"

#include <math.h>

/* As in test_train.c: dropout whose mask must follow the sample, and batches that nothing divides. 6000
 * samples in batches of 333: step 19 has 6 samples (fewer than virtual shards), step 20 begins epoch 2. */
static const char MODEL[] =
    "conv 4 3x3 stride 2 pad 1, relu, max_pool 2, flatten, dropout 0.25, linear 16, tanh, "
    "linear 10";
enum { BATCH = 333, STEPS = 20 };
static const double TOLERANCE = 1e-6; /* rounding only: see test_train.c */

static gs_settings settings_for(const char *devices) {
    gs_settings s = gs_settings_default();
    s.model = MODEL;
    s.devices = devices;
    s.batch = BATCH;
    s.steps = STEPS;
    s.weight_decay = 1e-3f;
    s.threads = 1;
    return s;
}

static gs_result train(const gs_settings *s) {
    gs_result r;
    assert_ok(gs_train(s, NULL, &r));
    if (s->steps) assert_int_equal(r.steps, s->steps);
    return r;
}

static double largest_difference(const gs_result *a, const gs_result *b) {
    double largest = 0;
    for (size_t i = 0; i < a->params; i++) {
        double d = fabs((double)a->weights[i] - (double)b->weights[i]);
        if (!(d <= largest)) largest = d;
    }
    return largest;
}

static void assert_same_bits(const gs_result *a, const gs_result *b, const char *what) {
    if (memcmp(a->weights, b->weights, a->params * sizeof(float)) != 0)
        fail_msg("%s: other bits; the weights differ by up to %g", what, largest_difference(a, b));
}

static void assert_same_within_rounding(const gs_result *a, const gs_result *b, const char *what) {
    double d = largest_difference(a, b);
    if (!(d <= TOLERANCE)) fail_msg("%s: weights differ by %g, wanted at most %g", what, d, TOLERANCE);
}

/* ---- --exact ---- */

/* The SHA-256 that a run of the program prints. */
static void sha256_of(const char *arguments, char sha256[65]) {
    char *output;
    int status = gs_test_program(&output, "%s", arguments);
    const char *at = strstr(output, "sha256 ");
    if (status != 0 || !at) fail_msg("gradsum %s: exit %d: %s", arguments, status, output);
    snprintf(sha256, 65, "%s", at + strlen("sha256 "));
    free(output);
}

static void exact_gives_one_sha256(void **state) {
    (void)state;
    static const char *const runs[] = {
        "train --devices cpu",
        "train --devices cpu,cpu",
        "train --devices cpu,cpu,cpu,cpu",
        "train --devices cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu",
        "launch -n 2 -- train --devices cpu",
        "launch -n 4 -- train --devices cpu",
        "launch -n 2 -- train --devices cpu,cpu",
    };
    char first[65], sha256[65], command[300];
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        snprintf(command, sizeof command, "%s --model lenet --epochs 1 --exact", runs[i]);
        sha256_of(command, i == 0 ? first : sha256);
        if (i > 0 && strcmp(first, sha256) != 0)
            fail_msg("gradsum %s: %s, but one worker gives %s", command, sha256, first);
    }
}

static const char *const counts[] = {"cpu", "cpu,cpu", "cpu,cpu,cpu,cpu", "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu"};

/* Empty virtual shards, dropout, weight decay, micro-batches inside of a virtual shard; and what it computes
 * is what plain training computes. */
static void exact_holds_for_ragged_batches(void **state) {
    (void)state;
    gs_settings s = settings_for("cpu");
    gs_result plain = train(&s), first = {0};
    s.exact = true;
    for (int i = 0; i < 4; i++) {
        s.devices = counts[i];
        gs_result r = train(&s);
        if (i == 0) {
            first = r;
            assert_same_within_rounding(&plain, &r, "--exact against plain training");
            continue;
        }
        assert_same_bits(&first, &r, counts[i]);
        assert_true(r.train_loss == first.train_loss && r.test_loss == first.test_loss);
        gs_result_free(&r);
    }
    gs_result_free(&first);
    gs_result_free(&plain);
}

/* Virtual shards of 188 samples in micro-batches of 130: the cut must not depend on the number of workers. */
static void exact_cuts_micro_batches_alike(void **state) {
    (void)state;
    gs_settings s = settings_for("cpu");
    s.exact = true;
    s.model = "flatten, linear 10";
    s.batch = 1500;
    s.micro_batch = 130;
    s.steps = 4;
    gs_result one = train(&s);
    for (int i = 1; i < 4; i++) {
        s.devices = counts[i];
        gs_result r = train(&s);
        assert_same_bits(&one, &r, counts[i]);
        gs_result_free(&r);
    }
    gs_result_free(&one);
}

static void exact_refuses_what_it_cannot_hold(void **state) {
    (void)state;
    gs_test_program_prints(2, "there are 3 workers; wanted 1, 2, 4 or 8",
                           "train --exact --devices cpu,cpu,cpu");
    gs_test_program_prints(2, "there are 3 workers; wanted 1, 2, 4 or 8", "launch -n 3 -- train --exact");
    gs_test_program_prints(2, "--threads 2: how products are cut", "train --exact --threads 2");
    gs_test_program_prints(2, "device 'cl:0.0': only cpu", "train --exact --devices cpu,cl:0.0");
    gs_test_program_prints(2, "does not go with --sync ps", "train --exact --sync ps");
}

/* ---- --verify ---- */

static int harmed_rank;
static const char *harmed_name;
static uint64_t harmed_step;

/* Change the last float of one tensor by one bit. */
static void do_harm(gs_worker *w) {
    if (w->comm->rank != harmed_rank || w->step != harmed_step) return;
    for (int p = 0; p < w->model->param_count; p++) {
        const gs_param *param = w->model->param[p];
        if (strcmp(param->name, harmed_name) != 0) continue;
        gs_mem last = gs_at(w->model->weights, param->at + param->count - 1);
        uint32_t bits;
        if (w->device->ops->read(w->device, &bits, last, sizeof bits) != GS_OK) gs_bug("%s", gs_message());
        bits ^= 1u << 20;
        if (w->device->ops->write(w->device, last, &bits, sizeof bits) != GS_OK) gs_bug("%s", gs_message());
        return;
    }
    gs_bug("no tensor is called %s", harmed_name);
}

static void assert_harm_is_found(const char *devices, int rank, const char *name, uint64_t step,
                                 const char *wanted) {
    gs_settings s = settings_for(devices);
    gs_result r;
    s.verify = 4;
    s.test_hook = do_harm;
    harmed_rank = rank;
    harmed_name = name;
    harmed_step = step;
    assert_fails(GS_E_DIFFER, wanted, gs_train(&s, NULL, &r));
    gs_result_free(&r);
}

static void verify_names_step_worker_and_layer(void **state) {
    (void)state;
    assert_harm_is_found("cpu,cpu,cpu", 2, "5.weight", 8,
                         "step 8: worker 2's 5.weight differs from worker 0's");
    /* harm in between is found at the next look; where most workers agree, rank 0 can be the one */
    assert_harm_is_found("cpu,cpu,cpu,cpu", 0, "5.bias", 5, "worker 0's 5.bias differs from worker 1's");
    /* of two workers nobody can say which one is right */
    assert_harm_is_found("cpu,cpu", 1, "0.weight", 12,
                         "step 12: worker 1's 0.weight differs from worker 0's");
}

static void verify_lets_a_sound_run_pass(void **state) {
    (void)state;
    gs_settings s = settings_for("cpu,cpu,cpu");
    gs_result plain = train(&s), verified;
    s.verify = 1;
    verified = train(&s);
    assert_same_bits(&plain, &verified, "--verify 1");
    gs_result_free(&plain);
    gs_result_free(&verified);
    static const char command[] = "--model softmax --steps 7 --verify 3 --devices cpu,cpu";
    gs_test_program_prints(0, "compared every 3 steps", "train %s", command);
    gs_test_program_prints(0, "sha256", "launch -n 2 -- train %s", command);
    gs_test_program_prints(2, "--verify: '0' is not a whole number", "train --verify 0");
}

/* ---- --accumulate ---- */

/* The same weights as in one pass, within rounding, and other bits: so the passes really are cut. Also where
 * the last batch, of 6 samples, leaves passes empty. */
static void accumulation_equals_the_large_batch(void **state) {
    (void)state;
    static const char *const devices[] = {"cpu", "cpu,cpu", "cpu,cpu,cpu"};
    gs_settings s = settings_for("cpu");
    gs_result one = train(&s);
    for (int i = 0; i < 3; i++)
        for (int k = 2; k <= 7; k += 5) {
            s.devices = devices[i];
            s.accumulate = k;
            gs_result r = train(&s);
            assert_same_within_rounding(&one, &r, devices[i]);
            assert_true(memcmp(one.weights, r.weights, one.params * sizeof(float)) != 0);
            gs_result_free(&r);
        }
    gs_result_free(&one);
}

static size_t micro_batch_seen;

static void look_at_micro_batch(void *context, const gs_worker *w) {
    (void)context;
    micro_batch_seen = w->micro_batch;
}

/* What it is for: the device holds a part of the samples at a time. 6000 / 2 / 4 = 750. */
static void accumulation_saves_memory(void **state) {
    (void)state;
    gs_settings s = settings_for("cpu,cpu");
    s.model = "flatten, linear 10";
    s.batch = 0;
    s.steps = 1;
    s.micro_batch = 100000;
    s.accumulate = 4;
    gs_result r;
    assert_ok(gs_train(&s, &(gs_observer){.start = look_at_micro_batch}, &r));
    assert_int_equal(micro_batch_seen, 750);
    gs_result_free(&r);
    gs_test_program_prints(2, "--accumulate 65: more passes than the 64 samples",
                           "train --devices cpu,cpu --accumulate 65");
    gs_test_program_prints(2, "--accumulate 33: more passes than the 32 samples",
                           "launch -n 2 -- train --devices cpu,cpu --accumulate 33");
    gs_test_program_prints(2, "--accumulate: '0' is not a whole number", "train --accumulate 0");
    gs_test_program_prints(2, "does not go with --accumulate", "train --exact --accumulate 2");
    gs_test_program_prints(0, "passes   4 over", "train --model softmax --steps 2 --accumulate 4");
}

/* ---- --slow ---- */

static void a_slow_worker_changes_nothing_but_time(void **state) {
    (void)state;
    gs_settings s = settings_for("cpu,cpu");
    gs_result fast = train(&s), slow;
    s.slow = (gs_slow){1, 5};
    slow = train(&s);
    assert_same_bits(&fast, &slow, "--slow 1:5");
    /* no matter how fast the machine is: 20 steps of at least 5 ms each, in which 2 workers see 6000 + 333 samples */
    assert_true(slow.samples_per_s <= (6000 + 333) / (STEPS * 5e-3));
    gs_result_free(&fast);
    gs_result_free(&slow);
    gs_test_program_prints(0, "slow     worker 1 sleeps 2.5 ms in each step",
                           "train --model softmax --steps 2 --devices cpu,cpu --slow 1:2.5");
    gs_test_program_prints(2, "there is no worker 2; they are 0 to 1",
                           "train --model softmax --steps 2 --devices cpu,cpu --slow 2:5");
    static const char *const wrong[] = {"1",     ":5",    "1:",    "1:-5",      "-1:5",
                                        "1:5ms", "1:2:3", "1:1e3", "1:2000000", "x:5"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        gs_test_program_prints(2, "is not RANK:MS", "train --slow=%s", wrong[i]);
}

/* ---- --sync local ---- */

/* H = 1 is the synchronous step, for parts of unequal size (333 among 2 to 4; the last batch, of 6, leaves
 * nobody out and with 8 workers two), with plain SGD, and because the velocity is averaged too also with
 * momentum. */
static void local_sgd_with_h_1_is_synchronous(void **state) {
    (void)state;
    static const char *const devices[] = {"cpu", "cpu,cpu", "cpu,cpu,cpu,cpu",
                                          "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu"};
    for (int momentum = 0; momentum <= 9; momentum += 9) {
        gs_settings s = settings_for("cpu");
        s.momentum = (float)momentum / 10;
        gs_result synchronous = train(&s);
        s.sync = "local";
        s.every = 1;
        for (int i = 0; i < 4; i++) {
            s.devices = devices[i];
            gs_result r = train(&s);
            assert_same_within_rounding(&synchronous, &r, devices[i]);
            assert_near(r.train_loss, synchronous.train_loss, 0, 1e-5);
            assert_int_equal(r.workers, gs_devices_count(devices[i]));
            gs_result_free(&r);
        }
        gs_result_free(&synchronous);
    }
}

/* One step in parts of 3 and 2 samples, plain SGD, no weight decay: the average with weights 3/5 and 2/5 is the
 * step on all 5. Equal weights would give something else. */
static void local_sgd_weighs_by_samples(void **state) {
    (void)state;
    gs_settings s = settings_for("cpu,cpu");
    s.model = "flatten, linear 10";
    s.batch = 5;
    s.steps = 1;
    s.momentum = s.weight_decay = 0;
    gs_result synchronous = train(&s);
    s.sync = "local";
    s.every = 7; /* the end of the epoch comes first, and averages */
    gs_result local = train(&s);
    assert_same_within_rounding(&synchronous, &local, "1 step of local SGD");
    gs_result_free(&synchronous);
    gs_result_free(&local);
}

/* All copies are the same after each average (--verify), the run repeats to the bit, and it learns; with H > 1 it
 * is another algorithm than the synchronous one. */
static void local_sgd_averages_and_learns(void **state) {
    (void)state;
    gs_settings s = settings_for("cpu,cpu,cpu");
    gs_result synchronous = train(&s);
    s.sync = "local";
    s.every = 4;
    s.verify = 4;
    gs_result a = train(&s), b = train(&s);
    assert_same_bits(&a, &b, "a second run");
    assert_true(largest_difference(&a, &synchronous) > 1e-4);
    gs_result_free(&a);
    gs_result_free(&b);
    gs_result_free(&synchronous);
    s = gs_settings_default();
    s.devices = "cpu,cpu,cpu";
    s.threads = 1;
    s.epochs = 1;
    s.sync = "local";
    s.every = 8;
    a = train(&s);
    assert_int_equal(a.steps, 47);
    assert_true(a.test_accuracy > 0.6);
    gs_result_free(&a);
}

static void local_sgd_between_processes(void **state) {
    (void)state;
    gs_test_program_prints(
        0, "weights averaged every 3 steps",
        "launch -n 2 -- train --model softmax --steps 20 --sync local --every 3 --verify 6");
    gs_test_program_prints(
        0, "\"every\":3",
        "launch -n 2 -- train --devices cpu,cpu --model softmax --steps 20 --sync local --every "
        "3 --verify 3 --json");
    gs_test_program_prints(2, "--sync local wants --every H", "train --sync local");
    gs_test_program_prints(2, "--every goes with --sync local alone", "train --every 3");
    gs_test_program_prints(2, "wanted a multiple of --every 4", "train --sync local --every 4 --verify 6");
    gs_test_program_prints(2, "does not go with --sync local", "train --sync local --every 4 --exact");
    gs_test_program_prints(2, "auto, local, async", "train --sync nobody --steps 1");
}

/* ---- --sync async ---- */

static uint64_t sum_of(const uint64_t *count, size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += count[i];
    return sum;
}

/* K = 0 is the synchronous parameter server, to the bit: momentum, weight decay, ragged batches, empty parts. */
static void async_with_k_0_is_synchronous(void **state) {
    (void)state;
    static const char *const devices[] = {"cpu", "cpu,cpu", "cpu,cpu,cpu", "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu"};
    for (int i = 0; i < 4; i++) {
        gs_settings s = settings_for(devices[i]);
        s.sync = "ps";
        gs_result synchronous = train(&s);
        s.sync = "async";
        s.staleness = 0;
        gs_result r = train(&s);
        assert_same_bits(&synchronous, &r, devices[i]);
        assert_near(r.train_loss, synchronous.train_loss, 0, 1e-5);
        assert_int_equal(r.staleness.counts, 1);
        assert_int_equal(r.staleness.count[0], STEPS * gs_devices_count(devices[i]));
        assert_int_equal(r.staleness.leads, 1);
        gs_result_free(&r);
        gs_result_free(&synchronous);
    }
}

static void async_with_k_0_between_processes(void **state) {
    (void)state;
    static const char *const runs[] = {"launch -n 4 -- train", "launch -n 2 -- train --devices cpu,cpu"};
    for (int i = 0; i < 2; i++) {
        char command[300], synchronous[65], sha256[65];
        snprintf(command, sizeof command, "%s --model mlp --steps 50 --threads 1 --sync ps", runs[i]);
        sha256_of(command, synchronous);
        snprintf(command, sizeof command, "%s --model mlp --steps 50 --threads 1 --sync async --staleness 0",
                 runs[i]);
        sha256_of(command, sha256);
        assert_string_equal(sha256, synchronous);
    }
}

/* The bound holds where it is reached: with a slow worker the others run K ahead of it, and not further. */
static void async_keeps_its_bound(void **state) {
    (void)state;
    for (int k = 1; k <= 3; k += 2) {
        gs_settings s = settings_for("cpu,cpu,cpu");
        s.model = "flatten, linear 10";
        s.sync = "async";
        s.staleness = k;
        s.slow = (gs_slow){2, 20};
        gs_result r;
        assert_ok(gs_train(&s, NULL, &r));
        assert_int_equal(r.steps, STEPS);
        const gs_staleness *seen = &r.staleness;
        assert_int_equal(sum_of(seen->count, seen->counts), 3 * STEPS);
        assert_true(seen->counts <= 2 * (2 * (size_t)k + 1) + 1);
        assert_int_equal(seen->leads, k + 1);
        assert_true(seen->lead[k] > 0);
        /* each worker begins all steps but the first of each of the two epochs after an answer */
        assert_int_equal(sum_of(seen->lead, seen->leads), 3 * (STEPS - 2));
        gs_result_free(&r);
    }
}

/* No matter in which order gradients come, training is as good. Plain SGD, in which a gradient moves the weights
 * once: momentum at its usual rate is near the limit of stability, and staleness takes some of it away. */
static void async_is_as_accurate(void **state) {
    (void)state;
    gs_settings s = gs_settings_default();
    s.model = "mlp";
    s.devices = "cpu,cpu,cpu,cpu";
    s.threads = 1;
    s.momentum = 0;
    s.lr = 0.1f;
    s.epochs = 8;
    gs_result synchronous = train(&s);
    s.sync = "async";
    s.staleness = 4;
    gs_result r = train(&s);
    if (!(r.test_accuracy >= synchronous.test_accuracy - 0.01))
        fail_msg("accuracy %.4f, synchronous %.4f", r.test_accuracy, synchronous.test_accuracy);
    assert_true(r.staleness.counts > 1); /* it was asynchronous */
    gs_result_free(&r);
    gs_result_free(&synchronous);
}

static void async_tells_its_staleness(void **state) {
    (void)state;
    static const char command[] = "--model softmax --steps 50 --threads 1 --sync async --staleness 2";
    gs_test_program_prints(0, "stale    gradients by", "train --devices cpu,cpu %s", command);
    gs_test_program_prints(0, "\"steps_ahead\":[", "launch -n 2 -- train %s --json", command);
    gs_test_program_prints(0, "\"staleness\":[", "launch -n 2 -- train --devices cpu,cpu %s --json", command);
    gs_test_program_prints(2, "--sync async wants --staleness K", "train --sync async");
    gs_test_program_prints(2, "--staleness goes with --sync async alone", "train --staleness 3");
    gs_test_program_prints(2, "weights differ by intent", "train --sync async --staleness 1 --verify 5");
    gs_test_program_prints(2, "does not go with --sync async", "train --sync async --staleness 1 --exact");
    gs_test_program_prints(2, "--every goes with --sync local alone",
                           "train --sync async --staleness 1 --every 2");
    gs_test_program_prints(2, "local, async", "train --sync nobody --steps 1");
}

/* One worker fails: all end, with its message, also those that wait at the server. */
static int failing_rank;

static void fail_at_step_5(gs_worker *w) {
    if (w->comm->rank == failing_rank && w->step == 5) w->comm->ops->abort(w->comm, "lost on purpose");
}

static void async_ends_when_a_worker_is_lost(void **state) {
    (void)state;
    for (failing_rank = 0; failing_rank < 3; failing_rank++)
        for (int k = 0; k <= 2; k += 2) {
            gs_settings s = settings_for("cpu,cpu,cpu");
            gs_result r;
            s.sync = "async";
            s.staleness = k;
            s.test_hook = fail_at_step_5;
            assert_fails(GS_E_PEER, "lost on purpose", gs_train(&s, NULL, &r));
        }
}

/* ---- all of them ---- */

/* A rank that was started with another option would wait for what never comes. */
static void ranks_must_agree_on_the_mode(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"--exact", "", "rank 1 runs without --exact, rank 0 with it"},
        {"--verify 3", "--verify 4", "rank 1 has another --verify than rank 0 (4, not 3)"},
        {"--accumulate 2", "", "rank 1 has another --accumulate than rank 0"},
        {"--slow 1:5", "--slow 0:5", "rank 1 has another --slow than rank 0"},
        {"--sync local --every 3", "--sync local --every 4",
         "rank 1 has another --every than rank 0 (4, not 3)"},
        {"--sync async --staleness 3", "--sync async --staleness 4",
         "rank 1 has another --staleness than rank 0"},
        {"--sync async --staleness 3", "--sync ps", "rank 1 has another --"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *output;
        int status = gs_test_shell(&output,
                                   "export GRADSUM_WORLD_SIZE=2 GRADSUM_TIMEOUT=20 GRADSUM_RENDEZVOUS=%s; "
                                   "G='%s/gradsum train --model "
                                   "softmax --steps 3 --threads 1'; GRADSUM_RANK=0 $G %s & GRADSUM_RANK=1 $G "
                                   "%s; S=$?; wait; exit $S",
                                   gs_test_folder(), GS_BUILD_DIR, cases[i][0], cases[i][1]);
        if (status != 2 || !strstr(output, cases[i][2]))
            fail_msg("exit %d, wanted '%s': %s", status, cases[i][2], output);
        free(output);
    }
}

GS_TESTS(modes, cmocka_unit_test(ranks_must_agree_on_the_mode), cmocka_unit_test(exact_gives_one_sha256),
         cmocka_unit_test(exact_holds_for_ragged_batches), cmocka_unit_test(exact_cuts_micro_batches_alike),
         cmocka_unit_test(exact_refuses_what_it_cannot_hold),
         cmocka_unit_test(verify_names_step_worker_and_layer), cmocka_unit_test(verify_lets_a_sound_run_pass),
         cmocka_unit_test(accumulation_equals_the_large_batch), cmocka_unit_test(accumulation_saves_memory),
         cmocka_unit_test(a_slow_worker_changes_nothing_but_time),
         cmocka_unit_test(local_sgd_with_h_1_is_synchronous), cmocka_unit_test(local_sgd_weighs_by_samples),
         cmocka_unit_test(local_sgd_averages_and_learns), cmocka_unit_test(local_sgd_between_processes),
         cmocka_unit_test(async_is_as_accurate))

/* a group of its own: short enough for ThreadSanitizer too */
GS_TESTS(async, cmocka_unit_test(async_with_k_0_is_synchronous),
         cmocka_unit_test(async_with_k_0_between_processes), cmocka_unit_test(async_keeps_its_bound),
         cmocka_unit_test(async_tells_its_staleness), cmocka_unit_test(async_ends_when_a_worker_is_lost))
