/* Pipeline schedules as lists of instructions (parallel/schedule.h), and in virtual time (parallel/virtual_time.h). */
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <math.h>

#include "parallel/virtual_time.h"

enum { MOST_STAGES = 64, MOST_MICRO_BATCHES = 512, DRAWN = 600, DRAWN_LONG = 60, SHORT = 9 };

typedef struct drawn {
    const gs_pipeline_schedule *schedule;
    gs_pipeline pipeline;
    gs_instructions list[MOST_STAGES];
} drawn;

static void make(drawn *d) {
    assert_ok(gs_pipeline_check(d->schedule, &d->pipeline));
    for (int s = 0; s < d->pipeline.stages; s++)
        assert_ok(gs_instructions_create(d->schedule, &d->pipeline, s, &d->list[s]));
}

static void free_lists(drawn *d) {
    for (int s = 0; s < d->pipeline.stages; s++) gs_instructions_free(&d->list[s]);
}

static uint64_t schedules(void) {
    return (uint64_t)list_length((const void *const *)gs_pipeline_schedules());
}

static int between(uint32_t word, int least, int most) {
    return least + (int)(word % (uint32_t)(most - least + 1));
}

/* Draws p, m, v, and the handling of a tied table. */
static void draw_pipeline(drawn *d, uint64_t i) {
    uint32_t a[4], b[4];
    gs_philox(7, 1, i, a);
    gs_philox(7, 2, i, b);
    d->schedule = gs_pipeline_schedules()[i % schedules()];
    d->pipeline = (gs_pipeline){.stages = between(a[0], 1, SHORT),
                                .micro_batches = between(a[1], 1, 24),
                                .chunks = 1,
                                .tied = (gs_tied_exchange)between(b[0], 0, 2)};
    if (!d->schedule->chunked || d->pipeline.stages == 1) return;
    d->pipeline.chunks = between(a[2], 1, 4);
    if (d->pipeline.chunks > 1 && d->pipeline.tied == GS_TIED_EACH) d->pipeline.tied = GS_TIED_ONCE;
    if (d->pipeline.chunks > 1) d->pipeline.micro_batches = d->pipeline.stages * between(a[3], 1, 5);
}

static void explain(const drawn *d, int stage) {
    print_error("%s, %d stages, %d micro-batches, %d chunks, tied %d, stage %d\n", d->schedule->name,
                d->pipeline.stages, d->pipeline.micro_batches, d->pipeline.chunks, d->pipeline.tied, stage);
}

/* ---- each micro-batch runs once forward and once backward, in a valid order ---- */

/* What must precede this instruction for micro-batch k in a chunk of a stage. */
enum {
    RECEIVED = 1,
    FORWARD = 2,
    SENT = 4,
    RECEIVED_GRADIENT = 8,
    BACKWARD = 16,
    SENT_GRADIENT = 32,
    LOADED = 64
};

static bool happens(int *done, bool right, int what) {
    right = right && !(*done & what);
    *done |= what;
    return right;
}

static bool in_order(const drawn *d, int stage, const gs_instruction *i, int *done) {
    const int run = i->chunk * d->pipeline.stages + stage, last = d->pipeline.stages * d->pipeline.chunks - 1;
    const int all = LOADED * (i->chunk == 0) + RECEIVED * (run > 0), here = *done;
    switch (i->action) {
    case GS_DO_LOAD:
        return happens(done, true, LOADED);
    case GS_DO_RECV_ACTIVATION:
        return happens(done, run > 0, RECEIVED);
    case GS_DO_FORWARD:
        return happens(done, (here & all) == all, FORWARD);
    case GS_DO_SEND_ACTIVATION:
        return happens(done, run < last && here & FORWARD, SENT);
    case GS_DO_RECV_GRADIENT:
        return happens(done, run < last && here & SENT, RECEIVED_GRADIENT);
    case GS_DO_BACKWARD:
        return happens(done, here & (run < last ? RECEIVED_GRADIENT : FORWARD), BACKWARD);
    case GS_DO_SEND_GRADIENT:
        return happens(done, run > 0 && here & BACKWARD, SENT_GRADIENT);
    case GS_DO_RECV_TIED:
        return run == 0 && (d->pipeline.tied == GS_TIED_ONCE || !(here & BACKWARD));
    case GS_DO_SEND_TIED:
        return d->pipeline.tied == GS_TIED_EACH ? run == last && here & BACKWARD
                                                : stage == d->pipeline.stages - 1;
    default:
        return true;
    }
}

static void assert_list_is_right(const drawn *d, int stage) {
    const gs_pipeline *p = &d->pipeline;
    const gs_instructions *l = &d->list[stage];
    int done[4][24 + 45] = {{0}}, forward[4] = {0}, backward[4] = {0}, sums = 0, updates = 0;
    for (size_t n = 0; n < l->count; n++) {
        const gs_instruction *i = &l->list[n];
        bool right = in_order(d, stage, i, &done[i->chunk][i->micro_batch]);
        /* a chunk's micro-batches are in order, forward and backward */
        if (i->action == GS_DO_FORWARD) right = right && i->micro_batch == forward[i->chunk]++;
        if (i->action == GS_DO_BACKWARD) right = right && i->micro_batch == backward[i->chunk]++;
        if (i->action == GS_DO_SUM) right = right && sums++ == 0;
        if (i->action == GS_DO_UPDATE) right = right && sums == 1 && updates++ == 0;
        if (i->action < GS_DO_SUM && i->action != GS_DO_RECV_TIED && i->action != GS_DO_SEND_TIED)
            right = right && sums == 0;
        if (i->action > GS_DO_UPDATE) right = right && updates == 1;
        if (right) continue;
        explain(d, stage);
        fail_msg("instruction %zu, '%s' of micro-batch %d, chunk %d, comes at the wrong time", n,
                 gs_action_names[i->action], i->micro_batch, i->chunk);
    }
    assert_int_equal(updates, 1);
    for (int c = 0; c < p->chunks; c++) {
        if (forward[c] == p->micro_batches && backward[c] == p->micro_batches) continue;
        explain(d, stage);
        fail_msg("chunk %d: %d forward, %d backward", c, forward[c], backward[c]);
    }
}

static void assert_few_are_alive(const drawn *d, int stage) {
    const gs_pipeline *p = &d->pipeline;
    const int alive = gs_instructions_alive(&d->list[stage], GS_ALL_CHUNKS);
    int most = p->micro_batches * p->chunks;
    if (d->schedule == &gs_1f1b && p->stages - stage < most) most = p->stages - stage;
    if (d->schedule == &gs_eager && 2 * (p->stages - stage) - 1 < most) most = 2 * (p->stages - stage) - 1;
    /* if m > p is a multiple of p, the first stage holds as many as schedule.h says; later stages hold fewer */
    if (d->schedule == &gs_interleaved && p->micro_batches > p->stages && most >= (p->chunks + 1) * p->stages)
        most = (p->chunks + 1) * p->stages - 1 - 2 * stage;
    if (alive <= most && alive > 0) return;
    explain(d, stage);
    fail_msg("%d activations are alive; wanted at most %d", alive, most);
}

/* Draws independent random durations. */
static void draw_times(double *times, size_t count, uint64_t i) {
    for (size_t r = 0; r < count; r++) {
        uint32_t words[4];
        gs_philox(9, i, r, words);
        times[r] = 0.1 + (double)gs_uniform(words[0]);
    }
}

TEST(no_schedule_waits_for_ever) {
    for (uint64_t i = 0; i < DRAWN; i++) {
        drawn d;
        double forward[36], backward[36];
        gs_pipeline_run run = {0};
        draw_pipeline(&d, i);
        make(&d);
        for (int s = 0; s < d.pipeline.stages; s++) {
            assert_list_is_right(&d, s);
            assert_few_are_alive(&d, s);
        }
        draw_times(forward, 36, 2 * i);
        draw_times(backward, 36, 2 * i + 1);
        const gs_pipeline_times times = {forward, backward, i % 2 ? 0.3 : 0};
        if (gs_pipeline_in_virtual_time(&d.pipeline, d.list, &times, &run) != GS_OK) {
            explain(&d, -1);
            fail_msg("%s", gs_message());
        }
        /* Activations and gradients share a direction only if there are just two stages, with several chunks each. */
        if (run.early > 0 && (d.pipeline.stages > 2 || d.pipeline.chunks == 1)) {
            explain(&d, -1);
            fail_msg("%zu messages arrive early", run.early);
        }
        free_lists(&d);
    }
}

/* ---- the bubble ---- */

/* Stages take 1 for forward and 2 for backward; each of a stage's v chunks takes a v-th of this. */
static void assert_bubble(drawn *d) {
    const int p = d->pipeline.stages, m = d->pipeline.micro_batches, v = d->pipeline.chunks;
    double forward[MOST_STAGES * 4], backward[MOST_STAGES * 4], end[MOST_STAGES], busy[MOST_STAGES];
    gs_pipeline_run run = {.end = end, .busy = busy};
    for (int r = 0; r < p * v; r++) forward[r] = 1.0 / v, backward[r] = 2.0 / v;
    make(d);
    assert_ok(
        gs_pipeline_in_virtual_time(&d->pipeline, d->list, &(gs_pipeline_times){forward, backward, 0}, &run));
    const double wanted = gs_pipeline_bubble(&d->pipeline), work = 3.0 * m;
    if (fabs(run.bubble - wanted) > 0.01 * wanted + 1e-12) {
        explain(d, -1);
        fail_msg("the bubble is %g, by the formula %g", run.bubble, wanted);
    }
    /* the paper's formula: the ratio of waiting to work is (p - 1) / m, divided by v with v chunks */
    gs_test_near(run.took / work - 1, (double)(p - 1) / m / v, 1e-9, 0, "waiting over work", __FILE__,
                 __LINE__);
    gs_test_near(end[0], run.took, 1e-9, 0, "the first stage ends last", __FILE__, __LINE__);
    for (int s = 0; s < p; s++) gs_test_near(busy[s], work, 1e-9, 0, "busy", __FILE__, __LINE__);
    free_lists(d);
}

TEST(the_bubble_is_that_of_the_formula) {
    for (int p = 1; p <= 8; p++)
        for (int m = 1; m <= 20; m++)
            for (const gs_pipeline_schedule *const *s = gs_pipeline_schedules(); *s; s++) {
                const int v = (*s)->chunked && p > 1 ? 1 + m % 3 : 1;
                assert_bubble(&(drawn){.schedule = *s, .pipeline = {p, v > 1 ? m * p : m, v, GS_TIED_NONE}});
            }
}

/* The bubble for random sizes up to 64 stages and 512 micro-batches, and for the largest sizes. */
TEST(the_bubble_of_long_pipelines) {
    for (uint64_t i = 0; i < DRAWN_LONG; i++) {
        uint32_t a[4];
        gs_philox(11, 1, i, a);
        drawn d = {.schedule = gs_pipeline_schedules()[i % schedules()], .pipeline = {.chunks = 1}};
        gs_pipeline *p = &d.pipeline;
        const bool largest = i < schedules();
        p->stages = largest ? MOST_STAGES : between(a[0], 1, MOST_STAGES);
        p->micro_batches = largest ? MOST_MICRO_BATCHES : between(a[1], 1, MOST_MICRO_BATCHES);
        if (d.schedule->chunked && p->stages > 1) {
            p->chunks = largest ? 4 : between(a[2], 1, 4);
            p->micro_batches = p->stages * between(a[1], 1, MOST_MICRO_BATCHES / p->stages);
        }
        assert_bubble(&d);
    }
}

/* Computed by hand: 1f1b with p = 2 and m = 2; stage 1 is slow. */
TEST(virtual_time_by_hand) {
    drawn d = {.schedule = &gs_1f1b, .pipeline = {2, 2, 1, GS_TIED_NONE}};
    double end[2], busy[2];
    gs_pipeline_run run = {.end = end, .busy = busy};
    make(&d);
    /* stage 0: F0 0-1, F1 1-2; stage 1: F0 1-4, B0 4-9, F1 9-12, B1 12-17; stage 0: B0 9-11, B1 17-19 */
    assert_ok(gs_pipeline_in_virtual_time(&d.pipeline, d.list,
                                          &(gs_pipeline_times){(double[]){1, 3}, (double[]){2, 5}, 0}, &run));
    assert_true(end[0] == 19 && end[1] == 17 && busy[0] == 6 && busy[1] == 16 && run.took == 19);
    gs_test_near(run.bubble, 1 - 22.0 / 38, 1e-12, 0, "bubble", __FILE__, __LINE__);
    /* if messages take 1: F0 0-1, at stage 1 2-5, B0 5-10, back at 11; F1 10-13, B1 13-18, back at 19 */
    assert_ok(gs_pipeline_in_virtual_time(&d.pipeline, d.list,
                                          &(gs_pipeline_times){(double[]){1, 3}, (double[]){2, 5}, 1}, &run));
    assert_true(end[0] == 21 && end[1] == 18);
    free_lists(&d);
}

/* A list sends three times before the other side receives: the third send blocks, and then everything does. */
TEST(a_deadlock_is_told) {
    const gs_pipeline p = {2, 3, 1, GS_TIED_NONE};
    gs_instruction first[] = {{GS_DO_SEND_ACTIVATION, 0, 0, 1},
                              {GS_DO_SEND_ACTIVATION, 1, 0, 1},
                              {GS_DO_SEND_ACTIVATION, 2, 0, 1},
                              {GS_DO_RECV_GRADIENT, 0, 0, 1}};
    gs_instruction second[] = {{GS_DO_SEND_GRADIENT, 0, 0, 0},
                               {GS_DO_SEND_GRADIENT, 1, 0, 0},
                               {GS_DO_SEND_GRADIENT, 2, 0, 0},
                               {GS_DO_RECV_ACTIVATION, 0, 0, 0}};
    const gs_instructions lists[] = {{first, 4, 4}, {second, 4, 4}};
    const gs_pipeline_times times = {0};
    gs_pipeline_run run = {0};
    assert_fails(
        GS_E_USAGE,
        "a deadlock: stage 0 waits forever in 'send activation' of micro-batch 2, chunk 0, to stage 1",
        gs_pipeline_in_virtual_time(&p, lists, &times, &run));
}

TEST(numbers_that_do_not_fit) {
    assert_fails(GS_E_USAGE, "0 stages", gs_pipeline_check(&gs_gpipe, &(gs_pipeline){0, 1, 1, GS_TIED_NONE}));
    assert_fails(GS_E_USAGE, "1f1b has one chunk in each stage, not 2",
                 gs_pipeline_check(&gs_1f1b, &(gs_pipeline){2, 4, 2, GS_TIED_NONE}));
    assert_fails(GS_E_USAGE, "5 micro-batches for 2 stages",
                 gs_pipeline_check(&gs_interleaved, &(gs_pipeline){2, 5, 2, GS_TIED_NONE}));
    assert_fails(GS_E_USAGE, "can deadlock",
                 gs_pipeline_check(&gs_interleaved, &(gs_pipeline){2, 4, 2, GS_TIED_EACH}));
    assert_fails(GS_E_USAGE, "one stage with 2 chunks",
                 gs_pipeline_check(&gs_interleaved, &(gs_pipeline){1, 4, 2, GS_TIED_NONE}));
}

static gs_status is_not_written(const gs_pipeline *p, int stage, gs_instructions *out) {
    gs_then_forward(out, p, stage, 0, 0);
    return gs_fail(GS_E_USAGE, "the order of stage %d is not written", stage);
}

TEST(a_schedule_is_replaced) {
    static const gs_pipeline_schedule mine = {"1f1b", "mine", false, is_not_written},
                                      other = {.name = "other"};
    const gs_pipeline p = {2, 2, 1, GS_TIED_NONE};
    gs_instructions list;
    assert_fails(GS_E_USAGE, "'other' cannot replace '1f1b'", gs_pipeline_schedule_replace("1f1b", &other));
    assert_fails(GS_E_USAGE, "no schedule is called 'other'", gs_pipeline_schedule_replace("other", &other));
    assert_ptr_equal(gs_pipeline_schedules()[1], &gs_1f1b);
    assert_ok(gs_pipeline_schedule_replace("1f1b", &mine));
    assert_ptr_equal(gs_pipeline_schedules()[0], &gs_gpipe);
    assert_ptr_equal(gs_pipeline_schedules()[1], &mine);
    assert_fails(GS_E_USAGE, "the order of stage 1 is not written",
                 gs_instructions_create(gs_pipeline_schedules()[1], &p, 1, &list));
    gs_instructions_free(&list);
    assert_ok(gs_pipeline_schedule_replace("1f1b", NULL));
    assert_ptr_equal(gs_pipeline_schedules()[1], &gs_1f1b);
}
