/* --tensor T --sequence: a group divides the tokens where nothing else is divided (parallel/sequence.h). */
#include <math.h>

#include "layer/memory/recompute.h"
#include "tests/support/counted.h"
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/training.h"
#include "predict/layout_plan.h"
#include "train/tensor.h"

static const char two[] = "cpu,cpu", four[] = "cpu,cpu,cpu,cpu";

/* Dropout in all possible positions; a tied table, and separate words. */
#define BLOCKS                                                                                               \
    "positions, dropout 0.1, 2 x residual (residual (layer_norm, linear 24, attention 4 causal, linear 8, "  \
    "dropout 0.2), residual (layer_norm, linear 32, gelu, linear 8, dropout 0.1)), layer_norm, "
static const char tied[] = "embedding 40 8, " BLOCKS "tied",
                  words[] = "embedding 43 8, " BLOCKS "tanh, linear 43";

static gs_settings settings_of(const char *model) {
    gs_settings s = gs_test_with(gs_test_settings("cpu"),
                                 "--model '%s' --context 8 --batch 24 --steps 4 --clip 0.1", model);
    s.data = gs_test_format("text:%s", gs_test_text_file());
    return s;
}

#define TEXT "--data text:@ --context 8 --batch 24 --steps 4 --clip 0.1 --model '%s' "

TEST(the_weights_of_one_worker) {
    for (int m = 0; m < 2; m++)
        assert_ways_are_near(gs_test_format(TEXT "--verify 2", m ? words : tied),
                             ON_2 "--sequence --layout tp2 --micro-batch 5", ON_4 "--sequence --layout tp4",
                             ON_4 "--sequence --layout dp2,tp2,zero3", ON_4 "--sequence --layout pp2,tp2");
}

/* For groups of any size, with and without --sequence. */
TEST(exact_has_the_bits_of_one_worker) {
    static const char common[] = TEXT "--exact --optimizer adamw --lr 0.01";
    assert_ways_have_the_bits(gs_test_format(common, tied), ON_2 "--sequence --layout tp2",
                              ON_4 "--sequence --layout pp2,tp2");
    assert_ways_have_the_bits(gs_test_format(common, words), ON_4 "--sequence --layout tp4",
                              ON_4 "--sequence --layout dp2,tp2,zero1 --recompute blocks");
    assert_ways_have_the_bits(
        gs_test_format(TEXT "--exact --optimizer adamw --lr 0.01 --precision bf16", words),
        ON_2 "--sequence --layout tp2");
}

TEST(on_opencl_too) {
    gs_test_need_opencl();
    assert_ways_are_near(gs_test_format(TEXT "--steps 2", words), "--devices cl,cl --sequence --layout tp2");
}

TEST(between_processes) {
    const char *common =
        gs_test_format("train --model \"%s\" --data text:%s --context 8 --batch 16 --steps 3 --exact", words,
                       gs_test_text_file());
    const char *one = gs_test_sha256("%s", common);
    const char *divided = gs_test_sha256("launch -n 2 -- %s --tensor 2 --sequence", common);
    assert_string_equal(one, divided);
}

/* ---- bytes ---- */

static bool of_all(const gs_call *call) {
    return call->operation == GS_SEND || call->operation == GS_ALL_GATHER ||
           call->operation == GS_REDUCE_SCATTER;
}

/* Each call sends (T - 1) / T times a tensor of tokens x width: a pair replaces its all-reduce by a reduce-scatter and
 * an all-gather, and adds an all-gather; the embedding needs both, or with a shared table only the all-gather. Added to
 * this are the sums of each layer_norm's gradients, the gather of the positions' gradients, and the loss's sums. */
TEST(bytes_are_those_of_the_formula) {
    enum { BLOCKS_THERE = 2, WIDTH = 8, TOKENS = 24 * 8, CONTEXT = 8, NORMS = 2 * BLOCKS_THERE + 1 };
    for (int i = 0; i < 4; i++) {
        gs_counted_run t = {.settings = settings_of(i % 2 ? words : tied), .counts = of_all};
        gs_settings *s = &t.settings;
        const double n = s->tensor = i < 2 ? 2 : 4;
        s->sequence = true;
        s->clip = 0;
        s->steps = 3;
        gs_test_set(gs_load_set(s, GS_TRAIN, &t.train), &t.train);
        gs_test_set(gs_load_set(s, GS_TEST, &t.test), &t.test);
        gs_counted_train(&t, s->tensor);
        const double table = i % 2 ? 1 : 2, head = 3, loss = 2 * (n + 3) * TOKENS,
                     gradients = 2 * 2.0 * WIDTH * NORMS + WIDTH * CONTEXT,
                     tensors = (10 * BLOCKS_THERE + table + head) * TOKENS * WIDTH;
        const double sent = (n - 1) / n * (tensors + gradients + loss) * sizeof(float);
        for (int r = 0; r < s->tensor; r++) assert_near(t.measured[r], sent, 1e-6 * sent, 0);
        /* of pairs, of the head and the table; 2 for the loss, 1 per norm */
        assert_near(t.result.tensor.sums, 4 * BLOCKS_THERE + 1 + (table - 1) + 2 + NORMS, 1e-9, 0);
        assert_near(t.result.tensor.gathers, 6 * BLOCKS_THERE + 2 + 1 + 1, 1e-9, 0);
    }
}

/* ---- memory ---- */

/* Memory is planned exactly. Both --tensor and --sequence reduce it, mainly that of activations. */
TEST(memory_is_foreseen) {
    static const char *const what[] = {"two replicas", "--tensor", "--sequence"};
    for (int exact = 0; exact < 2; exact++) {
        double most[3], activations[3];
        for (int i = 0; i < 3; i++) {
            gs_settings s = gs_test_with(settings_of(tied), "--devices %s", two);
            s.exact = exact;
            s.tensor = i > 0 ? 2 : 0;
            s.batch = i > 0 ? 96 : 192; /* the same number of samples per worker */
            s.sequence = i == 2;
            const gs_result r = gs_test_train_as_planned(&s, what[i]);
            most[i] = gs_memory_total(&r.worker[0].memory[GS_ON_DEVICE]);
            activations[i] = r.worker[0].memory[GS_ON_DEVICE].bytes[GS_MEMORY_ACTIVATIONS];
            if (i > 0 && (most[i] >= most[i - 1] || activations[i] >= activations[i - 1]))
                fail_msg("exact %d, %s: %g bytes, activations %g; without it %g, %g", exact, what[i], most[i],
                         activations[i], most[i - 1], activations[i - 1]);
        }
    }
}

/* ---- other commands and options ---- */

/* gradsum layout: with --sequence, every layout's bytes equal those of a run, and its memory that of the dry run. */
TEST(layouts_have_it) {
    static const gs_layout wanted[] = {{2, 2, 1, 0}, {2, 2, 1, 3}, {1, 2, 2, 0}, {1, 4, 1, 0}};
    gs_settings s = settings_of(words);
    gs_layout_plan plan;
    int found = 0;
    s = gs_test_with(s, "--sequence --threads 1 --micro-batches 2 --pipeline-cut flops");
    assert_ok(gs_layout_plan_create(&s, four, 4, NULL, NULL, &plan));
    for (int i = 0; i < plan.costs; i++) {
        const gs_layout_cost *c = &plan.cost[i];
        char name[GS_LAYOUT_TEXT];
        bool is_wanted = false;
        for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++)
            is_wanted |= memcmp(&wanted[k], &c->layout, sizeof c->layout) == 0;
        if (!is_wanted) continue;
        gs_layout_text(&c->layout, name);
        found += c->sequence ? 1 : 100;
        gs_result r;
        double memory = 0;
        assert_ok(gs_layout_plan_run(&plan, c, 2, NULL, &r));
        for (int w = 0; w < 4; w++) memory = fmax(memory, gs_memory_total(&r.worker[w].memory[GS_ON_DEVICE]));
        gs_test_near(r.sent_most, c->sent, 0.01 * c->sent, 0, name, __FILE__, __LINE__);
        gs_test_near(memory, c->memory, 0.03 * memory, 0, name, __FILE__, __LINE__);
        gs_result_free(&r);
    }
    assert_int_equal(found, 404);
    gs_layout_plan_free(&plan);
}

/* --offload does not change the bits. */
TEST(it_goes_with_offload) {
    static const char *const runs[] = {ON_2, ON_2 "--exact", "--devices cl,cl"};
    for (int i = 0; i < (gs_test_has_opencl() ? 3 : 2); i++) {
        gs_settings s = gs_test_with(settings_of(words),
                                     "--steps 2 --optimizer adamw --layout tp2 --sequence %s", runs[i]);
        gs_result without = gs_test_train(&s);
        s.offload = i == 2 ? GS_OFFLOAD_ACTIVATIONS | GS_OFFLOAD_OPTIMIZER : GS_OFFLOADS;
        s.offload_dir = gs_test_folder();
        gs_result with = gs_test_train(&s);
        assert_true(with.offload.on && with.offload.bytes > 0);
        assert_same_bits(&without, &with, runs[i]);
    }
}

/* ---- use ---- */

TEST(bad_use_is_told) {
    const char *on = "--data jargon --steps 1 --devices cpu,cpu";
    assert_prints(2, "it needs --tensor T", "train --model gpt %s --sequence", on);
    gs_settings s = gs_test_settings("%s --model 'linear 4, relu, linear 10' --tensor 2 --sequence", two);
    assert_fails(GS_E_USAGE, "--sequence: the model takes no sequences",
                 gs_tensor_check_workers(&s, (gs_shape){6, 1, 1, 0}));
    assert_prints(2, "layer 0 (flatten): with --sequence each worker",
                  "train --model mlp --devices cpu,cpu --tensor 2 --sequence");
    assert_prints(2, "layer 0 (embedding 155 128 std 0.02): with --sequence its 9 tokens cannot be divided",
                  "train --model gpt --context 9 %s --tensor 2 --sequence", on);
    assert_prints(2, "layer 1 (linear 8): with --sequence each worker",
                  "train --model \"embedding 155 8, linear 8, layer_norm, linear 16, gelu, linear 8, "
                  "linear 155\" %s --tensor 2 --sequence",
                  on);
    for (int i = 0; i < 3; i++) /* a worker would get the outputs of only some tokens */
        assert_prints(2, "needs all; wanted a last layer tied, or linear that does not end a pair",
                      "train --model \"embedding 155 155, positions, %s\" %s --tensor 2 --sequence",
                      (const char *[]){"linear 16, gelu, linear 155", "linear 16, gelu, linear 155, tanh",
                                       "residual (linear 16, gelu, linear 155)"}[i],
                      on);
    static const char layer[] = "layer 0 (flatten): with --sequence each worker";
    assert_prints(1, "tp2 --sequence: --tensor 2: layer 0 (flatten): with --sequence",
                  "layout --workers 2 --model mlp --max-memory 1 --sequence");
    assert_prints(2, layer, "step --tensor 2 --model mlp --sequence");
    assert_prints(2, layer,
                  "simulate --flops 1TFLOP/s --workers 2 --layout tp2 --link 1us,1GB/s --model mlp "
                  "--sequence");
    assert_prints(2, "it needs --tensor T",
                  "simulate --flops 1TFLOP/s --workers 2 --link 1us,1GB/s --model gpt --sequence");
}

TEST(what_it_says) {
    assert_prints(0, "all-gathers of",
                  "train --model \"%s\" --data text:%s --context 8 --batch 4 --steps 1 --devices cpu,cpu "
                  "--tensor 2 --sequence",
                  tied, gs_test_text_file());
}

/* A resumed run with groups keeps --sequence; one without groups drops it. */
TEST(resumed_with_another_layout) {
    static const struct {
        const char *more, *says;
    } then[] = {{"--devices cpu,cpu", "all-gathers of"},
                {"--devices cpu,cpu,cpu,cpu --layout tp2,dp2", "all-gathers of"},
                {"--device cpu --layout dp1", "done     2 steps"},
                {"--devices cpu,cpu --layout pp2", "done     2 steps"},
                {"--devices cpu,cpu --zero 1", "done     2 steps"}};
    const char *path = in_folder(gs_test_folder(), "s.st");
    gs_test_output(0,
                   "train --model \"%s\" --data text:%s --context 8 --batch 8 --steps 1 --devices "
                   "cpu,cpu --tensor 2 --sequence --save %s --save-state",
                   words, gs_test_text_file(), path);
    for (size_t i = 0; i < sizeof then / sizeof *then; i++)
        assert_prints(0, then[i].says, "train --resume %s --steps 2 %s", path, then[i].more);
}
