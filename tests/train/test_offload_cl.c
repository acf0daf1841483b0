/* --offload on OpenCL devices: y of the layers and weights are in the host's memory, and come back in time. */
#include "tests/support/devices.h"
#include "tests/support/training.h"

#include <math.h>
#include <string.h>

#include "layer/memory/recompute.h"
#include "train/offload.h"

/* Nine units, and an update of three blocks. */
static gs_settings settings(const char *devices) {
    gs_settings s = gs_test_settings("%s", devices);
    s.model = "flatten, linear 512, relu, linear 512, dropout 0.2, tanh, linear 60, layer_norm, linear 50, "
              "gelu, linear 40, tanh, linear 30, linear 10";
    s = gs_test_with(s, "--batch 60 --steps 5 --epochs 1 --optimizer adam");
    s.lr = s.momentum = (float)NAN;
    return s;
}

/* And the plan is what the run takes, kind by kind. */
static void assert_same_with(gs_settings s, unsigned offload, const char *what) {
    gs_result without = gs_test_train(&s);
    s.offload = offload;
    gs_result with = gs_test_train_as_planned(&s, what);
    assert_same_bits(&without, &with, what);
    assert_true(with.offload.on && with.offload.bytes > 0);
}

TEST(the_same_bits) {
    gs_test_need_opencl();
    static const gs_optimizer_ops *const all[] = {&gs_adam, &gs_adamw, &gs_sgd, &gs_nesterov};
    for (unsigned offload = 1; offload <= GS_OFFLOADS; offload++) {
        char what[GS_OFFLOAD_TEXT];
        gs_settings s = settings("cl");
        s.optimizer = all[offload % 4];
        assert_same_with(s, offload, gs_offload_text(offload, what, sizeof what));
    }
    gs_settings s = settings("cl");
    s.micro_batch = 25; /* several passes in a step, the last one smaller */
    s.clip = 0.1f;
    assert_same_with(s, GS_OFFLOADS, "in several passes, clipped");
    s.micro_batch = 0;
    s.recompute = 3;
    assert_same_with(s, GS_OFFLOADS, "--recompute 3");
    s.recompute = GS_RECOMPUTE_NONE;
    assert_same_with(s, GS_OFFLOAD_OPTIMIZER, "adam, its vectors alone");
    s.optimizer = &gs_lamb;
    assert_same_with(s, GS_OFFLOAD_ACTIVATIONS, "activations with lamb");
}

TEST(the_same_bits_of_other_layers) {
    gs_test_need_opencl();
    static const int segments[] = {GS_RECOMPUTE_NONE, GS_RECOMPUTE_BLOCKS};
    for (size_t i = 0; i < sizeof segments / sizeof *segments; i++) {
        gs_settings s = settings("cl");
        s.model = "block down C = residual (conv C 3x3 stride 2 pad 1, batch_norm, relu, conv C 3x3 pad 1, "
                  "batch_norm | conv C 1x1 stride 2, batch_norm), relu; conv 4 3x3 pad 1, batch_norm, relu, "
                  "max_pool 2, 2 x down 6, conv 6 3x3 pad 1, relu, global_avg_pool, flatten, dropout 0.1, "
                  "linear 10";
        s = gs_test_with(s, "--batch-norm local --steps 3");
        s.recompute = segments[i];
        assert_same_with(s, GS_OFFLOADS, "pooling, residuals and running statistics");
    }
    gs_settings s = settings("cl");
    s.data = gs_test_format("text:%s", gs_test_text_file());
    s.model = "embedding 40 16, positions, 2 x (residual (layer_norm, linear 48, attention 2), residual "
              "(layer_norm, linear 32, gelu, linear 16)), layer_norm, tied";
    s = gs_test_with(s, "--steps 3 --batch 4");
    assert_same_with(s, GS_OFFLOADS, "a table that two layers share");
}

TEST(the_same_bits_with_several_workers) {
    gs_test_need_opencl();
    gs_settings s = gs_test_with(settings("cl,cl"), "--verify 2");
    assert_same_with(s, GS_OFFLOADS, "two workers");
    s.devices = "cpu,cl";
    assert_same_with(s, GS_OFFLOADS, "cpu and cl");
    s.optimizer = &gs_sgd;
    assert_same_with(s, GS_OFFLOAD_OPTIMIZER, "sgd on cpu and cl");
    s.devices = "cl,cl";
    assert_same_with(s, GS_OFFLOAD_OPTIMIZER, "sgd on two cl devices");
}

/* Stages and ZeRO: a worker offloads the vectors that it updates, and the activations that it computes. */
TEST(the_same_bits_where_workers_hold_parts) {
    gs_test_need_opencl();
    static const struct {
        const char *run;
        unsigned offload;
    } cases[] = {
        {"--devices cl,cl --zero 1", GS_OFFLOAD_OPTIMIZER | GS_OFFLOAD_ACTIVATIONS},
        {"--devices cl,cpu --zero 2 --accumulate 2 --recompute 3",
         GS_OFFLOAD_OPTIMIZER | GS_OFFLOAD_ACTIVATIONS},
        {"--devices cl,cl --zero 3 --clip 0.1 --precision f16",
         GS_OFFLOAD_OPTIMIZER | GS_OFFLOAD_ACTIVATIONS},
        {"--devices cl,cl --pipeline 2 --pipeline-cut flops --precision bf16",
         GS_OFFLOAD_OPTIMIZER | GS_OFFLOAD_ACTIVATIONS},
        {"--devices cpu,cl --pipeline 2 --pipeline-cut flops --pipeline-schedule gpipe --micro-batches 12",
         GS_OFFLOAD_OPTIMIZER | GS_OFFLOAD_ACTIVATIONS},
        {"--devices cl,cl,cl,cl --layout dp2,pp2,zero3 --pipeline-cut flops",
         GS_OFFLOAD_OPTIMIZER | GS_OFFLOAD_ACTIVATIONS},
        {"--devices cl,cl --tensor 2 --clip 0.1 --verify 2", GS_OFFLOADS},
        {"--devices cl,cl --tensor 2 --model 'conv 8 3x3 pad 1, batch_norm, relu, conv 8 3x3 pad 1, "
         "batch_norm, relu, flatten, linear 10'",
         GS_OFFLOADS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_same_with(gs_test_with(settings("cl"), "%s", cases[i].run), cases[i].offload, cases[i].run);
}

/* Three of ten layers are there at once, and a few of their weights. */
TEST(it_takes_less) {
    gs_test_need_opencl();
    static const struct {
        unsigned offload;
        gs_memory_kind kind;
        double most;
    } cases[] = {{GS_OFFLOAD_ACTIVATIONS, GS_MEMORY_ACTIVATIONS, 0.5},
                 {GS_OFFLOAD_WEIGHTS, GS_MEMORY_WEIGHTS, 0.7}};
    gs_settings s = gs_test_with(
        settings("cl"), "--model 'flatten, linear 700, 9 x (linear 700, tanh), linear 10' --batch 200");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double took[2];
        for (int with = 0; with < 2; with++) {
            gs_memory_plan plan;
            s.offload = with ? cases[i].offload : 0;
            assert_ok(gs_memory_plan_create(&s, &plan));
            took[with] = plan.worker[0].use[GS_ON_DEVICE].bytes[cases[i].kind];
            gs_memory_plan_free(&plan);
        }
        if (took[1] > cases[i].most * took[0])
            fail_msg("%s: %.0f bytes instead of %.0f", gs_memory_word(cases[i].kind), took[1], took[0]);
    }
}

/* Saved, resumed, recorded, shown in histograms: all find the weights where they are. */
TEST(whoever_reads_weights_finds_them) {
    gs_test_need_opencl();
    const char *folder = gs_test_folder();
    static const char RUN[] = "--model \"conv 4 3x3 pad 1, batch_norm, relu, flatten, linear 512, linear "
                              "512, tanh, linear 10\" --device cl --batch 20 --optimizer adam",
                      OFF[] = "--offload optimizer,activations,weights";
    const char *whole = gs_test_sha256("train %s --steps 4", RUN);
    assert_prints(0, "sha256", "train %s --steps 2 --save %s/half.st --save-state --digest %s/off %s", RUN,
                  folder, folder, OFF);
    assert_prints(0, "sha256", "train %s --steps 2 --digest %s/on", RUN, folder);
    assert_prints(0, "the same, to the bit", "explain %s/off %s/on", folder, folder);
    assert_string_equal(whole, gs_test_sha256("train %s --steps 4 --resume %s/half.st --log %s/log %s", RUN,
                                              folder, folder, OFF));
}

/* ---- --fit ---- */

/* As few kinds as suffice. */
TEST(fit_offloads) {
    static const char RUN[] = "memory --model \"flatten, linear 1000, 7 x linear 1000, linear 10\" "
                              "--optimizer adam --batch 2 --micro-batch 1 --max-memory %d --fit --device %s";
    const char *devices[] = {"cpu", "cl"};
    for (int i = 0; i < (gs_test_has_opencl() ? 2 : 1); i++) {
        static const struct {
            int limit[2];
            const char *chosen;
        } cases[] = {{{114, 80}, "--fit chose --offload optimizer, with "},
                     {{97, 60}, "--fit chose --offload optimizer,weights, with "}};
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            const char *line = gs_test_format(RUN, cases[c].limit[i], devices[i]);
            const char *text = gs_test_output(0, "%s", line);
            if (!strstr(text, cases[c].chosen)) fail_msg("%s: %s", line, text);
        }
    }
}
