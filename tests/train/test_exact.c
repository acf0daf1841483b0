/* --exact and --verify: the same weights to the bit, and the look whether they are. */
#include "tests/support/training.h"

TEST(exact_gives_one_sha256) {
    static const char *const runs[] = {
        "train --devices cpu",
        "train --devices cpu,cpu",
        "train --devices cpu,cpu,cpu,cpu",
        "train --devices cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu",
        "launch -n 2 -- train --devices cpu",
        "launch -n 4 -- train --devices cpu",
        "launch -n 2 -- train --devices cpu,cpu",
    };
    const char *first = NULL;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const char *sha256 = gs_test_sha256("%s --model lenet --epochs 1 --exact", runs[i]);
        if (!first) first = sha256;
        if (strcmp(first, sha256) != 0) fail_msg("%s: %s, but one worker gives %s", runs[i], sha256, first);
    }
}

/* Empty virtual shards, dropout, weight decay, micro-batches inside of a virtual shard; and what it computes
 * is what plain training computes. */
TEST(exact_holds_for_ragged_batches) {
    gs_test_exact(gs_test_settings("cpu"));
}

/* Virtual shards of 188 samples in micro-batches of 130: the cut must not depend on the number of workers. */
TEST(exact_cuts_micro_batches_alike) {
    gs_settings s = gs_test_settings("cpu --model 'flatten, linear 10' --batch 1500 --micro-batch 130 "
                                     "--steps 4");
    gs_test_exact(s);
}

TEST(exact_refuses_what_it_cannot_hold) {
    assert_prints(2, "there are 3 workers; wanted 1, 2, 4 or 8", "train --exact --devices cpu,cpu,cpu");
    assert_prints(2, "there are 3 workers; wanted 1, 2, 4 or 8", "launch -n 3 -- train --exact");
    assert_prints(2, "--threads 2: splitting products over threads changes their bits",
                  "train --exact --threads 2");
    assert_prints(2, "device 'cl:0.0': only cpu", "train --exact --devices cpu,cl:0.0");
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
    gs_settings s = gs_test_settings("%s --verify 4", devices);
    s.test_hook = do_harm;
    harmed_rank = rank;
    harmed_name = name;
    harmed_step = step;
    assert_train_fails(GS_E_DIFFER, wanted, &s);
}

TEST(verify_names_step_worker_and_layer) {
    assert_harm_is_found("cpu,cpu,cpu", 2, "5.weight", 8,
                         "step 8: worker 2's 5.weight differs from worker 0's");
    /* harm in between is found at the next look; where most workers agree, rank 0 can be the one */
    assert_harm_is_found("cpu,cpu,cpu,cpu", 0, "5.bias", 5, "worker 0's 5.bias differs from worker 1's");
    /* of two workers nobody can say which one is right */
    assert_harm_is_found("cpu,cpu", 1, "0.weight", 12,
                         "step 12: worker 1's 0.weight differs from worker 0's");
}

TEST(verify_lets_a_sound_run_pass) {
    gs_settings s = gs_test_settings("cpu,cpu,cpu");
    gs_result plain = gs_test_train(&s), verified;
    s.verify = 1;
    verified = gs_test_train(&s);
    assert_same_bits(&plain, &verified, "--verify 1");
    static const char command[] = "--model softmax --steps 7 --verify 3 --devices cpu,cpu";
    assert_prints(0, "compared every 3 steps", "train %s", command);
    assert_prints(0, "sha256", "launch -n 2 -- train %s", command);
    assert_prints(2, "--verify: '0' is not a whole number", "train --verify 0");
}
