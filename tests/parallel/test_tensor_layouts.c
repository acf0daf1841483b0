/* --tensor with --pipeline and --zero: up to rounding the weights of one worker, with --exact its bits (also
 * test_layout_weights.c); files are whole; and copies stay alike. */
#include "layer/layer.h"
#include "tests/support/training.h"

static const char four[] = "cpu,cpu,cpu,cpu", six[] = "cpu,cpu,cpu,cpu,cpu,cpu",
                  eight[] = "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu",
                  twelve[] = "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu";

typedef struct division {
    const char *devices, *layout;
} division;

static gs_result train_with(gs_settings s, const division *d) {
    s.devices = d->devices;
    s.layout = d->layout;
    s.pipeline_cut = strstr(d->layout, "pp") ? "flops" : NULL;
    s.micro_batches = s.pipeline_cut && !s.exact ? 2 : 0;
    return gs_test_train(&s);
}

#define CHAIN                                                                                                \
    "flatten, linear 24, relu, linear 12, tanh, linear 12 no_bias, sigmoid, linear 36 no_bias, linear 10"
#define CONVOLUTIONS                                                                                         \
    "conv 5 3x3 pad 1, batch_norm, relu, max_pool 2, conv 6 3x3, relu, flatten, linear 16, tanh, linear 10"

/* Of 43 words, which two do not divide: what all of a group hold lies at other places on each, and where three replicas
 * divide it, at other replicas. positions are in the middle. */
#define WORDS                                                                                                \
    "embedding 43 16, positions, residual (layer_norm, linear 48, attention 2 causal, linear 16), "          \
    "layer_norm, tied"

static gs_settings words(void) {
    gs_settings s = gs_test_settings("cpu --context 32 --batch 24 --steps 6 --verify 1 --model '" WORDS "'");
    s.data = gs_test_format("text:%s", gs_test_text_file());
    return s;
}

/* ---- up to rounding ---- */

static void same_within_rounding(const gs_settings *s, const division *of, int count) {
    gs_result one = gs_test_train(s);
    for (int i = 0; i < count; i++) {
        gs_result r = train_with(*s, &of[i]);
        assert_same_within_rounding(&one, &r, of[i].layout);
        gs_test_near(r.train_loss, one.train_loss, 1e-5, 0, of[i].layout, __FILE__, __LINE__);
        gs_test_near(r.test_loss, one.test_loss, 1e-5, 0, of[i].layout, __FILE__, __LINE__);
    }
}

TEST(the_weights_of_one_worker) {
    static const division all[] = {
        {four, "tp2,pp2"},      {eight, "dp2,tp2,pp2"},  {eight, "dp2,tp2,pp2,zero1"},
        {six, "tp3,dp2,zero1"}, {four, "dp2,tp2,zero2"}, {four, "dp2,tp2,zero3"}};
    gs_settings s = gs_test_settings("cpu --clip 0.5 --verify 3 --model '" CHAIN "'");
    same_within_rounding(&s, all, 6);
    s = gs_test_with(s, "--optimizer lamb --lr 0.001 --steps 4");
    s.clip = 0;
    same_within_rounding(&s, &all[2], 4);
    s = gs_test_settings("cpu --batch-norm ghost:4 --batch 32 --steps 4 --model '" CONVOLUTIONS "'");
    same_within_rounding(&s, all, 2);
    same_within_rounding(&s, &all[4], 2);
}

/* ---- copies ---- */

TEST(words_that_do_not_divide) {
    static const division all[] = {
        {six, "dp3,tp2"}, {six, "dp3,tp2,zero1"}, {six, "dp3,tp2,zero3"}, {twelve, "dp3,tp2,pp2,zero1"}};
    gs_settings s = words();
    gs_result first = train_with(s, &all[0]);
    for (int i = 1; i < 4; i++) {
        gs_result r = train_with(s, &all[i]);
        if (i < 3) assert_same_bits(&first, &r, all[i].layout);
    }
}

/* A worker changes a number of its stage. */
static int spoiler;
static bool spoils_what_is_cut;

static void spoil(gs_worker *w) {
    const float other = 7;
    const gs_model *m = w->model;
    if (w->comm->rank != spoiler || w->step != 2) return;
    for (int i = 0; i < m->param_count; i++) {
        size_t at;
        if ((m->param[i]->cut != GS_UNCUT) != spoils_what_is_cut) continue;
        if (!gs_partition_find(&w->partition, m->param[i], &at)) continue;
        assert_ok(w->device->ops->write(w->device, gs_at(m->weights, at), &other, sizeof other));
        return;
    }
    fail_msg("no such tensor on worker %d", spoiler);
}

/* Of a divided tensor, the same part of the other replica; of another one, all of them. */
TEST(verify_finds_what_is_not_alike) {
    gs_settings s = gs_test_settings(
        "%s --layout dp2,tp2,pp2 --pipeline-cut flops --verify 1 --model '" CHAIN "'", eight);
    s.test_hook = spoil;
    spoiler = 5;
    spoils_what_is_cut = true;
    assert_train_fails(GS_E_DIFFER, "worker 7's 3.weight differs from worker 5's", &s);
    s = gs_test_with(s, "--devices %s --layout tp2,pp2", four);
    spoiler = 3;
    spoils_what_is_cut = false;
    assert_train_fails(GS_E_DIFFER, "worker 3's", &s);
}

/* ---- files ---- */

TEST(saved_and_resumed) {
    static const gs_test_change runs[] = {{{eight, "dp2,tp2,pp2,zero1", 0, 0}, {four, "dp2,tp2,zero3", 0, 0}},
                                          {{four, "dp2,tp2,zero2", 0, 0}, {four, "tp2,pp2", 0, 0}},
                                          {{four, "tp2,pp2", 0, 0}, {"cpu", "dp1", 0, 0}},
                                          {{"cpu", "dp1", 0, 0}, {eight, "dp2,tp2,pp2,zero1", 0, 0}}};
    gs_settings s = gs_test_with(words(), "--exact --optimizer adam --lr 0.001");
    gs_test_goes_on(&s, 4, runs, 4);
}

/* ---- memory ---- */

TEST(memory_is_as_planned) {
    static const division all[] = {{four, "tp2,pp2"},
                                   {eight, "dp2,tp2,pp2,zero1"},
                                   {four, "dp2,tp2,zero1"},
                                   {four, "dp2,tp2,zero3"},
                                   {six, "dp3,tp2,zero1"}};
    gs_settings s = gs_test_with(words(), "--optimizer adam --lr 0.001");
    s.verify = 0;
    for (int i = 0; i < 10; i++) {
        const division *d = &all[i % 5];
        s.exact = i >= 5 && i < 9; /* not of three replicas */
        s.layout = d->layout;
        s.devices = d->devices;
        s.pipeline_cut = strstr(d->layout, "pp") ? "flops" : NULL;
        gs_test_train_as_planned(&s, d->layout);
    }
}
