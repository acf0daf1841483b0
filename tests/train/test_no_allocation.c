/* In steady state neither a training step nor a collective between threads allocates memory. (Between processes Gloo
 * allocates in each call, and OpenCL uses its own memory: see src/comm/gloo/gloo_c.h.) */
#include "tests/support/training.h"
#include "tests/support/heap.h"
#include "tests/support/ranks.h"

#ifndef GS_TEST_HEAP
TEST(steps_allocate_nothing) {
    skip_because("a sanitizer, or a C library that is not glibc, provides its own malloc");
}
#else

/* ---- counting ---- */

static void begin_counting(void) {
    atomic_store(&gs_test_allocated.count, 0);
    atomic_store(&gs_test_allocated.counting, true);
}

static void assert_nothing_was_allocated(const char *what) {
    assert_false(atomic_load(&gs_test_allocated.counting)); /* counting has ended */
    if (atomic_load(&gs_test_allocated.count) > 0)
        fail_msg("%s: %d allocations, the first of %zu bytes, called from %p", what,
                 atomic_load(&gs_test_allocated.count), atomic_load(&gs_test_allocated.first_bytes),
                 atomic_load(&gs_test_allocated.first_caller));
}

TEST(the_count_counts) {
    void *volatile memory; /* volatile, or the compiler would remove unused code */
    void *aligned = NULL;
    begin_counting();
    free(memory = malloc(1));
    free(memory = calloc(2, 3));
    free(memory = aligned_alloc(64, 64));
    free(memory = realloc(NULL, 5));
    int status = posix_memalign(&aligned, 64, 64);
    free(memory = aligned);
    atomic_store(&gs_test_allocated.counting, false);
    assert_int_equal(status, 0);
    assert_int_equal(atomic_load(&gs_test_allocated.count), 5);
}

/* ---- steps ---- */

/* 6000 samples in batches of 300 are an epoch of 20 steps. The model has all kinds of layers that own memory. */
static const char MODEL[] =
    "conv 4 3x3 stride 2 pad 1, relu, max_pool 2, flatten, dropout 0.25, linear 16, tanh, linear 10";
static uint64_t warm = 6, end = 16;

static void count_some_steps(gs_worker *w) {
    if (w->comm->rank != 0) return;
    if (w->step == warm) begin_counting();
    if (w->step == end) atomic_store(&gs_test_allocated.counting, false);
}

static gs_settings settings_for(const char *devices) {
    gs_settings s =
        gs_test_options("--devices %s --batch 300 --epochs 1 --threads 1 --model '%s'", devices, MODEL);
    s.test_hook = count_some_steps;
    return s;
}

static void assert_steps_allocate_nothing(const gs_settings *s, const char *what) {
    gs_result r;
    atomic_store(&gs_test_allocated.counting, true); /* until step `end` */
    assert_ok(gs_train(s, NULL, &r));
    gs_result_free(&r);
    assert_nothing_was_allocated(what);
}

TEST(a_step_of_one_worker_allocates_nothing) {
    gs_settings s = settings_for("cpu");
    assert_steps_allocate_nothing(&s, "1 worker");
    s.threads = 2;
    assert_steps_allocate_nothing(&s, "1 worker of 2 threads");
    s.measure = true;
    s.accumulate = 3;
    assert_steps_allocate_nothing(&s, "1 worker, measured, --accumulate 3");
    s = gs_test_with(settings_for("cpu"), "--model lenet");
    assert_steps_allocate_nothing(&s, "1 worker, lenet");
}

/* With layers for sequences; 60 samples in batches of 3 give 20 steps. */
TEST(a_step_of_a_transformer_allocates_nothing) {
    enum { SAMPLES = 60, LENGTH = 7 };
    static float x[SAMPLES * LENGTH];
    static int32_t label[SAMPLES * LENGTH];
    gs_dataset *set;
    for (int i = 0; i < SAMPLES * LENGTH; i++) x[i] = (float)(label[i] = i * i % 5);
    assert_ok(
        gs_dataset_from_token_labels("text", SAMPLES, (gs_shape){LENGTH, 1, 1, 0}, x, LENGTH, label, &set));
    gs_settings s = settings_for("cpu");
    s.model = "embedding 5 12, positions, residual (layer_norm, linear 36, attention 3 causal, linear 12), "
              "layer_norm, linear 5";
    s.batch = 3;
    s.train_set = s.test_set = set;
    assert_steps_allocate_nothing(&s, "1 worker, a transformer");
    s.threads = 2;
    assert_steps_allocate_nothing(&s, "1 worker of 2 threads, a transformer");
    gs_dataset_free(set);
}

TEST(a_step_of_every_scheme_allocates_nothing) {
    for (const gs_sync_scheme *const *scheme = gs_sync_schemes(); *scheme; scheme++) {
        gs_settings s = settings_for("cpu,cpu");
        s.sync = (*scheme)->name;
        assert_steps_allocate_nothing(&s, s.sync);
        s.devices = "cpu,cpu,cpu";
        assert_steps_allocate_nothing(&s, s.sync);
    }
}

/* With 13 MB of gradients, messages between threads exceed 4 MB, even those with a third of the array. */
TEST(a_step_with_a_large_gradient_allocates_nothing) {
    const uint64_t before[2] = {warm, end};
    for (const gs_sync_scheme *const *scheme = gs_sync_schemes(); *scheme; scheme++) {
        gs_settings s = settings_for("cpu,cpu,cpu");
        warm = 3, end = 6;
        s = gs_test_with(s, "--model 'flatten, linear 4096, linear 10' --batch 12");
        s.steps = end + 1;
        s.sync = (*scheme)->name;
        assert_steps_allocate_nothing(&s, s.sync);
    }
    warm = before[0], end = before[1];
}

TEST(a_step_of_every_mode_allocates_nothing) {
    gs_settings s = gs_test_with(settings_for("cpu,cpu"), "--accumulate 4 --verify 1");
    assert_steps_allocate_nothing(&s, "--accumulate 4 --verify 1");
    s = gs_test_with(settings_for("cpu,cpu"), "--bucket 1 --wire bf16");
    assert_steps_allocate_nothing(&s, "--bucket 1 --wire bf16");
    s = gs_test_with(settings_for("cpu,cpu"), "--exact");
    assert_steps_allocate_nothing(&s, "--exact");
    s = settings_for("cpu,cpu,cpu");
    for (s.zero = 1; s.zero <= 3; s.zero++) assert_steps_allocate_nothing(&s, "--zero 1 to 3");
    s.zero = 0;
    s = gs_test_with(settings_for("cpu,cpu"), "--model 'flatten, linear 32, relu, linear 16, linear 10' "
                                              "--tensor 2 --clip 1");
    assert_steps_allocate_nothing(&s, "--tensor 2");
    s.exact = true;
    assert_steps_allocate_nothing(&s, "--tensor 2 --exact");
    s = gs_test_with(settings_for("cpu,cpu"), "--sync local --every 2");
    assert_steps_allocate_nothing(&s, "--sync local --every 2");
    for (int k = 0; k <= 2; k += 2) {
        s = gs_test_with(settings_for("cpu,cpu"), "--sync async");
        s.staleness = k;
        assert_steps_allocate_nothing(&s, k ? "--sync async --staleness 2" : "--sync async --staleness 0");
    }
}

/* ---- collectives ---- */

enum { COUNT = 5000, ROUNDS = 20, WARM_ROUNDS = 8 };

/* Makes all calls, with messages of several lengths, two of them in flight; also on memory that the ranks own. */
static gs_status all_calls(gs_comm *c, void *in, void *out) {
    int next = (c->rank + 1) % c->size, last = (c->rank + c->size - 1) % c->size;
    for (size_t n = 1; n <= COUNT; n *= 70) {
        for (int k = 0; k < 2; k++) GS_TRY(gs_comm_send(c, in, n * 4, next));
        for (int k = 0; k < 2; k++) GS_TRY(gs_comm_recv(c, out, n * 4, last));
        for (int o = GS_BROADCAST; o <= GS_BARRIER; o++) {
            gs_call call = {(gs_operation)o, n, GS_F32, GS_SUM, 0};
            GS_TRY(gs_call_run(c, &call, in, out));
        }
    }
    return GS_OK;
}

static gs_status call_often(gs_comm *c, void *context) {
    (void)context;
    void *in = gs_test_scratch((size_t)COUNT * GS_TEST_RANKS * 4);
    void *out = gs_test_scratch((size_t)COUNT * GS_TEST_RANKS * 4);
    for (int round = 0; round < ROUNDS; round++) {
        if (round == WARM_ROUNDS && c->rank == 0) begin_counting();
        GS_TRY(all_calls(c, in, out));
    }
    GS_TRY(gs_comm_barrier(c));
    if (c->rank == 0) atomic_store(&gs_test_allocated.counting, false);
    return gs_comm_barrier(c);
}

TEST(collectives_between_threads_allocate_nothing) {
    static const gs_test_layout layouts[] = {{"2 threads", 0, {2}}, {"3 threads", 0, {3}}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        atomic_store(&gs_test_allocated.counting, true);
        gs_test_ranks_ok(&layouts[i], call_often, NULL);
        assert_nothing_was_allocated(layouts[i].name);
        atomic_store(&gs_test_allocated.counting, true);
        gs_test_ranks_checked_ok(&layouts[i], call_often, NULL);
        assert_nothing_was_allocated(layouts[i].name);
    }
}

/* Long messages to rank 0 and back, as with a parameter server. In training it is a matter of luck whether one message
 * is in flight at a time or, if rank 0 is late, all are at once. Here the first rounds have one at a time, the later
 * ones all at once. */
static gs_status serve_late(gs_comm *c, void *context) {
    (void)context;
    enum { LONG = (4 << 20) + 1 };
    void *data = gs_test_scratch(LONG);
    for (int round = 0; round < ROUNDS; round++) {
        const bool late = round >= WARM_ROUNDS;
        if (round == WARM_ROUNDS && c->rank == 0) begin_counting();
        for (int back = 0; back < 2; back++) {
            for (int r = 1; r < c->size; r++) {
                const int from = back ? 0 : r, to = back ? r : 0;
                if (c->rank == from) GS_TRY(gs_comm_send(c, data, LONG, to));
                if (late) continue;
                GS_TRY(gs_comm_barrier(c));
                if (c->rank == to) GS_TRY(gs_comm_recv(c, data, LONG, from));
                GS_TRY(gs_comm_barrier(c));
            }
            GS_TRY(gs_comm_barrier(c));
            for (int r = 1; r < c->size && late; r++)
                if (c->rank == (back ? r : 0)) GS_TRY(gs_comm_recv(c, data, LONG, back ? 0 : r));
        }
    }
    GS_TRY(gs_comm_barrier(c));
    if (c->rank == 0) atomic_store(&gs_test_allocated.counting, false);
    return gs_comm_barrier(c);
}

TEST(long_messages_allocate_nothing_however_late) {
    atomic_store(&gs_test_allocated.counting, true);
    gs_test_ranks_ok(&(gs_test_layout){"4 threads", 0, {4}}, serve_late, NULL);
    assert_nothing_was_allocated("4 threads");
}

/* This includes the leaders' memory: Gloo is not used once all ranks have met. */
TEST(collectives_in_shared_memory_allocate_nothing) {
    static const gs_test_layout layouts[] = {{"3 processes", 3, {1, 1, 1}},
                                             {"2 processes of 2 threads", 2, {2, 2}}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        atomic_store(&gs_test_allocated.counting, true);
        gs_test_ranks_ok_over("shm", &layouts[i], call_often, NULL);
        assert_nothing_was_allocated(layouts[i].name);
    }
}
#endif
