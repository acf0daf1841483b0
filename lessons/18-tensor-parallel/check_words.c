/* Lesson 18: compares the loss over a divided vocabulary with that over the whole one. */
#include "check.h"

#include <math.h>
#include <stdio.h>

enum { MOST_WORDS = 24, FEW_TOKENS = 8, MOST_TOKENS = 100 };

typedef struct words_case {
    int ranks;
    size_t n, words; /* of the whole vocabulary */
    float reach, shift;
    size_t number;
} words_case;

/* The output of each word: in the first cases 1, 2, 3, ... */
static float x_of(const words_case *k, size_t i, size_t word) {
    if (k->reach == 0) return (float)(word + i) + k->shift;
    return lab_number(OUTPUTS_ROW, (k->number * MOST_TOKENS + i) * MOST_WORDS + word) * k->reach + k->shift;
}

static int32_t label_of(const words_case *k, size_t i) {
    return (int32_t)lab_pick(LABELS_ROW, k->number * MOST_TOKENS + i, k->words);
}

/* log of the sum of exp over all words */
static double log_sum(const words_case *k, size_t i) {
    double largest = -INFINITY, sum = 0;
    for (size_t w = 0; w < k->words; w++) largest = fmax(largest, (double)x_of(k, i, w));
    for (size_t w = 0; w < k->words; w++) sum += exp((double)x_of(k, i, w) - largest);
    return largest + log(sum > 1 ? sum : 1); /* one term is exp(0) */
}

static const char *describe(const words_case *k, const lab_words *w, size_t i, char text[300]) {
    snprintf(text, 300, "%d rank%s, %zu words, token %zu of %zu, label %d; outputs", k->ranks, gs_s(k->ranks),
             k->words, i, k->n, w->label[i]);
    for (size_t v = 0; v < k->words && v < 6; v++) lab_append(text, 300, " %.4g", (double)x_of(k, i, v));
    if (k->words > 6) lab_append(text, 300, " ...");
    lab_append(text, 300, "; this rank has words %zu to %zu", w->first, w->first + w->words - 1);
    return text;
}

static gs_status check_token(const words_case *k, const lab_words *w, size_t i, const float *p, float loss,
                             const float *dx) {
    char text[300];
    const double all = log_sum(k, i), wanted = all - (double)x_of(k, i, (size_t)w->label[i]);
    const double share = 2e-6 * (1 + fabs((double)k->shift) + (double)k->reach);
    for (size_t v = 0; v < w->words; v++) {
        const double q = exp((double)x_of(k, i, w->first + v) - all);
        LAB_CHECK(fabs((double)p[v] - q) <= share, "%s: p of word %zu expected %.6g, got %.6g",
                  describe(k, w, i, text), w->first + v, q, (double)p[v]);
    }
    LAB_CHECK(fabs((double)loss - wanted) <= share * (1 + wanted), "%s: loss expected %.6g, got %.6g",
              describe(k, w, i, text), wanted, (double)loss);
    for (size_t v = 0; v < w->words; v++) {
        const double d = (double)p[v] - (w->first + v == (size_t)w->label[i] ? 1 : 0);
        LAB_CHECK_HINT(fabs((double)dx[v] - d) <= 1e-6,
                       "label is a word of the whole vocabulary; where does this rank's part begin?",
                       "%s: dx of word %zu expected %.6g, got %.6g", describe(k, w, i, text), w->first + v, d,
                       (double)dx[v]);
    }
    return GS_OK;
}

static gs_status run_words(gs_comm *c, void *context) {
    const words_case *k = context;
    const lab_range mine = lab_part_of(k->words, c->rank, k->ranks);
    float x[MOST_TOKENS * MOST_WORDS], p[MOST_TOKENS * MOST_WORDS], dx[MOST_TOKENS * MOST_WORDS];
    float loss[MOST_TOKENS], room[2 * MOST_TOKENS];
    int32_t label[MOST_TOKENS];
    for (size_t i = 0; i < k->n; i++) {
        label[i] = label_of(k, i);
        loss[i] = room[2 * i] = room[2 * i + 1] = 55;
        for (size_t v = 0; v < mine.count; v++) {
            const size_t at = i * mine.count + v;
            x[at] = x_of(k, i, mine.first + v);
            p[at] = dx[at] = 55;
        }
    }
    const lab_words w = {k->n, mine.count, mine.first, x, label};
    GS_TRY(lab_words_loss(c, &w, p, loss, room));
    const lab_calls made = lab_calls_of(c);
    lab_measure("bytes summed", made.bytes);
    lab_words_dx(&w, p, dx);
    for (size_t i = 0; i < k->n; i++)
        GS_TRY(check_token(k, &w, i, p + i * mine.count, loss[i], dx + i * mine.count));
    LAB_CHECK_HINT(made.bytes <= 12 * k->n, "a token needs three numbers, for any number of words.",
                   "%zu tokens, %zu words: 3 floats per token are enough, %zu bytes, got %zu", k->n, k->words,
                   12 * k->n, made.bytes);
    return GS_OK;
}

gs_status lab_check_words(void) {
    static const words_case always[] = {
        {1, 1, 2, 0, 0, 0},    {2, 1, 2, 0, 0, 1},    {2, 2, 4, 0, 0, 2},
        {3, 2, 7, 0, 0, 3},    {2, 2, 6, 4, 200, 4},  {2, 2, 6, 4, -200, 5},
        {4, 3, 9, 300, 0, 6},  {2, 2, 6, 4, 1000, 7}, /* exp is infinite or 0, in double too */
        {2, 2, 6, 4, -1000, 8}};
    static const float reaches[] = {1, 5, 100}, shifts[] = {0, 0, 500, -300};
    enum { ALWAYS = sizeof always / sizeof *always, CASES = 24 };
    for (size_t i = 0; i < CASES; i++) {
        words_case k = {.number = i};
        k.ranks = 1 + (int)lab_pick(RANKS_ROW, 300 + i, MOST_RANKS);
        k.n = 1 + lab_pick(SIZES_ROW, 600 + 4 * i, FEW_TOKENS);
        k.words = (size_t)k.ranks + lab_pick(SIZES_ROW, 601 + 4 * i, MOST_WORDS - MOST_RANKS);
        k.reach = reaches[lab_pick(SIZES_ROW, 602 + 4 * i, 3)];
        k.shift = shifts[lab_pick(SIZES_ROW, 603 + 4 * i, 4)];
        if (i < ALWAYS) k = always[i];
        if (i + 1 == CASES) k.n = MOST_TOKENS;
        GS_TRY(lab_run_counted(k.ranks, run_words, &k));
    }
    words_case two = always[1];
    for (int works = 0; works < 4; works++) GS_TRY(lab_run_broken(two.ranks, works, run_words, &two));
    return GS_OK;
}
