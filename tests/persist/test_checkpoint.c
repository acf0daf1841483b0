/* --checkpoint and --resume DIR: with every strategy, a run resumed from a checkpoint gives the same bits as one that
 * never stopped; errors in a folder are reported. */
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/training.h"

#include <dirent.h>

#include "persist/folder.h"

/* The step of the folder's first checkpoint, from its name. */
static uint64_t first_step(const char *folder) {
    uint64_t first = UINT64_MAX;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (const struct dirent *e = readdir(d); e; e = readdir(d))
        if (strstr(e->d_name, ".json") && strtoull(e->d_name + 5, NULL, 10) < first)
            first = strtoull(e->d_name + 5, NULL, 10);
    closedir(d);
    return first;
}

static const char *file_of(const char *folder, uint64_t step) {
    return gs_test_format("%s/step-%09llu.safetensors", folder, (unsigned long long)step);
}

/* Trains with checkpoints `every` steps apart, or more while an earlier one is still being written. */
static gs_result train_with_checkpoints(gs_settings s, uint64_t every, const char *folder) {
    s.checkpoint = folder;
    s.checkpoint_every.steps = every;
    s.keep.checkpoints = 100;
    gs_result r = gs_test_train(&s);
    assert_true(r.checkpoints.on && r.checkpoints.written >= 2 && r.checkpoints.failed == 0);
    assert_int_equal(r.checkpoints.step, r.steps);
    return r;
}

static gs_result go_on(gs_settings s, const char *folder, const char *devices, uint64_t every) {
    const uint64_t step = first_step(folder);
    if (step < every || step >= s.steps) fail_msg("the first checkpoint is from step %d", (int)step);
    s.resume = file_of(folder, step);
    if (devices) s.devices = devices;
    return gs_test_train(&s);
}

#define NORMED                                                                                               \
    "--model 'conv 4 3x3 stride 2 pad 1 no_bias, batch_norm, tanh, avg_pool 2, dropout 0.25, flatten, "      \
    "linear 10'"

#define DEEP "--model 'conv 4 3x3 stride 4 pad 1, tanh, flatten, linear 16, tanh, linear 12, tanh, linear 10'"

static const struct {
    const char *devices, *options, *others;
    uint64_t every; /* the first checkpoint is in the middle of an epoch, or (19) at its end */
} ways[] = {
    {"cpu", "--optimizer adam", NULL, 7},
    {"cpu,cpu,cpu", "--sync ps", NULL, 7},
    {"cpu,cpu", NORMED " --clip 0.5", NULL, 7},
    {"cpu,cpu", "--sync ring --wire f16", NULL, 19},
    {"cpu,cpu", "--bucket 1 --optimizer adamw", NULL, 7},
    {"cpu,cpu", "--accumulate 3", NULL, 7},
    {"cpu,cpu", "--exact " NORMED, "cpu", 7},
    {"cpu,cpu,cpu", "--zero 1 --optimizer lamb", NULL, 7},
    {"cpu,cpu", "--zero 2 --optimizer adam", NULL, 7},
    {"cpu,cpu,cpu", "--zero 3 --clip 0.5", NULL, 7},
    {"cpu,cpu,cpu,cpu", "--zero 3 --exact", "cpu", 7},
    {"cpu,cpu", "--pipeline 2 --micro-batches 3", NULL, 7},
    {"cpu,cpu,cpu,cpu", "--layout dp2,pp2,zero1 --pipeline-schedule interleaved --optimizer adam " DEEP, NULL,
     7},
    {"cpu,cpu,cpu,cpu", "--pipeline 2 --exact", "cpu,cpu", 7},
    {"cpu,cpu", "--tensor 2 --optimizer adam", NULL, 7},
    {"cpu,cpu,cpu,cpu", "--tensor 2 --clip 0.5", NULL, 7},
    {"cpu,cpu,cpu,cpu", "--tensor 2 --exact", "cpu,cpu", 7},
    {"cpu,cpu", "--sync local --every 5 --optimizer adam", NULL, 5},
    {"cpu,cpu", "--precision bf16", NULL, 7},
    {"cpu,cpu", "--precision f16", NULL, 7},
    {"cpu", "--recompute 2 --offload optimizer,weights", NULL, 7},
};

TEST(each_way) {
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const char *folder = gs_test_format("%s/checkpoints", gs_test_folder());
        const gs_settings s = gs_test_settings("%s %s", ways[i].devices, ways[i].options);
        gs_result whole = train_with_checkpoints(s, ways[i].every, folder);
        gs_result both = go_on(s, folder, ways[i].others, ways[i].every);
        assert_same_bits(&whole, &both, ways[i].options);
        if (i % 7 == 0) { /* checkpoints do not change the result */
            assert_trains_to(&whole, &s, ways[i].options);
        }
    }
}

/* A checkpoint's tensors have the weights' names and shapes, whichever worker held them: any layout can resume. */
TEST(another_layout) {
#define WORDS                                                                                                \
    "--data text:%s --context 32 --batch 24 --model 'embedding 43 16, positions, residual (layer_norm, "     \
    "linear 48, attention 2 causal, linear 16), layer_norm, tied' "
    static const struct {
        const char *first, *then;
        bool rounded;
    } changes[] = {{ON_2 "--layout pp2", ON_2 "--layout tp2", false},
                   {ON_4 "--layout dp2,pp2,zero1", ON_2 "--layout zero3,dp2", false},
                   {ON_2 "--layout tp2", "--layout dp1", false},
                   {"--layout dp1", ON_2 "--layout pp2", false},
                   {"--layout dp1", ON_4 "--layout tp4", false},
                   {ON_4 "--layout tp2,dp2", ON_8 "--layout tp8", false},
                   {ON_2 "--layout dp2,zero1", ON_4 "--layout dp4,zero2", false},
                   {ON_4 "--layout dp4,zero3", ON_2 "--layout dp2,zero1", false},
                   {"--layout dp1,zero2", ON_2 "--layout dp2,zero3", false},
                   {ON_2 "--layout dp2,zero3", "--layout dp1", false},
                   {WORDS ON_8 "--layout dp2,tp2,pp2,zero1", ON_4 "--layout dp2,tp2,zero3", false},
                   {WORDS ON_4 "--layout dp2,tp2,zero2", ON_4 "--layout tp2,pp2", false},
                   {WORDS ON_4 "--layout tp2,pp2", "--devices cpu --layout dp1", false},
                   {WORDS "--layout dp1", ON_8 "--layout dp2,tp2,pp2,zero1", false},
                   {ON_3 "--layout dp3,zero2", ON_2 "--layout pp2", true},
                   {ON_2 "--layout tp2", ON_3 "--layout dp3", true}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const char *folder = gs_test_format("%s/checkpoints", gs_test_folder());
        const char *first = gs_test_format(changes[i].first, gs_test_text_file());
        gs_settings s = gs_test_settings("cpu %s --optimizer adam --lr 0.001", first);
        s.exact = !changes[i].rounded;
        s.pipeline_cut = strstr(s.layout, "pp") ? "flops" : NULL;
        gs_result whole = train_with_checkpoints(s, 7, folder);
        s = gs_test_with(s, "--devices cpu %s", changes[i].then);
        s.pipeline_cut = strstr(s.layout, "pp") ? "flops" : NULL;
        gs_result both = go_on(s, folder, NULL, 7);
        (s.exact ? assert_same_bits : assert_same_within_rounding)(&whole, &both, changes[i].first);
    }
}

TEST(on_an_opencl_device) {
    gs_test_need_opencl();
    const char *folder = gs_test_format("%s/checkpoints", gs_test_folder());
    gs_settings s = gs_test_settings("cl --steps 6 --optimizer adam");
    gs_result whole = train_with_checkpoints(s, 2, folder), both = go_on(s, folder, NULL, 2);
    assert_same_bits(&whole, &both, "cl");
}

/* ---- by the program ---- */

/* The resumed run keeps its strategy, and may write to the folder that it resumes from. */
TEST(by_the_program) {
    static const char *const runs[][2] = {
        {"launch -n 2 -- train --pipeline 2 --micro-batches 3 --pipeline-schedule gpipe",
         "launch -n 2 -- train"},
        {"launch -n 2 -- train --exact --layout tp2", "train --layout dp1"},
        {"train --devices cpu,cpu --sync local --every 6", "train --devices cpu,cpu"}};
    char folder[400], arguments[900];
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        snprintf(folder, sizeof folder, "%s/c", gs_test_folder());
        snprintf(arguments, sizeof arguments,
                 "%s --model \"flatten, linear 16, tanh, linear 10\" --threads 1 --epochs 2 --batch 500",
                 runs[i][0]);
        const char *whole = gs_test_sha256("%s", arguments);
        assert_prints(0, "the last of step 18", "%s --steps 18 --checkpoint %s --checkpoint-every 6 --keep 1",
                      arguments, folder);
        assert_true(gs_checkpoint_is_there(folder, 18));
        assert_false(gs_checkpoint_is_there(folder, 6));
        assert_prints(0, "\nepoch 2/2", "%s --threads 1 --resume %s --epochs 2 --checkpoint %s --keep 1",
                      runs[i][1], folder, folder);
        assert_int_equal(entries(folder), 2);
        snprintf(arguments, sizeof arguments, "%s --resume %s", runs[i][1], folder);
        assert_prints(0, "done     24 steps", "%s", arguments);
        const char *both = gs_test_sha256("%s", arguments);
        assert_string_equal(whole, both);
    }
    assert_prints(0, "\"checkpoint_step\":26,",
                  "train --json --resume %s --steps 26 --epochs 3 --devices cpu,cpu --checkpoint %s", folder,
                  folder);
    assert_prints(0, "test accuracy", "eval --load %s", file_of(folder, 26));
    assert_prints(0, "a new run begins", "train --model softmax --steps 1 --checkpoint %s/n --resume %s/n",
                  folder, folder);
}

/* The same command starts a run, even from given weights, and later resumes it. A damaged checkpoint is ignored. */
TEST(resume_auto) {
#define SMALL "train --model softmax --threads 1 --batch 600 --epochs 9"
    const char *f = gs_test_folder();
    char again[1200];
    assert_prints(0, "sha256", SMALL " --steps 3 --save %s/w.safetensors", f);
    const char *whole = gs_test_sha256(SMALL " --load %s/w.safetensors --steps 30", f);
    snprintf(again, sizeof again,
             SMALL " --load %s/w.safetensors --checkpoint %s/auto --checkpoint-every 7 --resume auto", f, f);
    assert_prints(0, "there is no checkpoint in", "%s --steps 14", again);
    snprintf(again + strlen(again), sizeof again - strlen(again), " --steps 30");
    const char *both = gs_test_sha256("%s", again);
    assert_string_equal(whole, both);
    assert_prints(0, "asks for no more, so nothing is", "%s", again);
    assert_prints(0, "a new run begins",
                  "devices >/dev/null; for i in %s/auto/*.safetensors; do echo x >>$i; done; " GS_BUILD_DIR
                  "/gradsum %s",
                  f, again);
    assert_prints(2, "add --checkpoint DIR", "train --resume auto");
}

/* If a run is killed after its last checkpoint but before it removes the old ones, the next run only removes those. */
TEST(old_ones_are_removed_before_a_run) {
    const char *folder = gs_test_format("%s/old", gs_test_folder());
    static const char run[] = "train --model \"flatten, linear 8, tanh, linear 10\" --threads 1";
    for (int steps = 1; steps <= 4; steps++)
        assert_prints(0, "1 checkpoint", "%s --steps %d --resume %s --checkpoint %s --keep 4", run, steps,
                      folder, folder);
    assert_int_equal(entries(folder), 8);
    assert_prints(0, "done     4 steps", "%s --steps 4 --resume %s --checkpoint %s --keep 2", run, folder,
                  folder);
    assert_int_equal(entries(folder), 4);
    assert_true(gs_checkpoint_is_there(folder, 4) && gs_checkpoint_is_there(folder, 3));
}

TEST(wrong_use) {
    const char *folder = gs_test_folder();
    const char *at = gs_test_format("%s/c", folder);
    assert_prints(0, "1 checkpoint",
                  "train --model \"flatten, linear 8, tanh, linear 10\" --steps 5 --checkpoint %s", at);
    assert_prints(0, "1 checkpoint", "train --resume %s --steps 7 --epochs 2 --checkpoint %s/later", at,
                  folder);
    write_text(in_folder(folder, "file"), "text");
    const char *first = gs_test_format("%s", file_of(at, 5));
    const struct {
        int status;
        const char *message, *arguments;
    } wrong[] = {
        {2, "it needs --checkpoint DIR", "--checkpoint-every 5"},
        {2, "--keep N is for checkpoints", "--keep 5"},
        {2, "'0' is not a whole number from 1 to 1000", "--checkpoint x --keep 0"},
        {2, "'5 steps' is not a number of steps from 1 up, such as 100, or a time",
         "--checkpoint x --checkpoint-every '5 steps'"},
        {2, "'0' is not a number of steps", "--checkpoint x --checkpoint-every 0"},
        {2, "--keep best needs --save FILE", "--checkpoint x --keep best,2"},
        {2,
         "is never at the same step on all workers, so there is no state to go on from exactly: it does "
         "not work with --checkpoint",
         "--checkpoint x --sync async --staleness 1"},
        {1, "cannot make this folder: there is a file of that name", "--checkpoint $FOLDER/file"},
        {1, "cannot make this folder", "--checkpoint $FOLDER/file/in"},
        {2, "it has a checkpoint of another run, after step 5", "--checkpoint $FOLDER/c"},
        {1, "there is no checkpoint in", "--resume $FOLDER"},
        {1, "cannot read", "--resume $FOLDER/nothing"},
        {2, " uses flatten, linear 8, tanh, linear 10; wanted the same, or no --model",
         "--resume $FOLDER/c --steps 6 --model \"flatten, linear 16, tanh, linear 10\""},
        {2, "it has a checkpoint of another run", "--resume $FOLDER/c --steps 9 --checkpoint $FOLDER/later"},
    };
    setenv("FOLDER", folder, 1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_prints(wrong[i].status, wrong[i].message, "train --threads 1 %s", wrong[i].arguments);
    }
    unsetenv("FOLDER");
    assert_prints(0, "the last of step 7", "train --resume %s --steps 7 --epochs 2 --checkpoint %s", at, at);
    assert_prints(2, "it has a later checkpoint than", "train --resume %s --steps 9 --checkpoint %s", first,
                  at);
}
