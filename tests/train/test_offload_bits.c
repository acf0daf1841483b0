/* --offload gives the same bits with rarely needed data in a file or in the host's memory. */
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/training.h"

#include "train/offload.h"

/* The update has three blocks, the last one smaller; the model has nine units. */
#define RUN                                                                                                  \
    "--batch 60 --steps 5 --epochs 1 --threads 1 --optimizer adam --model 'flatten, linear 512, relu, "      \
    "linear 512, dropout 0.2, tanh, linear 60, layer_norm, linear 50, gelu, linear 40, tanh, linear 30, "    \
    "linear 10' "

/* A network with pooling, a residual and running statistics; and one with a block that contains a shortcut. */
#define POOLED                                                                                               \
    "--batch-norm local --model 'conv 4 3x3 pad 1, batch_norm, relu, max_pool 2, residual (conv 4 3x3 pad "  \
    "1, batch_norm | conv 4 1x1), relu, global_avg_pool, flatten, linear 10' "
#define BLOCKS                                                                                               \
    "--batch-norm local --steps 3 --model 'block down C = residual (conv C 3x3 stride 2 pad 1, batch_norm, " \
    "relu, conv C 3x3 pad 1, batch_norm | conv C 1x1 stride 2, batch_norm), relu; conv 4 3x3 pad 1, "        \
    "batch_norm, relu, max_pool 2, 2 x down 6, conv 6 3x3 pad 1, relu, global_avg_pool, flatten, dropout "   \
    "0.1, linear 10' "

/* On OpenCL the run also uses exactly the planned memory, kind by kind. */
static void assert_same_with(const char *options, const char *offload) {
    const gs_settings s = gs_test_base(gs_test_format(RUN "%s", options));
    const gs_settings off = gs_test_with(s, "--offload %s --offload-dir %s", offload, gs_test_folder());
    const char *what = gs_test_format("%s, --offload %s", options, offload);
    const gs_result without = gs_test_train(&s), with = strstr(s.devices, "cl")
                                                            ? gs_test_train_as_planned(&off, what)
                                                            : gs_test_train(&off);
    assert_same_bits(&without, &with, what);
    assert_false(without.offload.on);
    assert_true(with.offload.on && with.offload.bytes > 0);
    assert_int_equal(entries(off.offload_dir), 0);
}

/* In a tensor-parallel group, each worker offloads its part of the divided layers. */
TEST(each_list_of_what_is_offloaded) {
    static const char *const runs[] = {"", ON_2 "--tensor 2 --clip 0.1", "--devices cl"},
                             *const optimizers[] = {"adam", "adamw", "sgd", "nesterov"};
    for (int i = 0; i < (gs_test_has_opencl() ? 3 : 2); i++)
        for (unsigned offload = 1; offload <= GS_OFFLOADS; offload++) {
            char list[GS_OFFLOAD_TEXT];
            assert_same_with(gs_test_format("%s --optimizer %s", runs[i], optimizers[offload % 4]),
                             gs_offload_text(offload, list, sizeof list));
        }
}

typedef struct run {
    const char *options, *offload;
} run;
#define ALL "optimizer,activations,weights"
#define BOTH "optimizer,activations"

static void assert_all_same(const run *runs, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!strstr(runs[i].options, "cl") || gs_test_has_opencl())
            assert_same_with(runs[i].options, runs[i].offload);
}

/* Tests several passes per step, the last one smaller; a table that two layers share; and several workers. */
TEST(layers_passes_and_workers) {
    static const run runs[] = {
        {POOLED "--threads 2", ALL},
        {POOLED "--micro-batch 25 --clip 0.1", ALL},
        {ON_2, ALL},
        {ON_2 "--bucket 100", ALL},
        {ON_2 "--exact", ALL},
        {ON_2 "--exact --batch-norm global --model 'conv 4 3x3 pad 1, batch_norm, relu, flatten, linear 10'",
         ALL},
        {"--devices cl --micro-batch 25 --clip 0.1", ALL},
        {"--devices cl --clip 0.1 --recompute 3", ALL},
        {"--devices cl", "optimizer"},
        {"--devices cl --optimizer lamb", "activations"},
        {"--devices cl " BLOCKS, ALL},
        {"--devices cl --recompute blocks " BLOCKS, ALL},
        {"--devices cl --steps 3 --batch 4 --data text:@ --model 'embedding 40 16, positions, 2 x (residual "
         "(layer_norm, linear 48, attention 2), residual (layer_norm, linear 32, gelu, linear 16)), "
         "layer_norm, tied'",
         ALL},
        {"--devices cl,cl --verify 2", ALL},
        {"--devices cpu,cl --verify 2", ALL},
        {"--devices cpu,cl --optimizer sgd", "optimizer"},
        {"--devices cl,cl --optimizer sgd", "optimizer"},
    };
    assert_all_same(runs, sizeof runs / sizeof *runs);
}

/* With stages and ZeRO, a worker offloads the vectors that it updates and the activations that it computes. */
TEST(workers_that_hold_parts) {
    static const run runs[] = {
        {ON_2 "--zero 1", BOTH},
        {ON_2 "--zero 2 --accumulate 3 --recompute 2", BOTH},
        {ON_3 "--zero 3 --clip 0.1 --verify 2", BOTH},
        {ON_2 "--zero 3 --exact", BOTH},
        {ON_2 "--pipeline 2", BOTH},
        {ON_2 "--pipeline 2 --pipeline-schedule gpipe --precision bf16 --recompute 2", BOTH},
        {ON_2 "--pipeline 2 --pipeline-schedule interleaved --verify 2", BOTH},
        {ON_4 "--layout dp2,pp2,zero1 --clip 0.1", BOTH},
        {ON_4 "--layout dp2,pp2,zero3 --exact", BOTH},
        {ON_4 "--layout tp2,pp2 --precision f16", BOTH},
        {ON_2 "--sync local --every 2", "activations"},
        {ON_2 "--tensor 2 --clip 0.1 --recompute 2", ALL},
        {ON_4 "--tensor 2 --clip 0.1 --recompute 2 --exact", ALL},
        {"--devices cl,cl --zero 1", BOTH},
        {"--devices cl,cpu --zero 2 --accumulate 2 --recompute 3", BOTH},
        {"--devices cl,cl --zero 3 --clip 0.1 --precision f16", BOTH},
        {"--devices cl,cl --pipeline 2 --pipeline-cut flops --precision bf16", BOTH},
        {"--devices cpu,cl --pipeline 2 --pipeline-cut flops --pipeline-schedule gpipe --micro-batches 12",
         BOTH},
        {"--devices cl,cl,cl,cl --layout dp2,pp2,zero3 --pipeline-cut flops", BOTH},
        {"--devices cl,cl --tensor 2 --clip 0.1 --verify 2", ALL},
        {"--devices cl,cl --tensor 2 --model 'conv 8 3x3 pad 1, batch_norm, relu, conv 8 3x3 pad 1, "
         "batch_norm, relu, "
         "flatten, linear 10'",
         ALL},
    };
    assert_all_same(runs, sizeof runs / sizeof *runs);
}

/* Recomputed segments of several layers, of one layer, and segments with nothing to offload. */
TEST(segments_that_are_computed_again) {
    static const char *const models[] = {"", BLOCKS}, *const segments[] = {"all", "blocks " ON_2, "2",
                                                                           "3 " ON_2};
    for (int m = 0; m < 2; m++)
        for (int i = 0; i < 4; i++) {
            const char *options = gs_test_format("%s --recompute %s", models[m], segments[i]);
            assert_same_with(options, "activations");
            assert_same_with(options, "activations,weights");
        }
    assert_same_with(BLOCKS ON_2 "--exact --batch-norm global --recompute 2", ALL);
}

TEST(processes_give_the_same_bits) {
    static const char RUN_OF_TWO[] =
        "launch -n 2 -- train --model 'flatten, 6 x (linear 200, tanh), linear 10' "
        "--steps 3 --batch 24 --threads 1 --optimizer adam --device %s %s %s";
    static const char *const layouts[] = {"--zero 3", "--pipeline 2"};
    for (int i = 0; i < (gs_test_has_opencl() ? 4 : 2); i++) {
        const char *device = i < 2 ? "cpu" : "cl", *layout = layouts[i % 2];
        assert_string_equal(gs_test_sha256(RUN_OF_TWO, device, layout, ""),
                            gs_test_sha256(RUN_OF_TWO, device, layout, "--offload optimizer,activations"));
    }
}
