/* A memory limit: which options help, what --fit chooses, and what theory says (predict/memory.h). */
#include "tests/support/devices.h"
#include "tests/support/training.h"

#include <inttypes.h>

static gs_settings wide_settings(const char *devices) {
    gs_settings s = gs_test_settings("%s --model 'flatten, linear 400, linear 400, linear 10' "
                                     "--optimizer adam --lr 0.001 --batch 512 --steps 2",
                                     devices);
    return s;
}

static double most_with(const gs_settings *s) {
    gs_memory_plan plan;
    assert_ok(gs_memory_plan_create(s, &plan));
    const double most = gs_memory_most(&plan, NULL);
    gs_memory_plan_free(&plan);
    return most;
}

/* ---- --fit ---- */

static gs_settings fitted(gs_settings s, int max_memory, char *why, size_t size) {
    gs_memory_plan plan;
    s.max_memory = max_memory;
    s.fit = true;
    assert_ok(gs_memory_plan_create(&s, &plan));
    assert_true(gs_memory_most(&plan, NULL) > max_memory * 1e6);
    assert_ok(gs_memory_check(&s, &plan, why, size));
    assert_true(gs_memory_most(&plan, NULL) <= max_memory * 1e6); /* the plan matches the new settings */
    assert_near(gs_memory_most(&plan, NULL), most_with(&s), 0, 0);
    gs_memory_plan_free(&plan);
    return s;
}

/* --fit first halves micro-batches, no more often than necessary, then adds ZeRO; the run stays within the limit. The
 * operators' scratch memory depends on the CPU. A run takes about 16 MB, but 13.1 with micro-batches of 1 sample, and
 * 9.3 with --zero 1 too. */
TEST(the_cheapest_that_fits_is_chosen) {
    static const struct {
        int limit, zero;
        const char *why;
    } cases[] = {{15, 0, "; the cost: smaller products"},
                 {11, 1, "; what is cheaper does not suffice: --micro-batch 1 would take 13."}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char why[GS_FIT_TEXT];
        const gs_settings given = wide_settings("cpu,cpu");
        gs_settings s = fitted(given, cases[i].limit, why, sizeof why);
        assert_int_equal(s.zero, cases[i].zero);
        const char *begins =
            gs_test_format("--micro-batch %d%s, with 1", (int)s.micro_batch, s.zero ? " --zero 1" : "");
        if (strncmp(why, begins, strlen(begins)) != 0 || !strstr(why, cases[i].why))
            fail_msg("--max-memory %d: %s", cases[i].limit, why);
        gs_settings larger = s;
        larger.micro_batch *= 2;
        assert_true(most_with(&larger) > cases[i].limit * 1e6);
        s = gs_test_with(given, "--fit");
        s.max_memory = cases[i].limit;
        gs_result r = gs_test_train(&s);
        assert_int_equal(r.zero.stage, cases[i].zero);
        for (int w = 0; w < r.workers; w++) {
            const double took = gs_memory_total(&r.worker[w].memory[GS_ON_DEVICE]);
            assert_true(took <= 1.03 * cases[i].limit * 1e6);
            assert_near(took, gs_memory_total(&r.worker[w].planned[GS_ON_DEVICE]), 0.03 * took, 0);
        }
    }
}

/* The sentence is never truncated, whatever its length. */
TEST(all_that_did_not_suffice_is_told) {
    char *text = gs_test_output(0, "memory --model gpt --data text:LICENSE --devices cpu,cpu --batch 12 "
                                   "--threads 1 --max-memory 40 --fit");
    const char *line = strstr(text, "--fit chose "), *end = line ? strchr(line, '\n') : NULL;
    if (!end || strncmp(end - 3, " MB", 3) != 0 || !strstr(line, "--zero 3 --offload ")) fail_msg("%s", text);
}

/* A pipeline's batch is divided into more micro-batches, of a size that batch_norm's groups allow. */
TEST(other_runs_have_other_options) {
    char why[GS_FIT_TEXT];
    gs_settings s = gs_test_settings("cpu,cpu --model 'conv 16 3x3 pad 1, relu, conv 16 3x3 pad 1, relu, "
                                     "flatten, linear 10' --batch 1024 --pipeline 2");
    const int before = (int)(most_with(&s) / 1e6);
    const gs_settings cut = fitted(s, before, why, sizeof why);
    assert_true(cut.micro_batches == 16 && cut.micro_batch == 0);
    s = gs_test_settings("cpu --model 'conv 16 3x3 pad 1, batch_norm, relu, flatten, linear 10' --batch 256");
    s.batch_norm = (gs_batch_norm_groups){.over = GS_BATCH_NORM_GHOST, .group = 16};
    const gs_settings ghost = fitted(s, (int)(most_with(&s) / 1e6), why, sizeof why);
    assert_int_equal(ghost.micro_batch, 128);
}

/* With several pipelines, a stage's replicas can divide what it holds. With --layout, the advice is a layout. */
#define EIGHT_LAYERS                                                                                         \
    "linear 99, linear 99, linear 99, linear 99, linear 99, linear 99, linear 99, linear 99, "
TEST(stages_have_zero_too) {
    static const char RUN[] = "memory --model \"flatten, linear 500, relu, linear 500, relu, linear 10\" "
                              "--devices cpu,cpu,cpu,cpu --optimizer adam --threads 1";
    assert_prints(0, "--layout dp2,pp2,zero1 1/2 of vectors", "%s --layout dp2,pp2", RUN);
    assert_prints(0, "--zero 1               1/2 of vectors", "%s --pipeline 2", RUN);
    assert_prints(
        0, "--layout dp2,pp2,zero2 1/2 of gradients too; windows",
        "memory --devices cpu,cpu,cpu,cpu --layout dp2,pp2 --threads 1 --model \"max_pool 4, flatten, %s%s\"",
        EIGHT_LAYERS, EIGHT_LAYERS "linear 10");
    assert_prints(0, "with ZeRO 1: 8 + 8/2 bytes\n", "%s --layout dp2,pp2,zero1", RUN);
}

/* All processes reach the same result, although rank 0 needs more memory. */
TEST(processes_choose_the_same) {
    assert_prints(0, "--micro-batch ",
                  "launch -n 2 -- train --model lenet --max-memory 5 --fit --steps 3 --threads 1 "
                  "--save-state --save %s/fit.safetensors",
                  gs_test_folder());
}

TEST(what_does_not_fit_is_refused_or_made_to_fit) {
    static const char RUN[] = "--model \"conv 16 3x3 pad 1, tanh, global_avg_pool, flatten, linear 10\" "
                              "--batch 256 --steps 2 --threads 1";
    assert_prints(1, "--max-memory 1: worker 0 (cpu) would take", "train %s --max-memory 1", RUN);
    assert_prints(1, "MB (activations", "memory %s --max-memory 1", RUN);
    assert_prints(1, "it would fit with --micro-batch", "train %s --max-memory 25", RUN);
    assert_prints(0, "a worker computes at most", "train %s --max-memory 25 --fit", RUN);
    assert_prints(0, "fit      --micro-batch", "train %s --max-memory 25 --fit", RUN);
    assert_prints(0, "\"fit\":\"--micro-batch", "train %s --max-memory 25 --fit --json", RUN);
    assert_prints(0, "--fit chose --micro-batch", "memory %s --max-memory 25 --fit", RUN);
    assert_prints(0, "done     2 steps", "train %s --max-memory 1000", RUN);
    assert_prints(1, "--fit finds nothing that makes it fit", "train %s --max-memory 1 --fit", RUN);
}

/* A pass may hold fewer virtual shards; dividing one would change the bits of --exact. */
TEST(exact_runs_keep_their_bits) {
    char why[300];
    gs_settings s = gs_test_settings("cpu,cpu --model 'flatten, linear 140, relu, linear 100, relu, linear "
                                     "10' --batch 512 --exact --threads 1");
    const gs_settings chosen = fitted(s, (int)(most_with(&s) / 1e6), why, sizeof why);
    if (chosen.micro_batch < 512 / 8) fail_msg("chosen: %s", why);
    const gs_result whole = gs_test_train(&s), cut = gs_test_train(&chosen);
    assert_same_bits(&whole, &cut, why);
}

/* The message gives the peak with each option and, if no single option suffices, a combination that does. */
TEST(a_refusal_says_what_would_help) {
    static const char RUN[] = "--model \"flatten, linear 400, linear 400, linear 10\" --optimizer adam "
                              "--batch 512 --devices cpu,cpu --steps 2 --threads 1";
    char *text = gs_test_output(1, "train %s --max-memory 15", RUN);
    const char *micro_batch = strstr(text, "it would fit with --micro-batch 128 (1"),
               *zero = strstr(text, " MB), --zero 1 (1"), *other = strstr(text, " MB), --optimizer sgd (1");
    if (!micro_batch || !zero || !other || zero < micro_batch || other < zero) fail_msg("%s", text);
    assert_prints(1, " --zero 1 do together, with 1", "train %s --max-memory 11", RUN);
    assert_prints(1, "even --micro-batch 1 --zero 1 would take ", "memory %s --max-memory 8 --fit", RUN);
}

/* ---- theory ---- */

TEST(bytes_of_a_parameter_follow_from_the_stage) {
    static const struct {
        const char *sync;
        int zero;
        double each; /* bytes per parameter, for 2 workers with Adam */
        const char *sum;
    } runs[] = {{"allreduce", 0, 16, "16"},
                {"ring", 0, 16, "16"},
                {"allreduce", 1, 12, "8 + 8/2"},
                {"allreduce", 2, 10, "4 + 12/2"},
                {"allreduce", 3, 8, "16/2"}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        gs_memory_plan plan;
        char sum[40];
        gs_settings s = wide_settings("cpu,cpu");
        s.sync = runs[i].sync;
        s.zero = runs[i].zero;
        assert_ok(gs_memory_plan_create(&s, &plan));
        assert_near(gs_memory_bytes_each(&plan, sum, sizeof sum), runs[i].each, 0, 0);
        assert_string_equal(sum, runs[i].sum);
        gs_memory_plan_free(&plan);
    }
}

/* Each listed option's memory equals that of a plan with it; the option that costs the least time comes first. */
TEST(the_list_is_of_plans) {
    gs_memory_plan plan;
    gs_memory_options list;
    gs_settings s = wide_settings("cpu,cpu,cpu");
    assert_ok(gs_memory_plan_create(&s, &plan));
    gs_memory_options_find(&plan, &list);
    int micro_batch = -1, zero = -1;
    for (int i = 0; i < list.count; i++) {
        gs_settings with = s;
        if (sscanf(list.of[i].option, "--micro-batch %" SCNu64, &with.micro_batch) == 1)
            micro_batch = i;
        else if (sscanf(list.of[i].option, "--zero %d", &with.zero) == 1)
            zero = i;
        else
            continue;
        assert_near(list.of[i].peak, most_with(&with), 0, 0);
        assert_near(list.of[i].saves, most_with(&s) - list.of[i].peak, 0, 0);
    }
    assert_true(micro_batch >= 0 && zero > micro_batch);
    gs_memory_plan_free(&plan);
}

/* ---- predicted and measured ---- */

TEST(train_shows_both) {
    static const char RUN[] = "train --model lenet --devices cpu,cpu --zero 2 --steps 2 --threads 1";
    assert_prints(0, " predicted): weights 0.5 (0.5), ", RUN);
    char *text = gs_test_output(0, "%s --json", RUN);
    cJSON *end = gs_test_parse(strstr(text, "{\"event\":\"end\""));
    for (int i = 0; i < 2; i++) {
        const cJSON *w = cJSON_GetArrayItem(gs_test_field(end, "per_worker"), i);
        const cJSON *took = gs_test_field(w, "device_bytes"),
                    *said = gs_test_field(w, "device_bytes_predicted");
        for (const cJSON *kind = took->child; kind; kind = kind->next)
            assert_near(gs_test_field(said, kind->string)->valuedouble, kind->valuedouble,
                        0.03 * kind->valuedouble, 0);
    }
}
