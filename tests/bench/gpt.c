/* How fast a small GPT trains: nanoGPT's settings for a CPU (4 layers, 4 heads, width 128, context 64, 65 characters),
 * on random tokens. Prints the steps, the median and the shortest step, sequences per second, the processor time of a
 * sequence (which other programs on the same cores change less than the clock), and the memory of the process:
 *
 *     bench-gpt [DEVICES [THREADS [STEPS [sgd|adamw [CONTEXT [BATCH]]]]]]
 *     bench-gpt cpu,cpu 1 100 adamw
 *
 * THREADS: of each cpu worker. BATCH: sequences of a step, over all workers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "core/clock.h"
#include "train/train.h"

enum { SEQUENCES = 240, TESTED = 1 /* at the end of an epoch */, VOCABULARY = 65 };

static const char model[] =
    "block transformer = residual (layer_norm, linear 384, attention 4 causal, linear 128), "
    "residual (layer_norm, linear 512, gelu, linear 128); "
    "embedding 65 128, positions, 4 x transformer, layer_norm, linear 65 no_bias";

static double processor, least, first_step, shortest;
static uint64_t counted;

static void stop(void) {
    fprintf(stderr, "bench-gpt: %s\n", gs_message());
    exit(1);
}

static double processor_seconds(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_utime.tv_sec + 1e-6 * (double)u.ru_utime.tv_usec + (double)u.ru_stime.tv_sec +
           1e-6 * (double)u.ru_stime.tv_usec;
}

/* From the third step on everything is warm. */
static void on_step(void *context, int epoch, uint64_t done, uint64_t of, const gs_score *score) {
    static uint64_t steps;
    static double last, last_processor, begun;
    const double *started = context, now = gs_seconds(), processor_now = processor_seconds();
    (void)epoch, (void)done, (void)of, (void)score;
    if (++steps == 1) first_step = now - *started;
    if (steps == 2) begun = processor_now;
    if (steps > 2) {
        counted = steps - 2;
        processor = processor_now - begun;
        if (least == 0 || processor_now - last_processor < least) least = processor_now - last_processor;
        if (shortest == 0 || now - last < shortest) shortest = now - last;
    }
    last = now;
    last_processor = processor_now;
}

/* Of every token the one that follows, at random: what is learned does not matter here. */
static gs_dataset *random_text(int sequences, int context) {
    const size_t tokens = (size_t)(sequences * context);
    float *x = malloc(tokens * sizeof *x);
    int32_t *label = malloc(tokens * sizeof *label);
    gs_dataset *set;
    uint32_t r = 1;
    if (!x || !label) exit(1);
    for (size_t i = 0; i < tokens; i++) {
        r = r * 1664525 + 1013904223;
        x[i] = (float)(r >> 8) / (1 << 24) * VOCABULARY;
        x[i] = (float)(int)x[i];
        if (i > 0) label[i - 1] = (int32_t)x[i];
    }
    label[tokens - 1] = 0;
    const gs_shape in = {1, 1, 1, context};
    if (gs_dataset_from_token_labels("random", (size_t)sequences, in, x, context, label, &set) != GS_OK)
        stop();
    free(x);
    free(label);
    return set;
}

int main(int argc, char **argv) {
    double started = gs_seconds();
    if (argc > 7) {
        fprintf(stderr, "usage: bench-gpt [DEVICES [THREADS [STEPS [sgd|adamw [CONTEXT [BATCH]]]]]]\n");
        return 2;
    }
    const int context = argc > 5 ? atoi(argv[5]) : 64;
    gs_cl_choose_settings(true);
    gs_settings s = gs_settings_default();
    gs_dataset *set = random_text(SEQUENCES, context), *test = random_text(TESTED, context);
    s.model = model;
    s.train_set = set;
    s.test_set = test;
    s.devices = argc > 1 ? argv[1] : "cpu";
    s.threads = argc > 2 ? atoi(argv[2]) : 1;
    s.steps = argc > 3 ? (uint64_t)atoi(argv[3]) : 100;
    s.batch = argc > 6 ? (size_t)atoi(argv[6]) : 12;
    s.epochs = 1000000;
    s.lr = 0.001f;
    if (argc > 4 && strcmp(argv[4], "adamw") == 0) s.optimizer = &gs_adamw;
    const gs_observer observer = {.context = &started, .step = on_step};
    gs_result r;
    if (gs_train(&s, &observer, &r) != GS_OK) stop();
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    printf("%s, %d threads: %.3f ms a step, shortest %.3f; %.1f sequences/s, at best %.1f;\n", s.devices,
           s.threads, 1e3 * r.step_median, 1e3 * shortest, (double)s.batch / r.step_median,
           shortest > 0 ? (double)s.batch / shortest : 0);
    printf("    %.3f ms of processor a sequence, at least %.3f; first step after %.2f s; %.1f MB\n",
           counted > 0 ? 1e3 * processor / (double)(counted * s.batch) : 0, 1e3 * least / (double)s.batch,
           first_step, (double)u.ru_maxrss / 1024);
    gs_result_free(&r);
    gs_dataset_free(test);
    gs_dataset_free(set);
    return 0;
}
