/* A device's memory ledger records every allocation, and activations share memory. */
#include "layer/layer.h"
#include "layer/memory/arena.h"
#include "tests/support/on_devices.h"
#include "tests/support/draw.h"
#include "tests/support/program.h"

TEST(the_peak_is_the_moment_with_most) {
    char a, b, c;
    gs_ledger l;
    gs_ledger_create(&l);
    assert_ok(gs_ledger_add(&l, GS_ON_DEVICE, GS_MEMORY_WEIGHTS, &a, 100));
    gs_ledger_tail(&l, &a, GS_MEMORY_STATE, 30);
    assert_ok(gs_ledger_add(&l, GS_ON_DEVICE, GS_MEMORY_WORKSPACE, &b, 50));
    assert_int_equal(gs_ledger_remove(&l, &b), 50);
    assert_int_equal(gs_ledger_remove(&l, &b), 0); /* b is freed already */
    assert_ok(gs_ledger_add(&l, GS_ON_DEVICE, GS_MEMORY_DATA, &c, 20));
    assert_ok(gs_ledger_add(&l, GS_ON_HOST, GS_MEMORY_DATA, &b, 7));
    const gs_memory_use *peak = &l.peak[GS_ON_DEVICE], *now = &l.now[GS_ON_DEVICE];
    assert_true(gs_memory_total(peak) == 150 && peak->bytes[GS_MEMORY_WEIGHTS] == 70);
    assert_true(peak->bytes[GS_MEMORY_STATE] == 30 && peak->bytes[GS_MEMORY_WORKSPACE] == 50);
    assert_true(gs_memory_total(now) == 120 && now->bytes[GS_MEMORY_DATA] == 20);
    assert_true(gs_memory_total(&l.peak[GS_ON_HOST]) == 7);
    assert_int_equal(gs_ledger_remove(&l, &a), 100);
    assert_true(now->bytes[GS_MEMORY_STATE] == 0 && now->bytes[GS_MEMORY_WEIGHTS] == 0);
    gs_ledger_free(&l);
}

/* The process's memory, as Linux counts it, equals that of the ledger and the data set, plus some MB for the program
 * and its libraries. One layer's unrecorded buffers would add 25 MB here. At the end of a run, whole tensors are
 * assembled, and recorded, one at a time; all at once, they would take 93 MB, plus copies in flight. */
TEST(the_process_takes_what_the_ledger_says) {
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    skip_because("a sanitizer uses additional memory");
#endif
    static const char *const run[] = {
        "--model \"conv 32 3x3 pad 1, tanh, conv 8 3x3 pad 1, tanh, flatten, linear 10\" --batch 256",
        "--model \"flatten, 8 x (linear 1000, relu), linear 10\" --batch 16 --devices cpu,cpu --tensor 2"};
    for (int i = 0; i < 2; i++) {
        const int workers = i + 1, more = (i == 0 ? 20 : 60) << 20; /* for the program, and for messages */
        char *trained = gs_test_output(0, "train %s --steps 1 --threads 1 --json", run[i]);
        char *planned = gs_test_output(0, "memory %s --steps 1 --threads 1 --json", run[i]);
        const double took = 1e6 * gs_test_number_after(trained, "\"peak_memory_mb\":"),
                     booked = workers * gs_test_number_after(planned, "\"total\":"),
                     measured = gs_test_number_after(strstr(trained, "\"device_bytes\""), "\"total\":"),
                     set = gs_test_number_after(planned, "\"data_set_bytes\":");
        assert_near(workers * measured, booked, 0.01 * booked, 0);
        assert_true(booked > 50e6);
        if (took > booked + set + more || (workers == 1 && took < booked + set))
            fail_msg("the process took %.1f MB, with %.1f MB in the ledger and %.1f MB of data", took / 1e6,
                     booked / 1e6, set / 1e6);
    }
}

/* Whether some step needs both buffers. */
static bool meet(const gs_lifetime *a, const gs_lifetime *b) {
    bool found = false;
    for (int step = 0; step < 60; step++) {
        const bool of_a = step >= a->born && (step <= a->pause || (step >= a->resume && step <= a->dies));
        const bool of_b = step >= b->born && (step <= b->pause || (step >= b->resume && step <= b->dies));
        found = found || (of_a && of_b);
    }
    return found;
}

/* Random buffers: those with overlapping lifetimes share no memory, none straddles two allocations, and at most a
 * quarter is wasted, or half if lifetimes have gaps (resnet20 wastes 7 %). */
TEST(buffers_needed_at_once_share_no_place) {
    for (uint64_t n = 0; n < 200; n++) {
        draw d = {n, 1000};
        gs_lifetimes l = {0};
        const int count = one_of(&d, 40);
        const size_t most = n % 2 ? 4096 : SIZE_MAX / sizeof(float);
        size_t end = 0;
        for (int i = 0; i < count; i++) {
            const int born = one_of(&d, 30);
            assert_int_equal(
                gs_lifetimes_add(&l, 1 + (size_t)one_of(&d, 2000), false, born, born + one_of(&d, 20)), i);
            if (n % 4 < 2) continue; /* the rest: some have a gap, and some of those never resume */
            l.life[i].pause = born + one_of(&d, 5);
            l.life[i].resume = l.life[i].pause + one_of(&d, 10);
        }
        assert_ok(gs_lifetimes_place(&l, most, &end));
        for (int i = 0; i < count; i++)
            for (int k = 0; k < i; k++) {
                const gs_lifetime *a = &l.life[i], *b = &l.life[k];
                if (meet(a, b) && a->at < b->at + b->floats && b->at < a->at + a->floats)
                    fail_msg("draw %d: buffers %d and %d share a place", (int)n, i, k);
            }
        for (int i = 0; i < count; i++) {
            const gs_lifetime *a = &l.life[i];
            assert_true(a->at + a->floats <= end && a->at / most == (a->at + a->floats - 1) / most);
        }
        const size_t least = gs_lifetimes_peak(&l);
        assert_true(end >= least && (most == 4096 || end <= least + least / (n % 4 < 2 ? 4 : 2)));
        gs_lifetimes_free(&l);
    }
}

static gs_status add_own(gs_layer *l, void *sum) {
    if (l->ops->buffers == GS_VIEW) return GS_OK;
    const size_t dx = l->needs_dx ? gs_shape_size(l->in) : 0;
    *(double *)sum += sizeof(float) * (double)(gs_shape_size(l->out) + dx);
    return GS_OK;
}

/* Activations take at most 0.7 of the memory that a separate buffer for each y and dx would take. */
TEST(activations_share_their_memory) {
    static const struct {
        const char *model;
        gs_shape in;
    } cases[] = {{"resnet20", {3, 32, 32, 0}}, {"gpt 65", {1, 1, 1, 64}}};
    gs_device *cpu = gs_test_device("cpu", 1);
    gs_device_set_dry(cpu);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum { BATCH = 128 };
        double own = 0;
        gs_model *m =
            gs_test_model(cpu, .text = cases[i].model, .in = cases[i].in, .max_batch = BATCH, .seed = 1);
        assert_ok(gs_layer_walk(m->net, add_own, &own));
        const double takes = cpu->memory.now[GS_ON_DEVICE].bytes[GS_MEMORY_ACTIVATIONS];
        print_message("%s: %.3f of the sum\n", cases[i].model, takes / (BATCH * own));
        assert_true(takes < 0.7 * BATCH * own);
        gs_test_free(m);
    }
}
