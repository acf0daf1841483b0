/* Lesson 14: the list of its tasks, and the checks of all but 14.3 (check_backward.c). The expected statistics are
 * computed from all workers' numbers at once, around their common mean. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a batch and its parts ---- */

size_t lab_before(const batch *b, int worker) {
    size_t before = 0;
    for (int r = 0; r < worker; r++) before += b->samples[r];
    return before;
}

size_t lab_samples(const batch *b) {
    return lab_before(b, b->workers);
}

const char *lab_batch_text(const batch *b) {
    static _Thread_local char text[160];
    snprintf(text, sizeof text, "%d worker%s, samples", b->workers, gs_s((size_t)b->workers));
    for (int r = 0; r < b->workers; r++)
        lab_append(text, sizeof text, "%s %zu", r > 0 ? "," : "", b->samples[r]);
    lab_append(text, sizeof text, "; of %zu channel%s, plane %zu", b->channels, gs_s(b->channels), b->plane);
    return text;
}

batch lab_drawn_batch(size_t i) {
    batch b = {.workers = 2 + (int)lab_pick(SHAPE_ROW, 4 * i, MOST_WORKERS - 1),
               .channels = 1 + lab_pick(SHAPE_ROW, 4 * i + 1, 3),
               .plane = 1 + lab_pick(SHAPE_ROW, 4 * i + 2, MOST_PLANE)};
    for (int r = 0; r < b.workers; r++)
        b.samples[r] = lab_pick(PARTS_ROW, MOST_WORKERS * i + (size_t)r, MOST_SAMPLES + 1);
    b.samples[lab_pick(SHAPE_ROW, 4 * i + 3, (size_t)b.workers)] = 2;
    return b;
}

/* ---- how often workers sum ---- */

gs_status lab_check_one_call(const gs_comm *c) {
    const size_t calls = lab_calls_of(c).calls;
    LAB_CHECK_HINT(
        c->size == 1 || calls == 1,
        "each call costs all workers a latency. Put all numbers to sum into `numbers`, and sum once, on "
        "workers without samples too.",
        "this worker has made %zu calls to the others, expected 1", calls);
    return GS_OK;
}

/* ---- 14.1 ---- */

enum { LARGE_PLANE = 300 * 300 };

typedef struct colour_case {
    batch b;
    uint64_t number; /* of the case */
    unsigned values; /* of a byte of a colour; 1: all bytes are equal */
} colour_case;

/* Byte p of a colour. The values of each colour are in their own range, so that mixed-up colours show. */
static uint8_t byte_of(const colour_case *k, size_t sample, size_t colour, size_t p) {
    const size_t j = ((size_t)k->number * 64 + sample) * 64 + colour * 16 + p;
    return (uint8_t)(80 * colour + 5 + lab_pick(BYTE_ROW, j, k->values));
}

static gs_status check_colour(const colour_case *k, size_t colour, double mean, double deviation) {
    const size_t n = lab_samples(&k->b), plane = k->b.plane;
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n * plane; i++) sum += byte_of(k, i / plane, colour, i % plane);
    const double m = sum / (double)(n * plane);
    for (size_t i = 0; i < n * plane; i++) squares += pow(byte_of(k, i / plane, colour, i % plane) - m, 2);
    const double wanted = squares > 0 ? sqrt(squares / (double)(n * plane)) / 255 : 1;
    LAB_CHECK(fabs(mean - m / 255) <= 1e-9, "%s: colour %zu has mean %.9g, expected %.9g",
              lab_batch_text(&k->b), colour, mean, m / 255);
    LAB_CHECK(fabs(deviation - wanted) <= 1e-9, "%s%s: colour %zu has deviation %.9g, expected %.9g",
              lab_batch_text(&k->b), k->values == 1 ? ", all equal" : "", colour, deviation, wanted);
    return GS_OK;
}

static gs_status scale(gs_comm *c, void *context) {
    const colour_case *k = context;
    const size_t plane = k->b.plane, n = k->b.samples[c->rank], before = lab_before(&k->b, c->rank);
    const size_t count = n * COLOURS * plane;
    uint8_t *images = malloc(count + 1);
    double mean[COLOURS], deviation[COLOURS];
    if (!images) return gs_fail(GS_E_MEMORY, "no memory for %zu bytes", count);
    for (size_t i = 0; i < count; i++)
        images[i] = byte_of(k, before + i / (COLOURS * plane), i / plane % COLOURS, i % plane);
    const gs_status status = colour_scaling(c, images, n, plane, mean, deviation);
    free(images);
    GS_TRY(status);
    for (size_t i = 0; i < COLOURS; i++) GS_TRY(check_colour(k, i, mean[i], deviation[i]));
    return lab_check_one_call(c);
}

static gs_status colours_of_all_workers(void) {
    static const colour_case cases[] = {
        {{1, {1}, COLOURS, 2}, 0, 60},       {{1, {2}, COLOURS, 2}, 1, 1},
        {{2, {1, 1}, COLOURS, 1}, 2, 60},    {{2, {1, 3}, COLOURS, 4}, 3, 60},
        {{3, {2, 0, 1}, COLOURS, 3}, 4, 60}, {{2, {2, 2}, COLOURS, 4}, 12, 2}, /* nearly equal */
        {{2, {1, 2}, COLOURS, 5}, 13, 1}, /* equal; their number is no power of two */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        GS_TRY(lab_run_counted(cases[i].b.workers, scale, (void *)&cases[i]));
    GS_TRY(lab_run_broken(2, 0, scale, (void *)&cases[2]));
    for (size_t i = 0; i < 6; i++) {
        colour_case drawn = {lab_drawn_batch(i), 5 + i, 60};
        drawn.b.channels = COLOURS;
        GS_TRY(lab_run_counted(drawn.b.workers, scale, &drawn));
    }
    colour_case large = {{2, {1, 1}, COLOURS, LARGE_PLANE}, 11, 60}; /* the sum of its squares exceeds 2^32 */
    return lab_run_counted(large.b.workers, scale, &large);
}

/* ---- 14.2 ---- */

typedef struct statistics_case {
    batch b;
    size_t number;
    double around; /* added to all numbers */
} statistics_case;

/* Each worker's samples have another mean, as a worker with few samples does by chance. */
static double x_of(const statistics_case *k, size_t sample, size_t channel, size_t p) {
    int worker = 0;
    while (lab_before(&k->b, worker + 1) <= sample) worker++;
    const size_t j = ((k->number * 64 + sample) * MOST_CHANNELS + channel) * MOST_PLANE + p;
    return k->around + 2 * (double)worker - (double)(channel % 3) + (double)lab_number(X_ROW, j);
}

/* Mean and variance of the numbers of `count` samples from `first` on; 0 and 0 for none. */
static void moments(const statistics_case *k, size_t channel, size_t first, size_t count, double *mean,
                    double *var) {
    const double m = (double)(count * k->b.plane);
    *mean = *var = 0;
    for (size_t i = 0; i < count * k->b.plane; i++)
        *mean += x_of(k, first + i / k->b.plane, channel, i % k->b.plane) / m;
    for (size_t i = 0; i < count * k->b.plane; i++)
        *var += pow(x_of(k, first + i / k->b.plane, channel, i % k->b.plane) - *mean, 2) / m;
}

static gs_status share(gs_comm *c, void *context) {
    const statistics_case *k = context;
    const size_t channels = k->b.channels, n = k->b.samples[c->rank], before = lab_before(&k->b, c->rank);
    float mean[MOST_CHANNELS], var[MOST_CHANNELS];
    double m, v, all = -1, numbers[1 + 2 * MOST_CHANNELS];
    for (size_t i = 0; i < 1 + 2 * channels; i++) numbers[i] = NAN;
    for (size_t i = 0; i < channels; i++) {
        moments(k, i, before, n, &m, &v);
        mean[i] = (float)m;
        var[i] = (float)v;
    }
    GS_TRY(shared_statistics(c, (double)(n * k->b.plane), channels, mean, var, &all, numbers));
    const double wanted = (double)(lab_samples(&k->b) * k->b.plane);
    LAB_CHECK(all == wanted, "%s: *all is %g, expected %g", lab_batch_text(&k->b), all, wanted);
    for (size_t i = 0; i < channels; i++) {
        moments(k, i, 0, lab_samples(&k->b), &m, &v);
        LAB_CHECK(fabs((double)mean[i] - m) <= 1e-5 + 1e-7 * k->around,
                  "%s: channel %zu: mean is %.7g, expected %.7g", lab_batch_text(&k->b), i, mean[i], m);
        LAB_CHECK_HINT(fabs((double)var[i] - v) <= 1e-4 + 3e-7 * k->around,
                       k->around > 0
                           ? "as floats, the squares of large numbers have no digits left for the variance: "
                             "convert to double before you multiply."
                           : NULL,
                       "%s; numbers around %g: channel %zu: var is %.7g, expected %.7g",
                       lab_batch_text(&k->b), k->around, i, var[i], v);
    }
    return lab_check_one_call(c);
}

static gs_status statistics_of_all_workers(void) {
    /* With numbers around 1,000, S(x^2) / m - mean^2 in float would be noise. */
    static const statistics_case cases[] = {{{1, {3}, 1, 1}, 0, 0},
                                            {{2, {1, 1}, 1, 1}, 1, 0},
                                            {{2, {1, 3}, 1, 1}, 2, 0},
                                            {{2, {2, 1}, 2, 3}, 3, 0},
                                            {{3, {2, 0, 1}, 2, 2}, 4, 0},
                                            {{2, {2, 2}, 3, 4}, 11, 1000},
                                            {{2, {2, 1}, MOST_CHANNELS, 1}, 12, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        GS_TRY(lab_run_counted(cases[i].b.workers, share, (void *)&cases[i]));
    GS_TRY(lab_run_broken(2, 0, share, (void *)&cases[1]));
    for (size_t i = 0; i < 6; i++) {
        statistics_case drawn = {lab_drawn_batch(100 + i), 5 + i, 0};
        GS_TRY(lab_run_counted(drawn.b.workers, share, &drawn));
    }
    return GS_OK;
}

/* ---- 14.4 ---- */

typedef struct running_case {
    group g;
    bool first;
    float momentum;
} running_case;

static gs_status check_running(const running_case *k, size_t number) {
    enum { C = 40 };
    const size_t channels = number == 0 ? C : 1 + number % 5;
    float mean[C], var[C], running_mean[C], running_var[C], next_mean[C], next_var[C], before[2 * C];
    for (size_t i = 0; i < channels; i++) {
        const size_t at = 6 * (C * number + i);
        mean[i] = lab_number(RUNNING_ROW, at);
        var[i] = k->g.numbers > 1 ? 1.5f + lab_number(RUNNING_ROW, at + 1) : 0;
        running_mean[i] = lab_number(RUNNING_ROW, at + 2);
        running_var[i] = 1.5f + lab_number(RUNNING_ROW, at + 3);
        before[i] = lab_number(RUNNING_ROW, at + 4);
        before[C + i] = lab_number(RUNNING_ROW, at + 5);
        next_mean[i] = k->first ? NAN : before[i];
        next_var[i] = k->first ? NAN : before[C + i];
    }
    running_part(&k->g, channels, mean, var, running_mean, running_var, k->momentum, next_mean, next_var,
                 k->first);
    for (size_t i = 0; i < channels; i++) {
        const double p = (double)k->momentum, m = k->g.numbers;
        const double unbiased = m > 1 ? (double)var[i] * m / (m - 1) : (double)running_var[i];
        const double more_mean = (1 - p) * (double)running_mean[i] + p * (double)mean[i];
        const double more_var = (1 - p) * (double)running_var[i] + p * unbiased, n = (double)k->g.samples;
        const double wanted = (k->first ? 0 : (double)before[i]) + n * more_mean;
        const double wanted_var = (k->first ? 0 : (double)before[C + i]) + n * more_var;
        char text[200];
        snprintf(text, sizeof text,
                 "a group of %zu sample%s, %g number%s in each of %zu channel%s, momentum %g, %s",
                 k->g.samples, gs_s(k->g.samples), m, gs_s((size_t)m), channels, gs_s(channels), k->momentum,
                 k->first ? "the first" : "not the first");
        LAB_CHECK(fabs((double)next_mean[i] - wanted) <= 1e-5 * (1 + n),
                  "%s; mean %g, running_mean %g: next_mean %s %.7g, expected %.7g", text, mean[i],
                  running_mean[i], k->first ? "becomes" : "goes to", next_mean[i], wanted);
        LAB_CHECK(fabs((double)next_var[i] - wanted_var) <= 1e-5 * (1 + n * fabs(more_var)),
                  "%s; var %g, running_var %g: next_var %s %.7g, expected %.7g", text, var[i], running_var[i],
                  k->first ? "becomes" : "goes to", next_var[i], wanted_var);
    }
    return GS_OK;
}

static gs_status what_evaluation_gets(void) {
    static const running_case cases[] = {
        {{1, 1000}, true, 0.5f}, {{1, 1000}, false, 0.5f}, {{4, 1000}, true, 0.5f}, {{2, 2}, true, 0.5f},
        {{1, 1}, true, 0.5f},    {{0, 12}, false, 0.1f},   {{0, 12}, true, 0.1f}};
    const size_t always = sizeof cases / sizeof *cases;
    for (size_t i = 0; i < always; i++) GS_TRY(check_running(&cases[i], i));
    for (size_t i = 0; i < 20; i++) {
        running_case drawn = {.g.samples = 1 + lab_pick(GROUP_ROW, 4 * i, 5),
                              .first = lab_pick(GROUP_ROW, 4 * i + 1, 2),
                              .momentum = 0.1f * (float)(1 + lab_pick(GROUP_ROW, 4 * i + 2, 9))};
        drawn.g.numbers = (double)(drawn.g.samples * (1 + lab_pick(GROUP_ROW, 4 * i + 3, 3)));
        GS_TRY(check_running(&drawn, always + i));
    }
    return GS_OK;
}

/* ---- 14.5 ---- */

/* Each worker gets equally many ghost batches; the first workers get one more. */
static gs_status check_cuts(size_t total, int n, size_t together) {
    const size_t each = together > 1 ? together : 1, ghosts = (total + each - 1) / each;
    size_t first = 0;
    for (int i = 0; i < n; i++) {
        const size_t mine = ghosts / (size_t)n + ((size_t)i < ghosts % (size_t)n);
        const size_t count = mine * each < total - first ? mine * each : total - first;
        const gs_shard part = lab_cut(total, i, n, together);
        LAB_CHECK(
            part.count == count && (part.first == first || count == 0),
            "%zu samples, %zu together: worker %d of %d has %zu, from %zu on; expected %zu, from %zu on",
            total, together, i, n, part.count, part.first, count, first);
        LAB_CHECK(part.first <= total, "%zu samples, %zu together: worker %d of %d begins at %zu", total,
                  together, i, n, part.first);
        first += count;
    }
    return GS_OK;
}

static gs_status ghost_batches_stay_whole(void) {
    GS_TRY(check_cuts(4, 2, 2));
    GS_TRY(check_cuts(6, 2, 2));
    GS_TRY(check_cuts(5, 2, 2));
    GS_TRY(check_cuts(3, 2, 4));
    GS_TRY(check_cuts(7, 3, 1));
    GS_TRY(check_cuts(7, 3, 0));
    for (size_t i = 0; i < 60; i++)
        GS_TRY(check_cuts(1 + lab_pick(CUT_ROW, 3 * i, 100), 1 + (int)lab_pick(CUT_ROW, 3 * i + 1, 8),
                          lab_pick(CUT_ROW, 3 * i + 2, 12)));
    return GS_OK;
}

const char *const lab_may_call[] = {"gs_call_run", "gs_shard_of", "gs_fail", "gs_context", NULL};

const lab_task lab_tasks[] = {
    {"14.1", "mean and deviation of each colour, over all workers", 2, colours_of_all_workers,
     "counts and sums can be added, means and deviations cannot. Which colour does byte `plane` of an image "
     "have?"},
    {"14.2", "forward: statistics of all workers from those of each", 2, statistics_of_all_workers,
     "var = (mean of x^2) - mean^2: solve for the sum of x^2, which can be added. Two workers with one "
     "number each, 0 and 2: what is the variance of both together?"},
    {"14.3", "backward: the second sum over workers", 3, lab_check_backward,
     "which workers' x move the mean in this u? The two sums in dx include the numbers of these workers. "
     "dweight and dbias are summed over workers later"},
    {"14.4", "what running statistics become", 2, what_evaluation_gets,
     "4 samples weigh four times as much as one. var was divided by `numbers`, not by one less"},
    {"14.5", "a batch cut between ghost batches", 1, ghost_batches_stay_whole,
     "count the ghost batches, the small one too, and split them with gs_shard_of. The last one may end "
     "early"},
    {0},
};
