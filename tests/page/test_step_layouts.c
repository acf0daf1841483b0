/* gradsum step --pipeline, --zero, --tensor: a traced step, compared with its schedule and the formulas; and the
 * windows, fetches and memory in a log. */
#include "tests/support/devices.h"
#include "tests/support/logs.h"

#include "core/clock.h"
#include "parallel/schedule.h"
#include "parallel/tensor.h"
#include "train/timeline.h"

static const char transformer[] =
    "'embedding 155 16, positions, residual (layer_norm, linear 48, attention 2 causal, "
    "linear 16), residual (layer_norm, linear 32, gelu, linear 16), layer_norm, tied'";

static cJSON *step(const char *options) {
    char *output = gs_test_output(0, "step --threads 1 --json %s", options);
    cJSON *o = gs_test_parse(output);
    return o;
}

typedef struct span {
    int worker, row, kind, index;
    double start, end, bytes;
} span;

enum { MOST = 4000 };

static int spans_of(const cJSON *o, span *out) {
    int n = 0;
    const cJSON *s;
    cJSON_ArrayForEach(s, gs_test_field(o, "spans")) {
        double x[9];
        for (int i = 0; i < 9; i++) x[i] = cJSON_GetArrayItem(s, i)->valuedouble;
        assert_true(n < MOST);
        out[n++] = (span){(int)x[0], (int)x[1], (int)x[2], (int)x[3], x[5], x[6], x[7]};
    }
    return n;
}

TEST(pictures_fit_80_columns) {
    static const char *const layouts[] = {
        "--model lenet --pipeline 2 --accumulate 4",
        "--model lenet --zero 1",
        "--model lenet --zero 2",
        "--model lenet --zero 3 --workers 3",
        "--model mlp --tensor 2",
        "--model 'embedding 155 16, positions, residual (layer_norm, linear 48, attention 2 causal, linear "
        "16), layer_norm, tied' --data jargon --context 8 --tensor 2 --sequence",
        "--model lenet --layout dp2,pp2,zero1",
        "--model lenet --layout tp2,pp2 --micro-batches 2"};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        char *output = gs_test_output(0, "step --threads 1 %s", layouts[i]);
        gs_test_fits(output, 80);
        assert_null(strstr(output, " \n"));
        assert_true(gs_test_count(output, "\n") > 8);
    }
}

/* Each stage follows its list of instructions, in order, and no micro-batch starts before its input exists. */
TEST(a_pipeline_follows_its_schedule) {
    static span s[MOST];
    enum { STAGES = 2, MICRO = 4 };
    cJSON *o = step("--model lenet --pipeline 2 --accumulate 4");
    const int n = spans_of(o, s);
    const gs_pipeline shape = {.stages = STAGES, .micro_batches = MICRO, .chunks = 1};
    double forward_ends[STAGES][MICRO] = {{0}};
    for (int r = 0; r < STAGES; r++) {
        gs_instructions list;
        assert_ok(gs_instructions_create(&gs_1f1b, &shape, r, &list));
        size_t at = 0;
        for (int i = 0; i < n; i++) {
            const bool forward = s[i].kind == GS_SPAN_STAGE_FORWARD;
            if (s[i].worker != r || (!forward && s[i].kind != GS_SPAN_STAGE_BACKWARD)) continue;
            while (list.list[at].action != GS_DO_FORWARD && list.list[at].action != GS_DO_BACKWARD) at++;
            assert_int_equal(list.list[at].action, forward ? GS_DO_FORWARD : GS_DO_BACKWARD);
            assert_int_equal(list.list[at++].micro_batch, s[i].index);
            if (forward) forward_ends[r][s[i].index] = s[i].end;
            if (forward && r > 0) assert_true(s[i].start >= forward_ends[r - 1][s[i].index]);
        }
        while (list.list[at].action != GS_DO_SUM) assert_true(list.list[at++].action != GS_DO_BACKWARD);
        gs_instructions_free(&list);
    }
    assert_true(gs_test_number(o, "formula") == (STAGES - 1.0) / (MICRO + STAGES - 1));
    const double bubble = gs_test_number(o, "measured");
    assert_true(bubble > 0 && bubble < 1);
    gs_test_near(gs_test_number(o, "fill_and_drain") + gs_test_number(o, "unequal_stages") +
                     gs_test_number(o, "rest"),
                 bubble, 1e-9, 0, "the parts of the bubble", __FILE__, __LINE__);
}

/* Each unit is gathered twice and summed once, no window holds two units at once, and the bytes match the formula. */
TEST(zero_3_gathers_what_it_needs) {
    static span s[MOST];
    cJSON *o = step("--model lenet --zero 3");
    const int n = spans_of(o, s), units = cJSON_GetArraySize(gs_test_field(o, "units"));
    assert_true(units > 2);
    for (int r = 0; r < 2; r++)
        for (int u = 0; u < units; u++) {
            int gathers = 0, sums = 0, weights = 0, gradients = 0;
            for (int i = 0; i < n; i++) {
                if (s[i].worker != r || s[i].index != u) continue;
                gathers += s[i].kind == GS_SPAN_UNIT_GATHER;
                sums += s[i].kind == GS_SPAN_UNIT_REDUCE;
                weights += s[i].kind == GS_SPAN_UNIT_WEIGHTS;
                gradients += s[i].kind == GS_SPAN_UNIT_GRADIENTS;
            }
            assert_int_equal(gathers, 2);
            assert_int_equal(sums, 1);
            assert_int_equal(weights, 2);
            assert_int_equal(gradients, 1);
        }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i && s[i].row >= GS_ROW_WEIGHTS; k++)
            if (s[i].worker == s[k].worker && s[i].row == s[k].row)
                assert_true(s[i].start >= s[k].end || s[k].start >= s[i].end);
    const double odd = 4.0 * 3 * units; /* in a unit with an odd number of floats, one is not sent */
    assert_true(gs_test_number(o, "measured") <= gs_test_number(o, "formula"));
    assert_true(gs_test_number(o, "measured") >= gs_test_number(o, "formula") - odd);
}

TEST(a_group_sums_what_the_formula_says) {
    static span s[MOST];
    const char *options = gs_test_format("--model %s --data jargon --batch 4 --tensor 2", transformer);
    cJSON *o = step(options);
    int sums = 0;
    const int n = spans_of(o, s);
    for (int i = 0; i < n; i++) sums += s[i].kind == GS_SPAN_TP_CALL && s[i].worker == 1;
    assert_true(sums >= 4); /* y and dx of two pairs; plus the embedding's */
    const cJSON *rows = gs_test_field(o, "rows");
    assert_int_equal(cJSON_GetArraySize(rows), 2);
    for (int i = 0; i < 2; i++)
        assert_string_equal(cJSON_GetArrayItem(cJSON_GetArrayItem(rows, i), 2)->valuestring, "2");
    assert_true(gs_test_number(o, "measured") > 0);
    assert_true(gs_test_number(o, "measured") == gs_test_number(o, "formula"));
}

/* The page also says which worker holds which tokens. */
TEST(a_group_divides_tokens) {
    static span s[MOST];
    for (int exact = 0; exact < 2; exact++) {
        const char *options =
            gs_test_format("--model %s --data jargon --context 8 --batch 4 --tensor 2 --sequence%s",
                           transformer, exact ? " --exact" : "");
        cJSON *o = step(options);
        int acts[3] = {0};
        const int n = spans_of(o, s);
        for (int i = 0; i < n; i++)
            if (s[i].kind == GS_SPAN_TP_CALL && s[i].worker == 1) acts[s[i].index]++;
        /* gathers: 3 for each of 2 pairs, 1 for the table, 2 for the last layer, 1 for positions; 4 for each exact
         * norm. In backward, all but the pairs' come leaf by leaf with --exact: for each sample */
        const int leaves = exact ? 4 : 1;
        assert_int_equal(acts[GS_TENSOR_ALL_GATHER], 2 * 3 + 1 + leaves * (1 + 1 + 1 + (exact ? 3 * 4 : 0)));
        assert_int_equal(acts[GS_TENSOR_REDUCE_SCATTER], exact ? 0 : 2 * 2 + 1 + 1);
        const cJSON *rows = gs_test_field(o, "rows"), *workers = gs_test_field(o, "workers");
        assert_int_equal(cJSON_GetArraySize(rows), 2);
        for (int i = 0; i < 2; i++)
            assert_string_equal(cJSON_GetArrayItem(cJSON_GetArrayItem(rows, i), 3)->valuestring, "3");
        assert_true(gs_test_number(o, "measured") > 0);
        assert_true(gs_test_number(o, "measured") == gs_test_number(o, "formula"));
        for (int w = 0; w < 2; w++) {
            assert_true(gs_test_number(cJSON_GetArrayItem(workers, w), "first_token") == 4 * w);
            assert_true(gs_test_number(cJSON_GetArrayItem(workers, w), "tokens") == 4);
        }
    }
    assert_prints(0, "part 0 has 0 to 3, part 1 has 4 to 7",
                  "step --json --threads 1 --model %s --data jargon --context 8 --batch 4 --micro-batches 2 "
                  "--layout pp2,tp2 --sequence",
                  transformer);
}

TEST(what_cannot_be_shown_is_said) {
    assert_prints(2, "there is no layout to show; wanted --pipeline P", "step --zero 0 --model lenet");
    assert_prints(2, "wanted a multiple of 2", "step --pipeline 2 --workers 3 --model lenet");
    assert_prints(2, "--json is for the terminal", "step --zero 3 --json -o /tmp/none.html");
    assert_prints(0, "worker 1", "step --zero 3 --threads 1 --no-pause"); /* without effect */
    assert_prints(2, "step keeps no weights", "step --zero 3 --save x");
    assert_prints(2, "has 65 workers; wanted at most 64 here", "step --layout dp65,zero1");
    assert_prints(0, "dp2,zero1: step 3 of mlp", "step --zero 1 --batch 8");
}

/* Replicas of a stage have distinct names. After its update a worker runs an all-gather with ZeRO 1, and nothing with
 * ZeRO 3. */
TEST(rows_say_what_they_are) {
    assert_prints(0, "\n3, s1 r1 ", "step --model mlp --layout dp2,pp2 --threads 1");
    for (int stage = 1; stage <= 3; stage += 2) {
        char *output = gs_test_output(0, "step --model mlp --zero %d --threads 1", stage);
        const char *line = strstr(output, "\nworker 0 ");
        const size_t columns = line ? strcspn(line + 1, "\n") : 0;
        if (columns < 10) fail_msg("%s", output);
        assert_int_equal(memchr(line + 10, 'g', columns - 9) != NULL, stage == 1);
    }
}

/* ---- the log ---- */

/* Fetched and offloaded blocks of each kind are traced, on the step's clock. */
TEST(what_is_offloaded_is_traced) {
    for (int cl = 0; cl < (gs_test_has_opencl() ? 2 : 1); cl++) {
        const char *folder = gs_test_new_log();
        const double started = gs_seconds();
        assert_prints(0, "done",
                      "train --model \"conv 4 3x3, relu, conv 4 3x3, relu, conv 4 3x3, relu, conv 4 3x3, "
                      "relu, flatten, linear 10\" --threads 1 --device %s --offload "
                      "optimizer,activations,weights --optimizer adam --steps 3 --log %s --trace-steps 3",
                      cl ? "cl" : "cpu", folder);
        const double run = 1e6 * (gs_seconds() - started); /* us, as in a trace */
        cJSON *trace = gs_test_json(folder, "trace.json");
        const cJSON *events = gs_test_field(trace, "traceEvents"), *e;
        static const char *const kinds[] = {"of weights", "of optimizer", "of activations"};
        int fetched[3] = {0}, put[3] = {0};
        double begin = 0;
        cJSON_ArrayForEach(e, events) if (strcmp(gs_test_text_of(e, "name"), "step 3") == 0) begin =
            gs_test_number(e, "ts");
        assert_true(begin > 0);
        cJSON_ArrayForEach(e, events) {
            const char *name = gs_test_text_of(e, "name");
            const bool is_fetch = strncmp(name, "fetch ", 6) == 0;
            if (!is_fetch && strncmp(name, "offload ", 8) != 0) continue;
            for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
                (is_fetch ? fetched : put)[k] += strstr(name, kinds[k]) != NULL;
            /* A step's offloaded blocks may be copied after its end, but not after the run. */
            assert_true(gs_test_number(e, "ts") >= begin - 1000);
            assert_true(gs_test_number(e, "ts") + gs_test_number(e, "dur") <= run);
        }
        for (int k = 0; k < 3; k++)
            if (fetched[k] == 0 || put[k] == 0)
                fail_msg("%s: %d fetches and %d offloads %s", cl ? "cl" : "cpu", fetched[k], put[k],
                         kinds[k]);
    }
}

/* Activations grow in forward and are gone at the step's end; the allocated memory stays constant. */
TEST(memory_over_a_step) {
    const char *folder = gs_test_new_log();
    assert_prints(0, "done", "train --model lenet --threads 1 --steps 3 --log %s --trace-steps 3", folder);
    cJSON *trace = gs_test_json(folder, "trace.json");
    const cJSON *events = gs_test_field(trace, "traceEvents"), *e;
    double most = 0, last = -1, allocated = -1;
    cJSON_ArrayForEach(e, events) {
        if (strcmp(gs_test_text_of(e, "ph"), "C") != 0) continue;
        const cJSON *bytes = gs_test_field(e, "args");
        last = gs_test_number(bytes, "activations");
        const double all = last + gs_test_number(bytes, "activations, free");
        if (last > most) most = last;
        assert_true(allocated < 0 || all == allocated);
        allocated = all;
    }
    assert_true(most > 0.1 * allocated);
    assert_true(last == 0);
}
