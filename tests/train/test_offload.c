/* --offload: unlinked files, the thread that fetches, and what users see. */
#include "tests/support/on_devices.h"
#include "tests/support/files.h"
#include "tests/support/training.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "io/mapped.h"
#include "layer/memory/recompute.h"
#include "train/offload.h"

/* ---- an unlinked file, and the thread that fetches ---- */

TEST(a_file_has_no_name) {
    const char *folder = gs_test_folder();
    float *x;
    void *memory;
    assert_ok(gs_mapped_create(folder, 5000 * sizeof *x, &memory));
    x = memory;
    for (int i = 0; i < 5000; i++) assert_true(x[i] == 0);
    assert_int_equal(entries(folder), 0); /* a process that is killed now leaves nothing behind */
    gs_mapped_free(memory, 5000 * sizeof *x);
}

/* Data that is dropped at any time comes back unchanged. */
TEST(what_is_dropped_comes_back) {
    enum { COUNT = 100000, PIECE = 7001 };
    gs_device *cpu = gs_test_device("cpu", 1);
    void *memory;
    cpu->offload_folder = gs_test_folder();
    assert_ok(cpu->ops->alloc_offloaded(cpu, COUNT * sizeof(uint32_t), &memory));
    uint32_t *x = memory;
    for (uint32_t round = 1; round < 4; round++)
        for (size_t at = 0; at < COUNT; at += PIECE) {
            const size_t count = COUNT - at < PIECE ? COUNT - at : PIECE;
            uint64_t number;
            assert_ok(cpu->ops->fetch(cpu, (gs_mem)GS_NONE, x + at, count * sizeof *x, &number));
            if (at % 2) assert_ok(cpu->ops->await(cpu, number));
            for (size_t i = at; i < at + count; i++) x[i] += (uint32_t)i * round;
            assert_ok(cpu->ops->offload(cpu, x + at, (gs_mem)GS_NONE, count * sizeof *x, NULL));
        }
    for (size_t i = 0; i < COUNT; i++) assert_int_equal(x[i], (uint32_t)i * 6);
    assert_ok(cpu->ops->settle(cpu));
    assert_true(cpu->offload_times.bytes >= 3 * COUNT * sizeof *x);
    cpu->ops->free_offloaded(cpu, memory);
}

/* ---- all weights to the host ---- */

static struct {
    gs_backend ops;
    const gs_backend *inner;
    atomic_bool waits, early;
    atomic_int moved, copied;
} copies;

/* Runs in the fetching thread and makes it as slow as possible: it does nothing until the owner waits for it. */
static void move(void *context, uint64_t step, const gs_offload_transfer *moved) {
    (void)context, (void)step, (void)moved;
    while (!copies.waits) sched_yield();
    copies.moved++;
}

static gs_status settle(gs_device *d) {
    copies.waits = true;
    const gs_status status = copies.inner->settle(d);
    copies.waits = false;
    return status;
}

/* By now the block that it reads has been fetched, and all blocks before that have been dropped. */
static gs_status read_block(gs_device *d, void *to, gs_mem from, size_t bytes) {
    if (copies.moved != 2 * copies.copied++ + 1) copies.early = copies.waits = true;
    return copies.inner->read(d, to, from, bytes);
}

TEST(a_block_of_weights_goes_before_the_next_is_copied) {
    gs_device *cpu = gs_test_device("cpu", 1);
    cpu->offload = GS_OFFLOAD_WEIGHTS;
    cpu->offload_folder = gs_test_folder();
    gs_model *m = gs_test_model(cpu, .text = "mlp", .in = {1, 28, 28, 0}, .max_batch = 1, .seed = 1);
    float *host = gs_test_keep(malloc(m->saved * sizeof *host));
    copies.inner = cpu->ops;
    copies.ops = *cpu->ops;
    copies.ops.settle = settle;
    copies.ops.read = read_block;
    cpu->ops = &copies.ops;
    cpu->offload_watcher.moved = move;
    assert_ok(gs_model_read_weights(m, host));
    const int moved = copies.moved;
    copies.waits = true; /* the thread may finish the rest */
    assert_true(!copies.early && copies.copied == 3 && moved == 6);
    cpu->ops = copies.inner;
}

/* ---- a vector to the host ---- */

static gs_status refuse_map(gs_device *d, gs_mem m, size_t bytes, void **host) {
    (void)d, (void)m, (void)bytes, (void)host;
    return gs_fail(GS_E_OPENCL, "a map copies all back");
}

TEST(a_vector_that_stays_is_copied_once) {
    gs_device *cpu = gs_test_device("cpu", 1);
    gs_model *m = gs_test_model(cpu, .text = "mlp", .in = {1, 28, 28, 0}, .max_batch = 1, .seed = 1);
    gs_optimizer *o;
    float from[5] = {1, 2, 3, 4, 5}, to[7] = {0};
    assert_ok(gs_optimizer_create(&gs_adam, m, 0.1f, 0, 0, &o));
    copies.inner = cpu->ops;
    copies.ops = *cpu->ops;
    copies.ops.map = refuse_map;
    cpu->ops = &copies.ops;
    const gs_status written = gs_optimizer_copy_vector(o, 1, 3, 5, NULL, from),
                    read = gs_optimizer_copy_vector(o, 1, 2, 7, to, NULL);
    cpu->ops = copies.inner;
    gs_optimizer_free(o);
    assert_ok(written);
    assert_ok(read);
    for (int i = 0; i < 7; i++) assert_true(to[i] == (i >= 1 && i < 6 ? (float)i : 0));
}

/* In a dry run addresses are invalid, so nothing may be copied. */
TEST(a_dry_run_copies_no_vector) {
    gs_device *cpu = gs_test_device("cpu", 1);
    cpu->offload = GS_OFFLOAD_OPTIMIZER;
    gs_device_set_dry(cpu);
    gs_model *m = gs_test_model(cpu, .text = "mlp", .in = {1, 28, 28, 0}, .max_batch = 1, .seed = 1);
    gs_optimizer *o;
    float x = 3;
    assert_ok(gs_optimizer_create(&gs_adam, m, 0.1f, 0, 0, &o));
    const gs_status written = gs_optimizer_copy_vector(o, 0, 0, 1, NULL, &x);
    x = 5;
    const gs_status read = gs_optimizer_copy_vector(o, 0, 0, 1, &x, NULL);
    gs_optimizer_free(o);
    assert_ok(written);
    assert_ok(read);
    assert_true(x == 5);
}

/* ---- runs (the bits with every strategy: test_offload_bits.c) ---- */

/* The update has three blocks, the last one smaller; the model has eight layers. */
static gs_settings settings(const char *options) {
    return gs_test_settings(
        "cpu --model 'flatten, linear 512, relu, linear 512, dropout 0.2, tanh, linear 60, linear "
        "10' --batch 60 --steps 5 --epochs 1 --threads 1 --optimizer adam %s",
        options);
}

/* Digest records, which also read offloaded vectors, show that every step is the same. */
TEST(a_record_is_the_same) {
    const char *devices[] = {"cpu", "cl"}, *folder = gs_test_folder();
    for (int i = 0; i < (gs_test_has_opencl() ? 2 : 1); i++) {
        static const char RUN[] = "train --model \"flatten, linear 512, relu, linear 512, linear 10\" "
                                  "--steps 2 --batch 20 --threads 1 --optimizer adam";
        const char *d = devices[i];
        assert_prints(0, "sha256", "%s --devices %s --digest %s/%s", RUN, d, folder, d);
        assert_prints(0, "sha256", "%s --devices %s --digest %s/%s-off --offload optimizer%s", RUN, d, folder,
                      d, i ? "" : ",weights,activations");
        assert_prints(0, "the same, to the bit", "explain %s/%s-off %s/%s", folder, d, folder, d);
    }
}

/* Offload files have no names, so two runs can share a folder. The second run starts while the first one, whose steps
 * wait, is running. */
TEST(two_runs_share_a_folder) {
    static const char RUN[] =
        "train --model lenet --threads 1 --batch 32 --steps 20 --optimizer adam --jitter 0:20ms";
    const char *folder = gs_test_folder();
    char *output;
    const char *one = gs_test_format("sha256 %s", gs_test_sha256("%s", RUN)),
               *other = gs_test_format("sha256 %s", gs_test_sha256("%s --seed 2", RUN));
    const int status = gs_test_shell(
        &output,
        "cd %s && exec 2>&1; run='%s/gradsum %s --offload optimizer,activations,weights --offload-dir .'\n"
        "$run >out & " GS_TEST_AWAIT("step ") "$run --seed 2 || echo failed; wait $! || echo failed; cat out",
        folder, GS_BUILD_DIR, RUN);
    if (status != 0 || strstr(output, "failed") || !strstr(output, one) || !strstr(output, other))
        fail_msg("exit status %d, wanted %s and %s: %s", status, one, other, output);
}

/* A run resumes another one; either of them may offload its vectors. */
TEST(a_run_is_resumed) {
    static const char *const runs[] = {"--devices cpu",
                                       "--devices cpu,cpu --tensor 2",
                                       "--devices cpu,cpu --zero 2",
                                       "--devices cpu,cpu --pipeline 2",
                                       "--devices cl",
                                       "--devices cl,cl --zero 1",
                                       "--devices cl,cl --zero 3",
                                       "--devices cl,cpu --pipeline 2 --pipeline-cut flops"};
    for (int i = 0; i < (gs_test_has_opencl() ? 8 : 4); i++) {
        gs_settings s = settings(runs[i]);
        const char *half = gs_test_format("%s/half.st", gs_test_folder());
        gs_result whole = gs_test_train(&s);
        for (unsigned both = 0; both < 2; both++) {
            s = gs_test_with(s, "--steps 2 --save %s --save-state", half);
            s.resume = NULL;
            s.offload = both ? 0 : GS_OFFLOAD_OPTIMIZER;
            (void)gs_test_train(&s);
            s = gs_test_with(s, "--resume %s --steps 5", half);
            s.offload = GS_OFFLOAD_OPTIMIZER;
            assert_trains_to(&whole, &s, runs[i]);
        }
    }
}

/* Saving, resuming, recording and histograms all find the weights. */
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

/* ---- failing files ---- */

TEST(a_full_disk_ends_the_run) {
    struct rlimit limit, small;
    gs_result r;
    gs_settings s = settings("");
    s.offload = GS_OFFLOAD_OPTIMIZER;
    s.offload_dir = gs_test_folder();
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    small = limit;
    small.rlim_cur = 1 << 20;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const gs_status status = gs_train(&s, NULL, &r); /* no assertion before the limit is restored */
    const char *message = gs_test_format("%s", gs_message());
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, handler);
    if (status != GS_E_FILE || !strstr(message, "--offload: no room for 2.8 MB in ") ||
        !strstr(message, "--offload-dir takes another folder"))
        fail_msg("%s: %s", gs_status_name(status), message);
    assert_int_equal(r.steps, 0);
    gs_result_free(&r);
    assert_int_equal(entries(s.offload_dir), 0);
}

/* The program reports it too, with several workers, and an older saved file is unchanged. */
TEST(the_program_ends_in_order) {
    const char *saved = in_folder(gs_test_folder(), "saved");
    char *output =
        gs_test_shell_output(1,
                             "printf '\\2\\0\\0\\0\\0\\0\\0\\0{}older' >%s; ulimit -f 1000; %s/gradsum train "
                             "--devices cpu,cpu --model mlp --steps 1 --offload optimizer --save %s",
                             saved, GS_BUILD_DIR, saved);
    assert_has(output, "--offload: no room for ");
    gs_test_shell(&output, "tail -c 5 %s", saved);
    assert_string_equal(output, "older");
    assert_prints(1,
                  "--offload: cannot make a file in /proc/nowhere: No such file or directory; --offload-dir",
                  "train --steps 1 --offload optimizer --offload-dir /proc/nowhere");
    assert_prints(1, "--offload: cannot make a file in /proc: ",
                  "train --steps 1 --offload optimizer --offload-dir /proc");
}

/* ---- combinations ---- */

TEST(lists_are_read) {
    static const struct {
        const char *text;
        unsigned value;
    } good[] = {{"none", 0},
                {"optimizer", GS_OFFLOAD_OPTIMIZER},
                {"weights,optimizer", GS_OFFLOAD_OPTIMIZER | GS_OFFLOAD_WEIGHTS},
                {"activations,weights,optimizer", GS_OFFLOADS}};
    static const char *const bad[] = {
        "",         "optimizer,",   ",optimizer",          "optimizer,optimizer",
        "gradient", "none,weights", "weights activations", "weightsoptimizer"};
    char text[GS_OFFLOAD_TEXT];
    unsigned value;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(gs_offload_read(good[i].text, &value));
        assert_int_equal(value, good[i].value);
        assert_true(gs_offload_read(gs_offload_text(value, text, sizeof text), &value));
        assert_int_equal(value, good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(gs_offload_read(bad[i], &value));
}

TEST(bad_use_gets_a_sentence) {
    static const struct {
        const char *options, *says;
    } cases[] = {
        {"--offload momentum",
         "--offload: 'momentum' is not none, or some of optimizer, activations and weights"},
        {"--offload-dir /tmp",
         "--offload-dir /tmp says where --offload puts its files; wanted --offload too"},
        {"--offload optimizer --optimizer lars",
         "--optimizer lars needs whole tensors, and an update goes block by block then: it does not work "
         "with --offload optimizer; wanted another optimiser, such as adam"},
        {"--offload weights --devices cpu,cpu,cpu,cpu --layout tp2,pp2",
         "--pipeline would bring all weights of a stage again for each micro-batch"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_prints(2, cases[i].says, "train --steps 1 %s", cases[i].options);
    static const char WIDE[] = "memory %s --model \"flatten, 9 x linear 600, linear 10\"";
    assert_prints(0, "--offload optimizer", WIDE, "--optimizer adam");
    assert_prints(0, "--offload activations", WIDE, "");
    assert_prints(0, "--offload weights", WIDE, "");
    if (gs_mapped_is_memory("/dev/shm"))
        assert_prints(0, "in files in /dev/shm, which is memory itself",
                      "train --model lenet --steps 1 --batch 2 --offload optimizer --offload-dir /dev/shm");
    assert_prints(0, "+ offloaded", "memory --optimizer adam --offload optimizer");
}

/* --fit offloads as few kinds as suffice. */
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
