/* Compares 17.4 with a recursive clock, 17.5 with the library's own lists, and 17.6 with all cuts. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include "lab.h"

enum { SHAPES_ROW = 10, TIMES_ROW, ORDER_ROW, BATCH_ROW, LIMITS_ROW, LAYERS_ROW, SECONDS_ROW };

const char *check_text(const passes *l) {
    enum { SHOWN = 16, TEXTS = 4 };
    static _Thread_local char texts[TEXTS][SHOWN * 14 + 8];
    static _Thread_local int next;
    char *text = texts[next++ % TEXTS];
    *text = '\0';
    for (size_t i = 0; i < l->count && i < l->room && i < SHOWN; i++)
        lab_append(text, sizeof *texts, "%s%c%d", i ? " " : "", l->list[i].backward ? 'B' : 'F',
                   l->list[i].micro_batch);
    if (l->count > SHOWN) lab_append(text, sizeof *texts, " ...");
    return *text ? text : "nothing";
}

/* ---- a clock ---- */

typedef enum state { UNKNOWN, ASKED, KNOWN } state;

typedef struct run {
    int p, m;
    const passes *lists;
    const double *forward, *backward;
    double *end;
    state state[CHECK_STAGES * CHECK_ROOM];
    int at[CHECK_STAGES * CHECK_ROOM]; /* the index of a pass in its list; -1: it is in none */
} run;

/* When a pass ends; infinite: never. */
static double ends(run *r, int s, bool backward, int k) {
    const size_t index = pass_index(r->m, s, backward, k);
    if (r->at[index] < 0 || r->state[index] == ASKED)
        return INFINITY; /* it waits for a pass that waits for it */
    if (r->state[index] == KNOWN) return r->end[index];
    r->state[index] = ASKED;
    double begin = 0;
    if (r->at[index] > 0) {
        const pass *before = &r->lists[s].list[r->at[index] - 1];
        begin = ends(r, s, before->backward, before->micro_batch);
    }
    if (backward)
        begin = fmax(begin, s == r->p - 1 ? ends(r, s, false, k) : ends(r, s + 1, true, k));
    else if (s > 0)
        begin = fmax(begin, ends(r, s - 1, false, k));
    r->state[index] = KNOWN;
    r->end[index] = begin + (backward ? r->backward[s] : r->forward[s]);
    return r->end[index];
}

double check_time(int p, int m, const passes *lists, const double *forward, const double *backward,
                  double *end) {
    run r = {.p = p, .m = m, .lists = lists, .forward = forward, .backward = backward, .end = end};
    double last = 0;
    for (int i = 0; i < 2 * p * m; i++) r.at[i] = -1, end[i] = -1;
    for (int s = 0; s < p; s++)
        for (size_t i = 0; i < lists[s].count; i++)
            r.at[pass_index(m, s, lists[s].list[i].backward, lists[s].list[i].micro_batch)] = (int)i;
    for (int s = 0; s < p; s++)
        for (size_t i = 0; i < lists[s].count; i++)
            last = fmax(last, ends(&r, s, lists[s].list[i].backward, lists[s].list[i].micro_batch));
    for (int i = 0; i < 2 * p * m; i++)
        if (isinf(end[i])) end[i] = -1;
    return isinf(last) ? -1 : last;
}

/* ---- 17.4 ---- */

typedef struct drawn {
    int p, m;
    pass room[CHECK_STAGES][CHECK_ROOM];
    passes lists[CHECK_STAGES];
    double forward[CHECK_STAGES], backward[CHECK_STAGES];
} drawn;

static const char *lists_text(const drawn *d) {
    static char text[600];
    *text = '\0';
    for (int s = 0; s < d->p && s < 3; s++)
        lab_append(text, sizeof text, "%sstage %d (%g, %g): %s", s ? "; " : "", s, d->forward[s],
                   d->backward[s], check_text(&d->lists[s]));
    return text;
}

static bool is_near(double a, double b) {
    return fabs(a - b) <= 1e-9 * fmax(1, fabs(b));
}

static gs_status check_drawn(const drawn *d) {
    double got[CHECK_STAGES * CHECK_ROOM], wanted[CHECK_STAGES * CHECK_ROOM];
    const int p = d->p, m = d->m;
    for (int i = 0; i < 2 * p * m; i++) got[i] = -7;
    const double last = pipeline_time(p, m, d->lists, d->forward, d->backward, got),
                 expected = check_time(p, m, d->lists, d->forward, d->backward, wanted);
    for (int s = 0; s < p; s++)
        for (int backward = 0; backward < 2; backward++)
            for (int k = 0; k < m; k++) {
                const size_t i = pass_index(m, s, backward, k);
                LAB_CHECK(
                    is_near(got[i], wanted[i]),
                    "%d stage%s, with (forward, backward) and passes: %s: %c%d of stage %d: expected end "
                    "%g, got %g",
                    p, gs_s((unsigned)p), lists_text(d), backward ? 'B' : 'F', k, s, wanted[i], got[i]);
            }
    LAB_CHECK(is_near(last, expected),
              "%d stage%s, with (forward, backward) and passes: %s: expected %g, got %g", p,
              gs_s((unsigned)p), lists_text(d), expected, last);
    return GS_OK;
}

/* Draws an order with forward before backward, or, with `any`, without this rule. Two such stages may deadlock. */
static void draw_list(drawn *d, int s, size_t row, bool any) {
    passes *l = &d->lists[s];
    *l = (passes){d->room[s], 0, CHECK_ROOM};
    for (int k = 0; k < d->m; k++) then_forward(l, k);
    for (int k = 0; k < d->m; k++) then_backward(l, k);
    for (size_t i = 0; i + 1 < l->count; i++) { /* swap a few neighbours */
        const size_t at = lab_pick(ORDER_ROW, 100 * row + i, l->count - 1);
        const pass a = l->list[at], b = l->list[at + 1];
        if (!any && (a.backward == b.backward || (!a.backward && a.micro_batch == b.micro_batch))) continue;
        l->list[at] = b;
        l->list[at + 1] = a;
    }
}

static void draw(drawn *d, size_t i, int p, int m, bool any) {
    *d = (drawn){.p = p, .m = m};
    for (int s = 0; s < p; s++) {
        const size_t row = 10 * i + (size_t)s;
        d->forward[s] = (double)(1 + lab_pick(TIMES_ROW, row, 24)) / 10; /* tenths always round */
        d->backward[s] = (double)(1 + lab_pick(TIMES_ROW, 100000 + row, 40)) / 10;
        draw_list(d, s, row, any);
    }
}

/* Lets the stages before `cut` only go forward, so that a stage in the middle is the last or waits forever. */
static void forward_only(drawn *d, int cut) {
    for (int s = 0; s < cut; s++) {
        passes *l = &d->lists[s];
        size_t kept = 0;
        for (size_t i = 0; i < l->count; i++)
            if (!l->list[i].backward) l->list[kept++] = l->list[i];
        l->count = kept;
    }
}

gs_status check_pipeline_time(void) {
    drawn d;
    for (size_t i = 0; i < 12; i++) {
        draw(&d, i, 1 + (int)(i / 4), 1 + (int)(i % 4), false);
        GS_TRY(check_drawn(&d));
    }
    for (size_t i = 12; i < 160; i++) {
        draw(&d, i, 1 + (int)lab_pick(SHAPES_ROW, i, CHECK_STAGES),
             1 + (int)lab_pick(SHAPES_ROW, 1000 + i, CHECK_MICRO_BATCHES), i % 4 == 3);
        if (i % 5 == 1) forward_only(&d, (int)lab_pick(SHAPES_ROW, 2000 + i, (size_t)d.p));
        /* a list that ends too soon */
        if (i % 5 == 4) d.lists[lab_pick(SHAPES_ROW, 2000 + i, (size_t)d.p)].count--;
        GS_TRY(check_drawn(&d));
    }
    return GS_OK;
}

/* ---- 17.5 ---- */

static gs_status samples_alive(bool is_1f1b, int p, int m, int batch, int *samples) {
    const gs_pipeline shape = {p, m, 1, GS_TIED_NONE};
    gs_instructions list;
    const gs_status status = gs_instructions_create(is_1f1b ? &gs_1f1b : &gs_gpipe, &shape, 0, &list);
    *samples = status == GS_OK ? gs_instructions_alive(&list, 0) * (batch / m) : 0;
    gs_instructions_free(&list);
    return status;
}

static double bubble_of(int p, int m) {
    return gs_pipeline_bubble(&(gs_pipeline){p, m, 1, GS_TIED_NONE});
}

static gs_status check_micro_batches_of(bool is_1f1b, int p, int batch, double bubble, int samples) {
    int expected = 0;
    for (int m = 1; m <= batch && !expected; m++) {
        int alive;
        if (batch % m != 0) continue;
        GS_TRY(samples_alive(is_1f1b, p, m, batch, &alive));
        if (bubble_of(p, m) <= bubble && alive <= samples) expected = m;
    }
    const int got = fewest_micro_batches(is_1f1b, p, batch, bubble, samples);
    LAB_CHECK(
        got == expected,
        "%s, %d stage%s, a batch of %d; a bubble of at most %.3f %%, at most %d sample%s alive in stage "
        "0: expected m = %d, got %d",
        is_1f1b ? "1F1B" : "GPipe", p, gs_s((unsigned)p), batch, 100 * bubble, samples,
        gs_s((unsigned)samples), expected, got);
    return GS_OK;
}

gs_status check_micro_batches(void) {
    static const int batches[] = {1, 7, 12, 24, 32, 48, 60, 64, 96, 128, 240, 256};
    GS_TRY(check_micro_batches_of(true, 2, 4, 0.6, 4));
    GS_TRY(check_micro_batches_of(true, 2, 4, 0.4, 4));
    GS_TRY(check_micro_batches_of(false, 2, 4, 0.4, 4));
    GS_TRY(check_micro_batches_of(false, 2, 4, 0.4, 3));
    GS_TRY(check_micro_batches_of(true, 2, 4, 0.4, 3));
    GS_TRY(check_micro_batches_of(true, 2, 4, 0.1, 4));
    for (size_t i = 0; i < 120; i++) {
        const bool is_1f1b = i % 3 != 0;
        const int p = 1 + (int)lab_pick(LIMITS_ROW, i, 12),
                  batch = batches[lab_pick(BATCH_ROW, i, sizeof batches / sizeof *batches)];
        /* Just enough, or just too little, for some m; never on the edge, where rounding would decide. */
        int m = 1 + (int)lab_pick(LIMITS_ROW, 1000 + i, (size_t)batch), samples;
        const double edge = lab_pick(LIMITS_ROW, 2000 + i, 2) ? 1 + 1e-6 : 1 - 1e-6;
        const double bubble = bubble_of(p, m) * edge;
        m = 1 + (int)lab_pick(LIMITS_ROW, 3000 + i, (size_t)batch);
        while (batch % m != 0) m--;
        GS_TRY(samples_alive(is_1f1b, p, m, batch, &samples));
        samples -= (int)lab_pick(LIMITS_ROW, 4000 + i, 2);
        GS_TRY(check_micro_batches_of(is_1f1b, p, batch, bubble, samples));
    }
    return GS_OK;
}

/* ---- 17.6 ---- */

/* The slowest stage of the best cut of the layers from `from` on into p runs. Tries all cuts. */
static double best_cut(int layers, const double *seconds, int from, int p) {
    double sum = 0, best = INFINITY;
    if (p == 1) {
        for (int i = from; i < layers; i++) sum += seconds[i];
        return sum;
    }
    for (int end = from + 1; end <= layers - p + 1; end++) {
        sum += seconds[end - 1];
        if (sum >= best) break;
        best = fmin(best, fmax(sum, best_cut(layers, seconds, end, p - 1)));
    }
    return best;
}

static gs_status check_cut_of(int layers, const double *seconds, int p) {
    int first[MOST_LAYERS + 1];
    float rounded[MOST_LAYERS];
    char text[400];
    double slowest = 0;
    for (int i = 0; i < layers; i++) rounded[i] = (float)seconds[i];
    snprintf(text, sizeof text, "%d layers that take %s, %d stages", layers,
             lab_floats(rounded, (size_t)layers), p);
    for (int s = 0; s <= p; s++) first[s] = -1;
    cut_layers(layers, seconds, p, first);
    LAB_CHECK(first[0] == 0 && first[p] == layers,
              "%s: first[0] is %d and first[%d] is %d; expected 0 and %d", text, first[0], p, first[p],
              layers);
    for (int s = 0; s < p; s++) {
        LAB_CHECK(first[s + 1] > first[s] && first[s + 1] <= layers,
                  "%s: stage %d has the layers from %d to before %d; expected at least one", text, s,
                  first[s], first[s + 1]);
        double sum = 0;
        for (int i = first[s]; i < first[s + 1]; i++) sum += seconds[i];
        slowest = fmax(slowest, sum);
    }
    const double wanted = best_cut(layers, seconds, 0, p);
    LAB_CHECK_HINT(
        slowest <= wanted * (1 + 1e-12),
        slowest < wanted * (1 + 1e-6) ? "these two times are the same float: add and compare in double." : "",
        "%s: the slowest stage takes %.12g, stage 1 begins at layer %d; a better cut makes it %.12g", text,
        slowest, first[1], wanted);
    return GS_OK;
}

gs_status check_cut(void) {
    double seconds[MOST_LAYERS] = {1, 1, 2};
    GS_TRY(check_cut_of(3, seconds, 2));
    for (size_t i = 0; i < 150; i++) {
        const int most = i < 100 ? 9 : i < 140 ? 14 : MOST_LAYERS;
        const int layers = i < 8 ? 1 + (int)i / 2 : 1 + (int)lab_pick(LAYERS_ROW, i, (size_t)most);
        const int stages = most == MOST_LAYERS && layers > 4 ? 4 : layers;
        const int p = 1 + (int)lab_pick(LAYERS_ROW, 1000 + i, (size_t)stages);
        for (int l = 0; l < layers; l++)
            seconds[l] = (double)(1 + lab_pick(SECONDS_ROW, 100 * i + (size_t)l, i % 2 ? 8 : 100));
        for (int l = 0; l < layers && i >= 40; l++) seconds[l] /= 8; /* whole numbers first */
        GS_TRY(check_cut_of(layers, seconds, p));
    }
    /* Two cuts whose difference a float loses. */
    static const double near[2][3] = {{2e-8, 1, 1e-8}, {1e-8, 1, 2e-8}};
    for (int i = 0; i < 2; i++) GS_TRY(check_cut_of(3, near[i], 2));
    return GS_OK;
}
