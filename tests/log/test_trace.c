/* train --log: trace.json shows the work of the steps, and every message that the schemes' formulas count. */
#include "tests/support/logs.h"

#include <math.h>
#include "tests/support/devices.h"

enum { MOST_SPANS = 5000 };

typedef struct span {
    int worker, row;
    long long start, end; /* ns */
} span;

static bool is_phase(const cJSON *e, const char *phase) {
    return strcmp(gs_test_text_of(e, "ph"), phase) == 0;
}

static void each_row_nests(const cJSON *events) {
    static span s[MOST_SPANS];
    int n = 0;
    const cJSON *e;
    cJSON_ArrayForEach(e, events) {
        if (!is_phase(e, "X")) continue;
        assert_true(n < MOST_SPANS);
        long long start = llround(1000 * gs_test_number(e, "ts"));
        s[n++] = (span){(int)gs_test_number(e, "pid"), (int)gs_test_number(e, "tid"), start,
                        start + llround(1000 * gs_test_number(e, "dur"))};
    }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++) {
            if (s[i].worker != s[k].worker || s[i].row != s[k].row) continue;
            bool apart = s[i].end <= s[k].start || s[k].end <= s[i].start;
            bool inside = s[i].start >= s[k].start && s[i].end <= s[k].end;
            bool around = s[k].start >= s[i].start && s[k].end <= s[i].end;
            if (!apart && !inside && !around)
                fail_msg("worker %d, row %d: two spans cross: %lld to %lld, %lld to %lld ns", s[i].worker,
                         s[i].row, s[i].start, s[i].end, s[k].start, s[k].end);
        }
}

/* The event with this phase and id; fails unless there is exactly one. */
static const cJSON *end_of_arrow(const cJSON *events, const char *phase, double id) {
    const cJSON *e, *found = NULL;
    cJSON_ArrayForEach(e, events) {
        if (!is_phase(e, phase) || gs_test_number(e, "id") != id) continue;
        assert_null(found);
        found = e;
    }
    assert_non_null(found);
    return found;
}

/* Every arrow has two ends and points from the sender to the receiver; returns the number of arrows. */
static int arrows(const cJSON *events) {
    int n = 0, ends = 0;
    const cJSON *e;
    cJSON_ArrayForEach(e, events) {
        ends += is_phase(e, "f");
        if (!is_phase(e, "s")) continue;
        const double id = gs_test_number(e, "id");
        assert_true(end_of_arrow(events, "s", id) == e);
        assert_true(gs_test_number(end_of_arrow(events, "f", id), "ts") >= gs_test_number(e, "ts"));
        n++;
    }
    assert_int_equal(n, ends);
    return n;
}

/* What a worker sent in one step, according to the trace. */
static gs_sync_cost sent_by(const cJSON *events, int worker, int step) {
    gs_sync_cost cost = {0};
    const cJSON *e;
    cJSON_ArrayForEach(e, events) {
        if (!is_phase(e, "X") || strcmp(gs_test_text_of(e, "cat"), "message") != 0) continue;
        const cJSON *args = gs_test_field(e, "args");
        bool sent = strncmp(gs_test_text_of(e, "name"), "send ", 5) == 0;
        if (!sent || (int)gs_test_number(e, "pid") != worker || (int)gs_test_number(args, "step") != step)
            continue;
        assert_int_equal(gs_test_number(args, "from"), worker);
        cost.messages++;
        cost.bytes += (size_t)gs_test_number(args, "bytes");
        if ((size_t)gs_test_number(args, "round") > cost.rounds)
            cost.rounds = (size_t)gs_test_number(args, "round");
    }
    return cost;
}

TEST(messages_are_those_of_the_formula) {
    static const struct {
        const char *launch, *devices;
        int workers;
    } places[] = {{"", "cpu,cpu", 2}, {"", "cpu,cpu,cpu", 3}, {"launch -n 2 --", "cpu,cpu", 4}};
    static const char *const wires[] = {"f32", "bf16"};
    const size_t floats = 7850 + GS_STATS;
    for (const gs_sync_scheme *const *s = gs_sync_schemes(); *s; s++) {
        if (!(*s)->cost) continue;
        for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
            const char *folder = gs_test_new_log(), *wire = wires[p == 1];
            int all = 0;
            assert_prints(0, "done",
                          "%s train --model softmax --threads 1 --devices %s --sync %s --steps 4 --wire %s "
                          "--log %s --trace-steps 2-3",
                          places[p].launch, places[p].devices, (*s)->name, wire, folder);
            cJSON *trace = gs_test_json(folder, "trace.json");
            const cJSON *events = gs_test_field(trace, "traceEvents");
            for (int r = 0; r < places[p].workers; r++) {
                gs_sync_array array = {floats, p == 1 ? GS_WIRE_BF16 : GS_WIRE_F32, GS_STATS};
                gs_sync_cost wanted;
                assert_true(gs_sync_cost_of(*s, places[p].workers, r, array, &wanted));
                for (int step = 1; step <= 4; step++) {
                    gs_sync_cost got = sent_by(events, r, step);
                    bool traced = step == 2 || step == 3;
                    assert_int_equal(got.messages, traced ? wanted.messages : 0);
                    assert_int_equal(got.bytes, traced ? wanted.bytes : 0);
                    assert_true(got.rounds <= wanted.rounds);
                    all += (int)got.messages;
                }
            }
            assert_int_equal(arrows(events), all);
            each_row_nests(events);
        }
    }
}

/* How many events with this name worker 0 recorded in a step. */
static int times(const cJSON *events, const char *name, int step) {
    int n = 0;
    const cJSON *e;
    cJSON_ArrayForEach(e, events) n += is_phase(e, "X") && gs_test_number(e, "pid") == 0 &&
                                       strcmp(gs_test_text_of(e, "name"), name) == 0 &&
                                       (int)gs_test_number(gs_test_field(e, "args"), "step") == step;
    return n;
}

TEST(every_layer_is_there) {
    static const char model[] = "conv 4 3x3 pad 1, relu, residual(conv 4 3x3 pad 1, tanh), max_pool 4, "
                                "flatten, dropout 0.1, linear 10";
    static const char *const layers[] = {"0.conv2d",     "2.residual", "2.body.0.conv2d", "2.body.1.tanh",
                                         "3.max_pool2d", "5.dropout",  "6.linear"};
    FOR_EACH_DEVICE (d) {
        const char *folder = gs_test_new_log();
        assert_prints(0, "done",
                      "train --model '%s' --device %s --steps 2 --accumulate 2 --log %s --trace-steps 2",
                      model, d->name, folder);
        cJSON *trace = gs_test_json(folder, "trace.json");
        const cJSON *events = gs_test_field(trace, "traceEvents");
        for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
            const char *forward = gs_test_format("forward %s", layers[i]);
            const char *backward = gs_test_format("backward %s", layers[i]);
            assert_int_equal(times(events, forward, 2), 2); /* two passes */
            assert_int_equal(times(events, backward, 2), 2);
        }
        assert_int_equal(times(events, "load", 2), 2);
        assert_int_equal(times(events, "sync", 2), 1);
        assert_int_equal(times(events, "update", 2), 1);
        assert_int_equal(times(events, "step 2", 2), 1);
        assert_int_equal(times(events, "load", 1), 0); /* only the requested steps */
        each_row_nests(events);
    }
}

/* Messages outside the schemes also have arrows, and additional threads have rows. */
TEST(other_ways_to_make_a_step) {
    static const struct {
        const char *options, *row;
        int arrows;
    } ways[] = {
        {"--exact", "compute", 2 * 4},                                /* one exchange per step */
        {"--sync async --staleness 0", "server for worker 1", 2 * 4}, /* gradients out, weights back */
        {"--sync ring --bucket 8", "sync", 0},
        {"--sync local --every 2", "compute", 0},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const char *folder = gs_test_new_log();
        assert_prints(0, "done", "train --model lenet --devices cpu,cpu --threads 1 --steps 9 %s --log %s",
                      ways[i].options, folder);
        cJSON *trace = gs_test_json(folder, "trace.json");
        const cJSON *events = gs_test_field(trace, "traceEvents"), *e;
        bool has_row = false;
        cJSON_ArrayForEach(e, events) has_row |=
            is_phase(e, "M") && cJSON_GetObjectItem(gs_test_field(e, "args"), "name") &&
            strcmp(gs_test_text_of(gs_test_field(e, "args"), "name"), ways[i].row) == 0;
        assert_true(has_row);
        int n = arrows(events);
        if (ways[i].arrows) assert_int_equal(n, ways[i].arrows);
        if (strstr(ways[i].options, "bucket")) { /* buckets are in the sync row, with their messages */
            assert_true(times(events, "sum of bucket 1", 4) == 1 && n > 4 * 4);
        }
        each_row_nests(events);
    }
}

TEST(no_trace_where_none_is_wanted) {
    const char *folder = gs_test_new_log();
    const char *at = gs_test_format("%s", folder);
    assert_prints(0, "done", "train --model softmax --steps 9 --log %s --trace-steps none", at);
    assert_false(gs_test_is_there(at, "trace.json"));
    assert_true(gs_test_is_there(at, "run.json"));
    cJSON *run = gs_test_json(at, "run.json");
    assert_null(cJSON_GetObjectItem(run, "trace_steps"));
}
