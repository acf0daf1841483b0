/* Lesson 19: the list of its tasks, and the checks of labels, attention and scores; check_sums.c has the others. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- 19.1 ---- */

enum { MOST_TEXT = 40 };

typedef struct window {
    int32_t text[MOST_TEXT], end;
    size_t count, first, n;
} window;

static const char *tokens_of(const window *t, char text[300]) {
    *text = '\0';
    for (size_t i = 0; i < t->count; i++) lab_append(text, 300, "%s%d", i > 0 ? " " : "", t->text[i]);
    return text;
}

static gs_status check_window(const window *t) {
    char text[300];
    int32_t label[MOST_TEXT];
    size_t wanted_there = 0;
    for (size_t k = 0; k < t->n; k++) label[k] = 77;
    const size_t there = lab_labels(t->text, t->count, t->first, t->n, t->end, label);
    for (size_t k = 0; k < t->n; k++) {
        const bool last = t->first + k == t->count - 1 || t->text[t->first + k] == t->end;
        const int32_t wanted = last ? LAB_NO_LABEL : t->text[t->first + k + 1];
        wanted_there += !last;
        LAB_CHECK(label[k] == wanted,
                  "text %s, end %d; window of %zu from token %zu on: label[%zu] expected %d%s, got %d",
                  tokens_of(t, text), t->end, t->n, t->first, k, wanted, last ? " (LAB_NO_LABEL)" : "",
                  label[k]);
    }
    LAB_CHECK(there == wanted_there,
              "text %s, end %d; window of %zu from token %zu on: expected %zu that count, got %zu",
              tokens_of(t, text), t->end, t->n, t->first, wanted_there, there);
    return GS_OK;
}

static gs_status check_labels(void) {
    static const window always[] = {{{4}, 0, 1, 0, 1},
                                    {{4, 7}, 0, 2, 0, 2},
                                    {{4, 7, 5}, 0, 3, 0, 2},
                                    {{4, 0, 5, 6}, 0, 4, 0, 3},
                                    {{0, 1, 2, 9, 3, 9}, 9, 6, 2, 4},
                                    {{3, 3, 3, 3}, 3, 4, 1, 2}};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) GS_TRY(check_window(&always[i]));
    for (size_t i = 0; i < 60; i++) {
        window t = {.end = (int32_t)lab_pick(WINDOW_ROW, 4 * i, 6),
                    .count = 2 + lab_pick(WINDOW_ROW, 4 * i + 1, MOST_TEXT - 2)};
        for (size_t k = 0; k < t.count; k++) t.text[k] = (int32_t)lab_pick(TEXT_ROW, MOST_TEXT * i + k, 6);
        t.first = lab_pick(WINDOW_ROW, 4 * i + 2, t.count);
        t.n = 1 + lab_pick(WINDOW_ROW, 4 * i + 3, t.count - t.first);
        if (i % 3 == 0) t.n = t.count - t.first; /* up to the end of the text */
        GS_TRY(check_window(&t));
    }
    return GS_OK;
}

/* ---- 19.2 ---- */

enum { MOST_LENGTH = 40, MOST_D = 16 };

/* One query and all keys of a text; `seen` marks the tiles so far. */
typedef struct attended {
    size_t d, length, token, tile;
    double reach; /* of the scores, about */
    double shift; /* all scores are higher by this */
    bool backwards;
    size_t turn; /* the tile that comes first */
    float q[MOST_D], k[MOST_LENGTH * MOST_D], v[MOST_LENGTH * MOST_D];
    bool seen[MOST_LENGTH];
} attended;

static double score_of(const attended *a, size_t j) {
    double s = 0;
    for (size_t c = 0; c < a->d; c++) s += (double)a->q[c] * (double)a->k[j * a->d + c];
    return s / sqrt((double)a->d);
}

/* The last number of q is 1, and `shift` times sqrt(d) is added to the last number of each key. */
static void draw(attended *a, size_t i) {
    const double root = sqrt((double)a->d);
    for (size_t c = 0; c < a->d; c++) a->q[c] = c + 1 == a->d ? 1 : lab_number(QUERY_ROW, MOST_D * i + c);
    for (size_t j = 0; j < a->length; j++)
        for (size_t c = 0; c < a->d; c++) {
            const size_t at = j * a->d + c, number = i * MOST_LENGTH * MOST_D + at;
            a->k[at] = lab_number(KEYS_ROW, number) * (float)a->reach;
            if (c + 1 == a->d) a->k[at] += (float)(a->shift * root);
            a->v[at] = lab_number(VALUES_ROW, number);
        }
}

static gs_status describe(const attended *a, size_t first, size_t count, const char *what, double wanted,
                          double got) {
    char scores[200] = "";
    size_t seen = 0;
    for (size_t j = 0; j < a->length; j++) {
        if (!a->seen[j] || j > a->token || ++seen > 6) continue;
        lab_append(scores, sizeof scores, " %.4g", score_of(a, j));
    }
    return gs_fail(
        GS_E_SHAPE,
        "d %zu, token %zu of %zu; after the tile of keys %zu to %zu it has seen %zu, with scores%s%s: "
        "%s expected %.6g, got %.6g",
        a->d, a->token, a->length, first, first + count - 1, seen, seen ? scores : " -",
        seen > 6 ? " ..." : "", what, wanted, got);
}

/* The sums over the keys so far, by definition. */
typedef struct defined {
    double largest, sum, y[MOST_D];
} defined;

static defined define(const attended *a) {
    defined r = {-INFINITY, 0, {0}};
    for (size_t j = 0; j <= a->token; j++)
        if (a->seen[j]) r.largest = fmax(r.largest, score_of(a, j));
    for (size_t j = 0; j <= a->token; j++) {
        if (!a->seen[j]) continue;
        const double p = exp(score_of(a, j) - r.largest);
        r.sum += p;
        for (size_t c = 0; c < a->d; c++) r.y[c] += p * (double)a->v[j * a->d + c];
    }
    return r;
}

static bool differs(double got, double wanted, double tolerance) {
    return isinf(wanted) ? got != wanted : !(fabs(got - wanted) <= tolerance);
}

static gs_status check_running(const attended *a, size_t first, size_t count, const lab_running *r) {
    const defined wanted = define(a);
    /* A score rounds to about 1e-7 of its size, and exp turns that into a share of the sum. */
    const double share = 2e-6 * (1 + fabs(a->shift) + a->reach), size = share * (1 + wanted.sum);
    if (differs((double)r->largest, wanted.largest, share))
        return describe(a, first, count, "largest", wanted.largest, (double)r->largest);
    if (differs((double)r->sum, wanted.sum, size))
        return describe(a, first, count, "sum", wanted.sum, (double)r->sum);
    for (size_t c = 0; c < a->d; c++)
        if (differs((double)r->y[c], wanted.y[c], size))
            return describe(a, first, count, c == 0 ? "y[0]" : "a later y", wanted.y[c], (double)r->y[c]);
    return GS_OK;
}

static gs_status check_end(const attended *a, lab_running *r) {
    const defined wanted = define(a);
    const double share = 2e-6 * (1 + fabs(a->shift) + a->reach), lse = wanted.largest + log(wanted.sum);
    const double got = (double)lab_attend_end(r, a->d);
    if (differs(got, lse, share)) return describe(a, 0, a->length, "after the end, log sum exp", lse, got);
    for (size_t c = 0; c < a->d; c++)
        if (differs((double)r->y[c], wanted.y[c] / wanted.sum, share))
            return describe(a, 0, a->length, c == 0 ? "after the end, y[0]" : "after the end, a later y",
                            wanted.y[c] / wanted.sum, (double)r->y[c]);
    return GS_OK;
}

static gs_status check_attended(attended *a, size_t i) {
    float y[MOST_D] = {0};
    lab_running r = {-INFINITY, 0, y};
    const size_t tiles = (a->length + a->tile - 1) / a->tile;
    draw(a, i);
    memset(a->seen, 0, sizeof a->seen);
    for (size_t t = 0; t < tiles; t++) {
        const size_t next = (t + a->turn) % tiles, first = (a->backwards ? tiles - 1 - next : next) * a->tile;
        const size_t count = a->length - first < a->tile ? a->length - first : a->tile;
        lab_attend(&r, a->d, a->q, a->token, a->k + first * a->d, a->v + first * a->d, first, count);
        for (size_t j = first; j < first + count; j++) a->seen[j] = true;
        GS_TRY(check_running(a, first, count, &r));
    }
    return check_end(a, &r);
}

static gs_status check_attention(void) {
    static attended a;                /* it is large */
    static const size_t sizes[][4] = {/* d, length, token, tile */
                                      {1, 1, 0, 1}, {2, 2, 1, 2}, {4, 3, 1, 3},
                                      {4, 4, 3, 2}, {8, 6, 2, 2}, {3, 9, 8, 4}};
    static const double reaches[] = {1, 4, 0, 400}, shifts[] = {0, 200, -200, 1000};
    const size_t always = sizeof sizes / sizeof *sizes;
    for (size_t i = 0; i < 60; i++) {
        const size_t length = 1 + lab_pick(SIZES_ROW, 4 * i, MOST_LENGTH);
        a = (attended){.d = 1 + lab_pick(SIZES_ROW, 4 * i + 1, MOST_D),
                       .length = length,
                       .token = lab_pick(SIZES_ROW, 4 * i + 2, length),
                       .tile = 1 + lab_pick(SIZES_ROW, 4 * i + 3, 12)};
        if (i < always)
            a.d = sizes[i][0], a.length = sizes[i][1], a.token = sizes[i][2], a.tile = sizes[i][3];
        a.reach = i < always ? 1 : reaches[lab_pick(TILES_ROW, 3 * i, 4)];
        a.shift = i < always ? 0 : shifts[lab_pick(TILES_ROW, 3 * i + 1, 4)];
        a.backwards = i >= always && lab_pick(TILES_ROW, 3 * i + 2, 2) == 1;
        a.turn = i < always ? 0 : lab_pick(TURNS_ROW, i, MOST_LENGTH);
        if (i == always) a.shift = 200; /* for every seed */
        if (i == always + 1) a.shift = -200;
        if (i == always + 2) a.length = 20, a.tile = 4, a.token = a.turn = 0, a.backwards = true;
        if (i == always + 3) a.length = 20, a.token = 19, a.reach = 400;           /* jumps up above 88 */
        if (i == always + 4) a.length = MOST_LENGTH, a.token = 39, a.reach = 4000; /* in double too */
        if (i == always + 5) a.length = a.tile = MOST_LENGTH, a.token = 38;
        GS_TRY(check_attended(&a, i));
    }
    return GS_OK;
}

/* ---- 19.5 ---- */

enum { MOST_WORKERS = 5 };

static gs_status check_score(size_t workers, const lab_score *score) {
    double loss = 0, tokens = 0, bytes = 0;
    char text[200] = "";
    for (size_t r = 0; r < workers; r++) {
        loss += score[r].loss;
        tokens += (double)score[r].tokens;
        bytes += (double)score[r].bytes;
        lab_append(text, sizeof text, "%s%g of %zu tokens (%zu bytes)", r > 0 ? ", " : "", score[r].loss,
                   score[r].tokens, score[r].bytes);
    }
    const double perplexity = exp(loss / tokens), bits = loss / log(2) / bytes;
    const double got = lab_perplexity(workers, score), got_bits = lab_bits_per_byte(workers, score);
    LAB_CHECK(fabs(got - perplexity) <= 1e-6 * perplexity, "losses %s: perplexity expected %.7g, got %.7g",
              text, perplexity, got);
    LAB_CHECK_HINT(fabs(got_bits - bits) <= 1e-6 * bits,
                   "a token may stand for several bytes; a nat is more than a bit.",
                   "losses %s: bits per byte expected %.7g, got %.7g", text, bits, got_bits);
    return GS_OK;
}

static gs_status check_scores(void) {
    static const lab_score always[][2] = {
        {{3, 2, 2}}, {{3, 2, 7}}, {{2, 2, 2}, {6, 2, 2}}, {{2, 2, 5}, {9, 3, 5}}, {{0, 0, 0}, {4, 2, 3}}};
    static const size_t workers[] = {1, 1, 2, 2, 2};
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++) GS_TRY(check_score(workers[i], always[i]));
    for (size_t i = 0; i < 20; i++) {
        lab_score score[MOST_WORKERS];
        const size_t count = 1 + lab_pick(SCORES_ROW, 100 * i, MOST_WORKERS);
        for (size_t r = 0; r < count; r++) {
            const size_t tokens = lab_pick(SCORES_ROW, 100 * i + 3 * r + 1, 1000) + (r == i % count);
            score[r] = (lab_score){(double)tokens *
                                       (1 + (double)lab_pick(SCORES_ROW, 100 * i + 3 * r + 2, 400) / 100),
                                   tokens, tokens * (1 + lab_pick(SCORES_ROW, 100 * i + 3 * r + 3, 5))};
        }
        GS_TRY(check_score(count, score));
    }
    return GS_OK;
}

const char *const lab_may_call[] = {"gs_call_run", "gs_fail", "gs_context", NULL};

const lab_task lab_tasks[] = {
    {"19.1", "labels: the next token, where there is one", 1, check_labels,
     "the last label of a window is a token of the next one; the last token of a document has none."},
    {"19.2", "attention of one head, tile by tile", 3, check_attention,
     "when a larger score comes, the old sums shrink by exp(old largest - new largest)."},
    {"19.3", "the mean gradient over all tokens of all workers", 2, lab_check_mean,
     "how much does one token weigh, in a part of many tokens and in a part of few?"},
    {"19.4", "clipping by the norm of the whole gradient", 3, lab_check_clip,
     "3 on one rank and 4 on another are one gradient of norm 5; copies of a piece are one piece."},
    {"19.5", "perplexity and bits per byte, of all workers", 1, check_scores,
     "exp comes last, after one division."},
    {0},
};
