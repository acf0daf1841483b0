/* Lesson 18: a pair of layers on T ranks. Each rank has its part of the same whole layer. Numbers are small and whole,
 * so that all sums are exact. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct layer_case {
    int ranks;
    size_t n, in, out; /* of the whole layer */
    bool bias, wants_dx, second;
    size_t number;
} layer_case;

enum { MOST = 4096 };

/* -3 .. 3, never 0 */
static float whole_number(unsigned row, const layer_case *k, size_t i) {
    const size_t drawn = lab_pick(row, k->number * MOST + i, 6);
    return drawn < 3 ? (float)drawn - 3 : (float)drawn - 2;
}

static float x_of(const layer_case *k, size_t i, size_t in) {
    return whole_number(X_ROW, k, i * k->in + in);
}

static float w_of(const layer_case *k, size_t out, size_t in) {
    return whole_number(W_ROW, k, out * k->in + in);
}

static float b_of(const layer_case *k, size_t out) {
    return k->bias ? whole_number(B_ROW, k, out) : 0;
}

static float dy_of(const layer_case *k, size_t i, size_t out) {
    return whole_number(DY_ROW, k, i * k->out + out);
}

/* This rank's part of the layer: all inputs and some outputs, or all outputs and some inputs. */
typedef struct mine {
    lab_layer l;
    lab_range in, out;
    float *w, *b, *x, *y, *dy, *dx, *dw, *db;
} mine;

static float *room(size_t count) {
    float *x = malloc(count * sizeof *x + 1);
    if (!x) gs_bug("no memory");
    return x;
}

static mine make(const layer_case *k, int rank) {
    mine m = {.in = {0, k->in}, .out = {0, k->out}};
    if (k->second)
        m.in = lab_part_of(k->in, rank, k->ranks);
    else
        m.out = lab_part_of(k->out, rank, k->ranks);
    const size_t in = m.in.count, out = m.out.count;
    m.w = room(in * out), m.dw = room(in * out), m.b = room(out), m.db = room(out);
    m.x = room(k->n * in), m.dx = room(k->n * in), m.y = room(k->n * out), m.dy = room(k->n * out);
    for (size_t o = 0; o < out; o++) {
        m.b[o] = b_of(k, m.out.first + o);
        m.db[o] = 0.5f; /* from an earlier pass */
        for (size_t i = 0; i < in; i++) {
            m.w[o * in + i] = w_of(k, m.out.first + o, m.in.first + i);
            m.dw[o * in + i] = 0.25f;
        }
    }
    for (size_t a = 0; a < k->n; a++) {
        for (size_t i = 0; i < in; i++) m.x[a * in + i] = x_of(k, a, m.in.first + i);
        for (size_t i = 0; i < in; i++) m.dx[a * in + i] = 55;
        for (size_t o = 0; o < out; o++) m.dy[a * out + o] = dy_of(k, a, m.out.first + o);
        for (size_t o = 0; o < out; o++) m.y[a * out + o] = 55;
    }
    m.l = (lab_layer){k->n, in, out, m.w, k->bias ? m.b : NULL};
    return m;
}

static void drop(mine *m) {
    float *all[] = {m->w, m->b, m->x, m->y, m->dy, m->dx, m->dw, m->db};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static const char *describe(const layer_case *k, char text[200]) {
    snprintf(text, 200, "%s layer, %d rank%s, %zu token%s, %zu input%s, %zu output%s%s",
             k->second ? "second" : "first", k->ranks, gs_s(k->ranks), k->n, gs_s(k->n), k->in, gs_s(k->in),
             k->out, gs_s(k->out), k->bias ? "" : ", no b");
    return text;
}

/* Element i, j of the whole; `held` is "", or what the array held before. */
static gs_status check_number(const layer_case *k, const char *what, size_t i, size_t j, const char *held,
                              double wanted, float got) {
    char text[200];
    LAB_CHECK(fabs((double)got - wanted) < 1e-3, "%s: %s[%zu][%zu] of the whole%s expected %g, got %g",
              describe(k, text), what, i, j, held, wanted, (double)got);
    return GS_OK;
}

static gs_status check_calls(const layer_case *k, const char *way, const gs_comm *c, size_t floats) {
    char text[200];
    const lab_calls made = lab_calls_of(c);
    if (k->ranks == 1) return GS_OK; /* the first cases check only numbers */
    LAB_CHECK_HINT(made.bytes <= floats * sizeof(float) && made.calls <= (floats > 0),
                   "do not sum what all ranks have, nor send what only this rank needs.",
                   "%s: %s needs %s %zu bytes, got %zu call%s, %zu bytes", describe(k, text), way,
                   floats > 0 ? "one all-reduce of" : "no call and", floats * sizeof(float), made.calls,
                   gs_s(made.calls), made.bytes);
    return GS_OK;
}

/* ---- 18.2 ---- */

static gs_status forward_of(gs_comm *c, const layer_case *k, mine *m) {
    GS_TRY((k->second ? lab_second_forward : lab_first_forward)(c, &m->l, m->x, m->y));
    for (size_t a = 0; a < k->n; a++)
        for (size_t o = 0; o < m->out.count; o++) {
            double wanted = (double)b_of(k, m->out.first + o);
            for (size_t i = 0; i < k->in; i++)
                wanted += (double)x_of(k, a, i) * (double)w_of(k, m->out.first + o, i);
            GS_TRY(check_number(k, "y", a, m->out.first + o, "", wanted, m->y[a * m->out.count + o]));
        }
    return check_calls(k, "forward", c, k->second ? k->n * k->out : 0);
}

/* ---- 18.3 ---- */

static gs_status check_dx(const layer_case *k, const mine *m) {
    for (size_t a = 0; a < k->n; a++)
        for (size_t i = 0; i < m->in.count; i++) {
            double wanted = 0;
            for (size_t o = 0; o < k->out; o++)
                wanted += (double)dy_of(k, a, o) * (double)w_of(k, o, m->in.first + i);
            GS_TRY(check_number(k, "dx", a, m->in.first + i, "", wanted, m->dx[a * m->in.count + i]));
        }
    return GS_OK;
}

static gs_status check_gradients(const layer_case *k, const mine *m) {
    for (size_t o = 0; o < m->out.count; o++) {
        double db = 0.5;
        for (size_t a = 0; a < k->n; a++) db += (double)dy_of(k, a, m->out.first + o);
        if (k->bias) GS_TRY(check_number(k, "db", 0, m->out.first + o, ", which held 0.5,", db, m->db[o]));
        for (size_t i = 0; i < m->in.count; i++) {
            double dw = 0.25;
            for (size_t a = 0; a < k->n; a++)
                dw += (double)dy_of(k, a, m->out.first + o) * (double)x_of(k, a, m->in.first + i);
            GS_TRY(check_number(k, "dw", m->out.first + o, m->in.first + i, ", which held 0.25,", dw,
                                m->dw[o * m->in.count + i]));
        }
    }
    return GS_OK;
}

static gs_status backward_of(gs_comm *c, const layer_case *k, mine *m) {
    float *db = k->bias ? m->db : NULL, *dx = k->wants_dx ? m->dx : NULL;
    GS_TRY((k->second ? lab_second_backward : lab_first_backward)(c, &m->l, m->dy, m->x, dx, m->dw, db));
    GS_TRY(check_gradients(k, m));
    if (dx) GS_TRY(check_dx(k, m));
    return check_calls(k, dx ? "backward" : "backward, without dx,", c, dx && !k->second ? k->n * k->in : 0);
}

/* ---- cases ---- */

typedef struct layer_run {
    layer_case k;
    gs_status (*check)(gs_comm *, const layer_case *, mine *);
} layer_run;

static gs_status run_layer(gs_comm *c, void *context) {
    const layer_run *run = context;
    mine m = make(&run->k, c->rank);
    const gs_status status = run->check(c, &run->k, &m);
    drop(&m);
    return status;
}

static layer_case case_of(size_t i) {
    static const size_t always[][4] = {
        {1, 1, 1, 1}, {2, 1, 2, 2}, {2, 2, 3, 2}, {3, 2, 4, 5}}; /* ranks, n, in, out */
    enum { ALWAYS = sizeof always / sizeof *always };
    layer_case k = {.number = i, .second = i % 2 == 1, .bias = true, .wants_dx = true};
    if (i / 2 < ALWAYS) {
        const size_t *a = always[i / 2];
        k.ranks = (int)a[0], k.n = a[1], k.in = a[2], k.out = a[3];
        return k;
    }
    k.ranks = 1 + (int)lab_pick(RANKS_ROW, 100 + i, MOST_RANKS);
    k.n = 1 + lab_pick(SIZES_ROW, 200 + 5 * i, 6);
    k.in = (size_t)k.ranks + lab_pick(SIZES_ROW, 201 + 5 * i, 8);
    k.out = (size_t)k.ranks + lab_pick(SIZES_ROW, 202 + 5 * i, 8);
    k.bias = lab_pick(SIZES_ROW, 203 + 5 * i, 3) > 0;
    k.wants_dx = k.second || lab_pick(SIZES_ROW, 204 + 5 * i, 3) > 0;
    if (i == 8) k.wants_dx = false; /* for every seed */
    if (i == 10 || i == 11) k.bias = false;
    if (i == 12 || i == 13) k.n = 40, k.in = 60, k.out = 50; /* large */
    return k;
}

enum { CASES = 24 };

/* `sums`: a case with the layer that sums, the second one in forward and the first one in backward. */
static gs_status check_all(gs_status (*check)(gs_comm *, const layer_case *, mine *), size_t sums) {
    for (size_t i = 0; i < CASES; i++) {
        layer_run run = {case_of(i), check};
        GS_TRY(lab_run_counted(run.k.ranks, run_layer, &run));
    }
    layer_run lost = {case_of(sums), check};
    for (int works = 0; works < 3; works++) GS_TRY(lab_run_broken(lost.k.ranks, works, run_layer, &lost));
    return GS_OK;
}

gs_status lab_check_forward(void) {
    return check_all(forward_of, 3);
}

gs_status lab_check_backward(void) {
    return check_all(backward_of, 2);
}
