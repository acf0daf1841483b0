/* Another rank sends a damaged message, or one from another version of the program. The result must be an error
 * message, never a read outside a table or string. tests/fuzz/ looks for more such cases. */
#include "tests/support/test.h"
#include "train/worker_report.h"
#include "train/timeline.h"

#include <math.h>

/* A comm of two ranks; the other rank sends `words`. */
typedef struct fake {
    gs_comm comm;
    const void *words;
} fake;

static gs_status say(gs_comm *c, const gs_call *call, const void *mine, void *all) {
    size_t bytes = call->count * gs_type_size(call->type);
    assert_int_equal(call->operation, GS_ALL_GATHER);
    memcpy((char *)all + (size_t)c->rank * bytes, mine, bytes);
    memcpy((char *)all + (size_t)(1 - c->rank) * bytes, ((const fake *)c->state)->words, bytes);
    return GS_OK;
}

static void keep_silent(gs_comm *c) {
    (void)c;
}

static gs_comm *rank_0_beside(fake *l, const void *words) {
    static const gs_transport ops = {
        .name = "fake", .collective = say, .free = keep_silent, .set_multithreaded = keep_silent};
    *l = (fake){.comm = {.ops = &ops, .rank = 0, .size = 2, .timeout = 1, .state = l}, .words = words};
    return &l->comm;
}

TEST(numbers_of_workers) {
    static const int32_t counts[] = {0, -5, INT32_MAX};
    gs_comm *comms[2];
    fake l;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        assert_fails(GS_E_PEER, "process 1 reports ",
                     gs_comm_workers_create(2, rank_0_beside(&l, &counts[i]), 1, comms));
}

TEST(wishes_to_check) {
    static char wishes[8192]; /* no text in them is terminated */
    fake l;
    memset(wishes, 'x', sizeof wishes);
    assert_fails(GS_E_USAGE, "process 1 and process 0 differ in GRADSUM_CHECK (xxx",
                 gs_comm_agree(rank_0_beside(&l, wishes), &(gs_link){0}));
}

TEST(calls_that_nobody_knows) {
    static const uint64_t known = (uint64_t)1 << 63;
    static const uint64_t notices[][2] = {{0, 1},
                                          {known | (uint64_t)15 << 59, 1},
                                          {known | (uint64_t)7 << 56, 1},
                                          {known | (uint64_t)3 << 54, 1}};
    for (size_t i = 0; i < sizeof notices / sizeof *notices; i++) {
        fake l;
        gs_comm *checked;
        float x = 1;
        assert_ok(gs_comm_checked_create(rank_0_beside(&l, notices[i]), &checked));
        assert_fails(GS_E_USAGE, "rank 1 calls an operation unknown to this program",
                     gs_comm_all_reduce(checked, &x, 1, GS_F32, GS_SUM));
        gs_comm_free(checked);
    }
}

TEST(names_that_nobody_knows) {
    assert_string_equal(gs_wire_name((gs_wire)505290270), "an unknown type");
    assert_string_equal(gs_lr_rule_name((gs_lr_rule)-1), "an unknown rule");
}

/* All bytes are set, so no text in them is terminated. */
TEST(devices_without_an_end) {
    gs_device_report words, *all;
    gs_device device = {.name = "cpu", .description = "here"};
    fake l;
    memset(&words, 'x', sizeof words);
    gs_worker w = {.comm = rank_0_beside(&l, &words), .device = &device};
    assert_ok(gs_report_devices(&w, &all));
    assert_int_equal(strlen(all[1].device), sizeof all[1].device - 1);
    assert_int_equal(strlen(all[1].description), sizeof all[1].description - 1);
    assert_int_equal(strlen(all[1].host), sizeof all[1].host - 1);
    free(all);
}

static gs_status tell(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    fake *l = c->state;
    (void)e;
    memcpy(data, l->words, bytes);
    l->words = (const char *)l->words + bytes;
    return GS_OK;
}

static gs_status nothing_new(gs_comm *c, const gs_call *call, const void *in, void *out) {
    return (void)c, (void)call, (void)in, (void)out, GS_OK;
}

/* Spans with a nonexistent layer, phase, rank, row or kind, or with an impossible time. */
TEST(spans_that_cannot_be) {
    static const gs_transport ops = {.name = "fake", .recv = tell, .collective = nothing_new};
    static const gs_span spans[] = {{.kind = GS_SPAN_FORWARD_LAYER, .index = 2},
                                    {.kind = GS_SPAN_BACKWARD_LAYER, .index = -1},
                                    {.kind = GS_SPAN_PHASE, .index = GS_PHASES},
                                    {.kind = GS_SPAN_SEND, .index = 2},
                                    {.row = GS_ROW_SERVER + 2},
                                    {.kind = GS_SPANS},
                                    {.end = NAN},
                                    {.start = -1e30}};
    gs_settings settings = {.trace.first = 1, .trace.last = 1};
    gs_rank_timeline *parts;
    gs_dataset *set;
    gs_loader *loader;
    gs_model *model = gs_test_plan("linear 2", (gs_shape){3, 1, 1, 0});
    assert_ok(gs_dataset_from_labels("one", 1, model->in, (float[]){1, 2, 3}, (int32_t[]){1}, &set));
    const gs_schedule schedule = {
        .count = 1, .batch = 1, .parts = 1, .mine = 1, .passes = 1, .most = 1, .epochs = 1, .steps = 1};
    assert_ok(gs_loader_create(set, &schedule, NULL, 1, 0, &loader));
    for (size_t i = 0; i <= sizeof spans / sizeof *spans; i++) {
        struct {
            uint64_t head[3];
            gs_span span;
        } words = {{1, 0, 0}, i > 0 ? spans[i - 1] : (gs_span){.end = 1}};
        fake l = {.comm = {.ops = &ops, .rank = 0, .size = 2, .timeout = 1, .state = &l}, .words = &words};
        gs_worker w = {.comm = &l.comm, .settings = &settings, .model = model, .loader = loader};
        assert_ok(gs_timeline_create(&w, &w.timeline));
        if (i == 0)
            assert_ok(gs_timeline_gather(&w, &parts));
        else
            assert_fails(GS_E_PEER, "worker 1 sent a span that cannot be", gs_timeline_gather(&w, &parts));
        if (i == 0) gs_rank_timelines_free(parts, 2);
        gs_timeline_free(w.timeline);
    }
    gs_loader_free(loader);
    gs_dataset_free(set);
}
