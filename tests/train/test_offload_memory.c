/* --offload in the ledger: the offloaded and the remaining memory. test_offload_bits.c compares the bits. */
#include "tests/support/on_devices.h"
#include "tests/support/files.h"
#include "tests/support/training.h"

#include <math.h>

#include "layer/memory/recompute.h"
#include "layer/watch.h"
#include "optim/offload.h"

/* All memory of an offloaded kind moves, and less remains on the device. */
TEST(the_ledger_says_what_is_elsewhere) {
    static const gs_memory_kind kinds[] = {GS_MEMORY_OPTIMIZER, GS_MEMORY_ACTIVATIONS, GS_MEMORY_WEIGHTS};
    gs_settings s = gs_test_settings("cpu --batch 60 --steps 2 --epochs 1 --optimizer adam");
    s.model = "flatten, linear 600, 9 x linear 600, linear 10";
    const gs_result plain = gs_test_train_as_planned(&s, "nothing elsewhere");
    const double model = 4.0 * (double)plain.params;
    assert_true(gs_memory_total(&plain.worker[0].memory[GS_OFFLOADED]) == 0);
    for (int i = 0; i < 3; i++) {
        s.offload = 1U << i;
        const gs_result r = gs_test_train_as_planned(&s, gs_memory_word(kinds[i]));
        const double here = r.worker[0].memory[GS_ON_DEVICE].bytes[kinds[i]],
                     before = plain.worker[0].memory[GS_ON_DEVICE].bytes[kinds[i]],
                     there = r.worker[0].memory[GS_OFFLOADED].bytes[kinds[i]];
        if (!(before - here > 0.2 * there) || !(there > 0) || (i != 1 && there < model * (i == 0 ? 2 : 1)))
            fail_msg("%s: %.0f bytes on the device instead of %.0f, and %.0f offloaded",
                     gs_memory_word(kinds[i]), here, before, there);
    }
    double places[2][GS_MEMORY_PLACES]; /* data to be recomputed are not offloaded */
    for (int again = 0; again < 2; again++) {
        s.model = "flatten, linear 600, 9 x residual (linear 600, tanh, linear 600), linear 10";
        s.offload = GS_OFFLOAD_ACTIVATIONS;
        s.recompute = again ? GS_RECOMPUTE_BLOCKS : GS_RECOMPUTE_NONE;
        const gs_result r = gs_test_train_as_planned(&s, "activations, with --recompute or without");
        for (int p = 0; p < GS_MEMORY_PLACES; p++)
            places[again][p] = r.worker[0].memory[p].bytes[GS_MEMORY_ACTIVATIONS];
    }
    assert_true(places[1][GS_OFFLOADED] < 0.6 * places[0][GS_OFFLOADED]);
    assert_true(places[1][GS_ON_DEVICE] <= places[0][GS_ON_DEVICE]);
    s.recompute = 3;
    s.offload = GS_OFFLOADS;
    s.devices = "cpu,cpu";
    for (s.tensor = 0; s.tensor <= 2; s.tensor += 2) gs_test_train_as_planned(&s, "all, with --recompute 3");
}

/* The last chunk of a worker's weights has 178 floats. A dry run must not read them (run it under ASan). */
TEST(a_dry_run_reads_no_small_last_chunk) {
    gs_settings s = gs_test_options("--devices cpu,cpu --tensor 2 --offload weights --threads 1 --batch 8 "
                                    "--model 'flatten, linear 1520, tanh, linear 10'");
    gs_memory_plan plan;
    s.train_set = s.test_set = gs_test_made_set((gs_shape){1, 32, 32, 0}, 10, 16, false);
    assert_ok(gs_memory_plan_create(&s, &plan));
    gs_memory_plan_free(&plan);
}

/* Only three of ten layers, and a few of their weights, are on the device at once. */
TEST(it_takes_less) {
    gs_test_need_opencl();
    static const struct {
        unsigned offload;
        gs_memory_kind kind;
        double most;
    } cases[] = {{GS_OFFLOAD_ACTIVATIONS, GS_MEMORY_ACTIVATIONS, 0.5},
                 {GS_OFFLOAD_WEIGHTS, GS_MEMORY_WEIGHTS, 0.7}};
    gs_settings s =
        gs_test_with(gs_test_settings("cl --batch 60 --steps 5 --epochs 1 --optimizer adam"),
                     "--model 'flatten, linear 700, 9 x (linear 700, tanh), linear 10' --batch 200");
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

/* Workers that hold parts: each micro-batch of a stage, and each pass with ZeRO, offloads its y. */
TEST(parts_take_what_is_planned_and_less) {
    static const char *const layouts[] = {"dp2,zero1", "dp2,zero2", "dp2,zero3",
                                          "pp2,dp1 --pipeline-cut flops"};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        gs_settings s =
            gs_test_settings("cpu,cpu --model 'flatten, linear 500, 12 x (linear 500, tanh), linear 10' "
                             "--batch 512 --steps 3 --epochs 1 --optimizer adam --layout %s",
                             layouts[i]);
        const gs_result plain = gs_test_train_as_planned(&s, layouts[i]);
        s.offload = GS_OFFLOAD_OPTIMIZER | GS_OFFLOAD_ACTIVATIONS;
        const gs_result r = gs_test_train_as_planned(&s, layouts[i]);
        assert_same_bits(&plain, &r, layouts[i]);
        static const gs_memory_kind kinds[] = {GS_MEMORY_OPTIMIZER, GS_MEMORY_ACTIVATIONS};
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            const double here = r.worker[0].memory[GS_ON_DEVICE].bytes[kinds[k]],
                         before = plain.worker[0].memory[GS_ON_DEVICE].bytes[kinds[k]],
                         there = r.worker[0].memory[GS_OFFLOADED].bytes[kinds[k]];
            if (!(before - here > 0.3 * before) || !(there > 0))
                fail_msg("%s, %s: %.0f bytes on the device instead of %.0f, and %.0f offloaded", layouts[i],
                         gs_memory_word(kinds[k]), here, before, there);
        }
    }
}

/* Maps part of a vector for the host, and unmaps it. */
TEST(a_mapped_vector_is_booked) {
    enum { PAGE = 4096 / sizeof(float) };
    gs_device *cpu = gs_test_device("cpu", 1);
    cpu->offload = GS_OFFLOAD_OPTIMIZER;
    cpu->offload_folder = gs_test_folder();
    gs_model *m = gs_test_model(cpu, .text = "mlp", .in = {1, 28, 28, 0}, .max_batch = 1, .seed = 1);
    gs_optimizer *o;
    gs_memory_use use[3];
    float *host;
    assert_ok(gs_optimizer_create(&gs_adam, m, 0.1f, 0, 0, &o));
    gs_ledger_now(&cpu->memory, GS_ON_DEVICE, &use[0]);
    assert_ok(gs_optimizer_map_vector(o, 1, 2 * PAGE, 10 * PAGE, &host));
    gs_ledger_now(&cpu->memory, GS_ON_DEVICE, &use[1]);
    assert_ok(gs_optimizer_unmap_vector(o, 1, 2 * PAGE, 10 * PAGE, host));
    gs_ledger_now(&cpu->memory, GS_ON_DEVICE, &use[2]);
    gs_optimizer_free(o);
    assert_near(use[1].bytes[GS_MEMORY_OPTIMIZER] - use[0].bytes[GS_MEMORY_OPTIMIZER], 40960, 0, 0);
    assert_near(use[2].bytes[GS_MEMORY_OPTIMIZER], use[0].bytes[GS_MEMORY_OPTIMIZER], 0, 0);
}

/* The messages that rank 0 has received. */
static struct {
    gs_transport ops;
    const gs_transport *inner;
    size_t largest, bytes;
} messages;

static gs_status note_message(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    if (e->call->operation == GS_RECV && bytes > messages.largest) messages.largest = bytes;
    if (e->call->operation == GS_RECV) messages.bytes += bytes;
    return messages.inner->recv(c, e, data, bytes);
}

static void watch_messages(void *context, const gs_worker *w) {
    (void)context;
    messages.inner = w->comm->ops;
    messages.ops = *messages.inner;
    messages.ops.recv = note_message;
    w->comm->ops = &messages.ops;
}

TEST(vectors_are_sent_in_blocks) {
    gs_settings s = gs_test_settings("cpu,cpu --batch 20 --steps 1 --epochs 1 --zero 1 --optimizer adam "
                                     "--model 'flatten, linear 1000, linear 1000, linear 10' --save-state "
                                     "--save %s/x.st",
                                     gs_test_folder());
    s.offload = GS_OFFLOAD_OPTIMIZER;
    gs_result r;
    assert_ok(gs_train(&s, &(gs_observer){.context = NULL, .start = watch_messages}, &r));
    assert_true(messages.bytes >= r.params * sizeof(float)); /* rank 1's halves of two vectors */
    assert_int_equal(messages.largest, GS_OFFLOAD_BLOCK * sizeof(float));
    gs_result_free(&r);
}

/* Must agree to the byte, although neighbours share pages and a step may find pages left by an earlier step or test. */
TEST(models_take_what_is_planned) {
    static const char *const models[] = {"mlp", "lenet", "gpt"}, *const data[] = {"fashion-mnist-small",
                                                                                  "jargon"};
    static const size_t batches[] = {64, 333, 256}, counts[] = {700, 200, 7, 3};
    gs_dataset *set[4];
    for (int i = 0; i < 4; i++) {
        set[i] = gs_test_load(data[i / 2], (gs_split)(i % 2));
        set[i]->count = counts[i];
    }
    for (unsigned n = 0; n < 6 * GS_OFFLOADS; n++) {
        const bool text = n % 3 == 2;
        gs_settings s = gs_test_settings("cpu");
        s.model = models[n % 3];
        s.batch = text ? 1 + n % 4 : batches[n / 3 % 3];
        s.offload = 1 + n / 6;
        s.optimizer = n % 2 ? &gs_sgd : &gs_adam;
        s.tests = n % 6 < 3 ? 1 + (int)(n % 2) : 0;
        s.steps = 2 + n % 5 / 4;
        s.train_set = set[2 * text];
        s.test_set = set[2 * text + 1];
        gs_test_train_as_planned(&s,
                                 gs_test_format("%s --batch %zu --offload %u", s.model, s.batch, s.offload));
    }
}

/* The process's memory falls by the planned amount, within 10 %. */
TEST(the_process_takes_less) {
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    skip_because("a sanitizer uses additional memory");
#endif
    gs_test_need_whole();
    static const char RUN[] = "--model \"flatten, 10 x linear 1000, linear 10\" --steps 2 --batch 10 "
                              "--threads 1 --optimizer adam --json";
    static const char *const levers[] = {"", "--offload weights", "--offload optimizer,weights"};
    double took[3], planned[3];
    for (size_t i = 0; i < sizeof levers / sizeof *levers; i++) {
        char *output = gs_test_output(0, "train %s %s", RUN, levers[i]);
        took[i] = 1e6 * gs_test_number_after(output, "\"peak_memory_mb\":");
        output = gs_test_output(0, "memory %s %s", RUN, levers[i]);
        planned[i] = gs_test_number_after(output, "\"total\":");
        if (took[0] - took[i] < 0.9 * (planned[0] - planned[i]))
            fail_msg("%s: the process uses %.1f MB instead of %.1f MB, and the plans are %.1f and %.1f MB",
                     levers[i], took[i] / 1e6, took[0] / 1e6, planned[i] / 1e6, planned[0] / 1e6);
    }
    assert_true(planned[0] - planned[2] > 80e6);
}

typedef struct watch {
    gs_device *device;
    gs_layer_hooks hooks;
    gs_memory_kind kind;
    double first, worst, most; /* the initial error, its largest change since, and the peak memory */
    int calls;
} watch;

static gs_status before_a_layer(void *context, const gs_pass *pass, int child, bool backward) {
    watch *x = context;
    gs_memory_use now;
    char status[4096] = "";
    (void)pass, (void)child, (void)backward;
    GS_TRY(x->device->ops->settle(x->device));
    gs_ledger_now(&x->device->memory, GS_ON_DEVICE, &now);
    read_raw("/proc/self/status", (unsigned char *)status, sizeof status - 1);
    const double booked = now.bytes[x->kind], error = booked -
                                                      1024 * gs_test_number_after(status, "RssFile:") -
                                                      1024 * gs_test_number_after(status, "RssShmem:");
    if (x->calls++ == 0) x->first = error;
    x->worst = fmax(x->worst, fabs(error - x->first));
    x->most = fmax(x->most, booked);
    return GS_OK;
}

static void add_hooks(void *context, const gs_worker *w) {
    watch *x = context;
    x->device = w->device;
    x->hooks = (gs_layer_hooks){.begins = before_a_layer, .context = x};
    gs_layer_add_hooks(w->model->net, &x->hooks);
}

/* Compares before each layer, forward and backward. A page fault may also map pages around the requested one: 64 kB. */
TEST(the_ledger_holds_what_the_process_holds) {
    gs_test_need_whole();
    for (int i = 0; i < 2; i++) {
        watch x = {.kind = i ? GS_MEMORY_WEIGHTS : GS_MEMORY_ACTIVATIONS};
        gs_settings s = gs_test_settings("cpu --batch 500 --micro-batch 500 --steps 2 --epochs 1 --threads "
                                         "1 --model 'flatten, 8 x (linear 1000, tanh), linear 10'");
        s.offload = i ? GS_OFFLOAD_WEIGHTS : GS_OFFLOAD_ACTIVATIONS;
        gs_result r;
        assert_ok(gs_train(&s, &(gs_observer){.context = &x, .start = add_hooks}, &r));
        gs_result_free(&r);
        if (x.calls < 50 || x.most < 6e6 || x.worst > 0.05 * x.most)
            fail_msg("%s: with at most %.0f bytes in memory the ledger is off by %.0f in one of %d checks",
                     gs_memory_word(x.kind), x.most, x.worst, x.calls);
    }
}
