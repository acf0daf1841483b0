/* The peak memory of a process, and copies of values between cores. */
#include "layer/layer.h"
#include "tests/support/on_devices.h"
#include "tests/support/files.h"
#include "tests/support/program.h"

#include <sys/wait.h>
#include <unistd.h>

#include "core/memory.h"

enum { FAT = 400 << 20 };

/* Called in the child process: runs `gradsum train`, whose output goes to `file`. */
static void become_a_run(const char *file) {
    const char *program = gs_test_format("%s/gradsum", GS_BUILD_DIR);
    if (!freopen(file, "w", stdout)) _exit(126);
    execl(program, program, "train", "--model", "softmax", "--steps", "1", "--threads", "1", "--json", NULL);
    _exit(127);
}

/* A small process reports its own peak, even if a large process, like this one, has started it. */
TEST(peak_memory_is_the_process_own) {
    char text[16384] = "";
    int status = -1;
    const char *file = gs_test_format("%s/out", gs_test_folder());
    char *fat = gs_test_malloc(FAT);
    memset(fat, 1, FAT);
    assert_true(gs_peak_memory() >= FAT);
    pid_t pid = fork();
    if (pid == 0) become_a_run(file);
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    read_raw(file, (unsigned char *)text, sizeof text - 1);
    const double reported = gs_test_number_after(text, "\"peak_memory_mb\":");
    if (!(reported > 1 && reported < FAT / 1e6))
        fail_msg("it reports %g MB; its parent has %d", reported, FAT / 1000000);
}

/* Lengths around the block size, and page offsets at which one of the copy instructions is slow. */
TEST(copies_are_whole) {
    static const size_t lengths[] = {0, 1, 63, 1023, 1024, 1025, 2047, 2048, 2049, 5000, 16384};
    static unsigned char from[16384 + 64], to[16384 + 128];
    for (size_t i = 0; i < sizeof from; i++) from[i] = (unsigned char)(i * 7 + i / 251);
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        for (size_t shift = 0; shift < 64; shift += 21) {
            memset(to, 0xaa, sizeof to);
            gs_copy(to + shift, from + 3, lengths[k]);
            assert_memory_equal(to + shift, from + 3, lengths[k]);
            for (size_t i = 0; i < sizeof to; i++)
                if (i < shift || i >= shift + lengths[k]) assert_int_equal(to[i], 0xaa);
        }
    }
}

static gs_status add_bytes(gs_layer *l, void *sum) {
    *(size_t *)sum += l->bytes;
    return GS_OK;
}

/* The memory for the buffers of a model with repeated blocks. */
static size_t bytes_of_model(const char *block, int blocks, size_t batch) {
    size_t bytes = 0;
    const char *text = gs_test_format("linear 64, %d x %s, linear 3", blocks, block);
    gs_device *d = gs_test_device("cpu", 1);
    gs_model *m = gs_test_model(d, .text = text, .in = {5, 1, 1, 0}, .max_batch = batch, .seed = 1);
    assert_ok(gs_layer_walk(m->net, add_bytes, &bytes));
    return bytes;
}

/* Another layer adds memory for its y, but none for its dx. */
TEST(gradients_of_layers_share_buffers) {
    static const struct {
        const char *block;
        size_t ys; /* arrays of 64 values that a block keeps for backward */
    } cases[] = {
        {"linear 64", 1},
        {"(linear 64, tanh)", 1},
        {"residual (linear 64, tanh, linear 64)", 2}, /* the sum overwrites the body's y */
        {"residual (linear 64, tanh)", 2},            /* tanh's backward needs the body's y */
        {"residual (linear 64 | residual (linear 64, linear 64))", 3},
    };
    /* in the arena, an f32 array is followed by two free cache lines (layer/memory/buffer_plan.c) */
    enum { BATCH = 7, FREE = 128 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t more =
            bytes_of_model(cases[i].block, 9, BATCH) - bytes_of_model(cases[i].block, 4, BATCH);
        assert_int_equal(more, 5 * cases[i].ys * (64 * BATCH * sizeof(float) + FREE));
    }
}
