/* 16.4: executes a plan line by line: two ranks compute with it, on a clock. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "lab.h"

enum { FEW = 12, UNITS = 40, ROOM = 8 * UNITS, TIMES_ROW = 40, WEIGHTS_ROW };

static const char *const names[ACTIONS] = {"gather", "forward", "backward", "reduce", "drop"};

/* The first lines: "gather 0, gather 1, forward 0". */
static const char *text_of(const plan *p) {
    enum { SHOWN = 14 };
    static char text[SHOWN * 24 + 8];
    *text = '\0';
    for (size_t i = 0; i < p->count && i < p->room && i < SHOWN; i++)
        lab_append(text, sizeof text, "%s%s %d", i ? ", " : "",
                   (unsigned)p->list[i].action < ACTIONS ? names[p->list[i].action] : "nothing",
                   p->list[i].unit);
    if (p->count > SHOWN) lab_append(text, sizeof text, " ...");
    return *text ? text : "nothing";
}

/* Two ranks, each with its own sample. A unit multiplies its input: y[i] = w[i] x[i]; y is the next unit's input. Rank
 * r stores w[r] of each unit. All numbers are small integers, so that every sum is exact. */
enum { RANKS = 2, WINDOWS = 2 };
static const float rate = 0.25F;

typedef struct window {
    float w[RANKS], dw[RANKS];
} window;

typedef struct rank {
    float own[UNITS], sum[UNITS]; /* of w and of all ranks' dw */
    float x[UNITS + 1][RANKS], dx[UNITS + 1][RANKS];
    window window[WINDOWS];
} rank;

typedef struct execution {
    const plan *p;
    int units, holder[WINDOWS]; /* the unit that has a window; -1: none */
    size_t line;
    size_t dropped[UNITS], reduced[UNITS];                   /* the last line that did; 0: none */
    bool there[UNITS + 1], back[UNITS + 1], gradient[UNITS]; /* x, dx and dw have been computed */
    double arrives[UNITS], clock, network;                   /* network: when the last gather ends */
    int gathers;
    rank rank[RANKS];
} execution;

static float drawn_weight(int unit, int i) {
    return lab_pick(WEIGHTS_ROW, (size_t)unit * RANKS + (size_t)i, 2) ? 1 : -1;
}

static float drawn_input(int rank, int i) {
    return (float)(1 + rank * RANKS + i);
}

static void begin(execution *x) {
    for (int i = 0; i < WINDOWS; i++) x->holder[i] = -1;
    x->there[0] = x->back[x->units] = true;
    for (int r = 0; r < RANKS; r++) {
        for (int u = 0; u < x->units; u++) x->rank[r].own[u] = drawn_weight(u, r);
        for (int i = 0; i < RANKS; i++) {
            x->rank[r].x[0][i] = drawn_input(r, i);
            x->rank[r].dx[x->units][i] = 1;
        }
    }
}

static int window_of(const execution *x, int unit) {
    for (int i = 0; i < WINDOWS; i++)
        if (x->holder[i] == unit) return i;
    return -1;
}

/* "units = 3: gather 0, ...: line 4, 'forward 1'" */
static const char *where(const execution *x) {
    static char text[600];
    const plan_line *l = &x->p->list[x->line - 1];
    snprintf(text, sizeof text, "units = %d: %s: line %zu, '%s %d'", x->units, text_of(x->p), x->line,
             names[l->action], l->unit);
    return text;
}

/* ", which line 3 dropped" */
static const char *dropped(const execution *x, int unit) {
    static char text[60];
    snprintf(text, sizeof text, x->dropped[unit] ? ": line %zu dropped them" : ": they were never gathered",
             x->dropped[unit]);
    return text;
}

static gs_status gather(execution *x, int unit, double takes) {
    LAB_CHECK(window_of(x, unit) < 0, "%s: unit %d has already a window", where(x), unit);
    const int at = window_of(x, -1);
    LAB_CHECK(at >= 0, "%s: both windows are taken, by units %d and %d: three units have no room", where(x),
              x->holder[0], x->holder[1]);
    x->holder[at] = unit;
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < RANKS; i++) x->rank[r].window[at].w[i] = x->rank[i].own[unit];
    x->network = x->arrives[unit] = fmax(x->clock, x->network) + takes;
    x->gathers++;
    return GS_OK;
}

static gs_status compute(execution *x, int u, bool backward, double takes) {
    const int at = window_of(x, u);
    LAB_CHECK(x->there[u], "%s: there is no input yet: forward of unit %d computes it", where(x), u - 1);
    LAB_CHECK(!backward || (x->there[u + 1] && x->back[u + 1]),
              "%s: there is no gradient of the output yet: %s of unit %d computes it", where(x),
              x->there[u + 1] ? "backward" : "forward", x->there[u + 1] ? u + 1 : u);
    LAB_CHECK(at >= 0, "%s: rank 0 has w[0] of unit %d, its own part, and lacks w[1]%s", where(x), u,
              dropped(x, u));
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < RANKS; i++) {
            rank *k = &x->rank[r];
            if (backward) {
                k->window[at].dw[i] = k->dx[u + 1][i] * k->x[u][i];
                k->dx[u][i] = k->dx[u + 1][i] * k->window[at].w[i];
            } else {
                k->x[u + 1][i] = k->x[u][i] * k->window[at].w[i];
            }
        }
    *(backward ? &x->back[u] : &x->there[u + 1]) = true;
    x->gradient[u] = x->gradient[u] || backward;
    x->clock = fmax(x->clock, x->arrives[u]) + takes;
    return GS_OK;
}

static gs_status reduce(execution *x, int unit) {
    const int at = window_of(x, unit);
    LAB_CHECK(at >= 0 && x->gradient[unit], "%s: there are no gradients%s", where(x),
              at < 0 && x->gradient[unit] ? dropped(x, unit)
                                          : ": backward computes them, and a line reduces them once");
    for (int r = 0; r < RANKS; r++)
        for (int from = 0; from < RANKS; from++) x->rank[r].sum[unit] += x->rank[from].window[at].dw[r];
    x->gradient[unit] = false;
    x->reduced[unit] = x->line;
    return GS_OK;
}

static gs_status drop(execution *x, int unit) {
    const int at = window_of(x, unit);
    LAB_CHECK(at >= 0, "%s: unit %d has no window", where(x), unit);
    x->holder[at] = -1;
    x->dropped[unit] = x->line;
    for (int r = 0; r < RANKS; r++) x->rank[r].window[at] = (window){{NAN, NAN}, {NAN, NAN}};
    return GS_OK;
}

/* Each rank updates its own weights; one worker with both samples makes them too. */
static gs_status compare(const execution *x) {
    for (int u = 0; u < x->units; u++)
        for (int r = 0; r < RANKS; r++) {
            float all = 0;
            for (int k = 0; k < RANKS; k++) all += drawn_input(k, r);
            for (int v = 0; v < x->units; v++) all *= v == u ? 1 : drawn_weight(v, r);
            const float got = x->rank[r].own[u] - rate * x->rank[r].sum[u],
                        wanted = drawn_weight(u, r) - rate * all;
            LAB_CHECK(
                got == wanted,
                "units = %d: %s: executed on two ranks: after the update w[%d] of unit %d is %g, and %g "
                "with one worker: its gradients were %s",
                x->units, text_of(x->p), r, u, got, wanted,
                x->reduced[u]         ? "summed more than once"
                : !x->gradient[u]     ? "not computed"
                : window_of(x, u) < 0 ? "dropped before they were reduced"
                                      : "not reduced");
        }
    return GS_OK;
}

static gs_status execute(execution *x, double gather_takes, double takes) {
    begin(x);
    for (x->line = 1; x->line <= x->p->count; x->line++) {
        const plan_line *l = &x->p->list[x->line - 1];
        LAB_CHECK((unsigned)l->action < ACTIONS && l->unit >= 0 && l->unit < x->units,
                  "units = %d: %s: line %zu is about unit %d", x->units, text_of(x->p), x->line, l->unit);
        switch (l->action) {
        case GATHER:
            GS_TRY(gather(x, l->unit, gather_takes));
            break;
        case REDUCE:
            GS_TRY(reduce(x, l->unit));
            break;
        case DROP:
            GS_TRY(drop(x, l->unit));
            break;
        default:
            GS_TRY(compute(x, l->unit, l->action == BACKWARD, takes));
        }
    }
    GS_TRY(compare(x));
    for (int i = 0; i < WINDOWS; i++)
        LAB_CHECK(x->holder[i] < 0, "units = %d: %s: at the end unit %d still has a window", x->units,
                  text_of(x->p), x->holder[i]);
    return GS_OK;
}

static gs_status check_units(int units, double gather, double takes) {
    plan_line room[ROOM];
    plan p = {room, 0, ROOM};
    memset(room, 0, sizeof room);
    zero3_pass(&p, units);
    LAB_CHECK(p.count <= p.room, "units = %d: %zu lines are too many", units, p.count);
    execution x = {.p = &p, .units = units};
    GS_TRY(execute(&x, gather, takes));
    lab_measure("gathers", (size_t)x.gathers);
    /* With two windows the unit before the last need not be dropped after forward either: one gather fewer. */
    LAB_CHECK(x.gathers <= 2 * units - 1,
              "units = %d: %s: %d gathers; wanted at most %d: two for each unit, one for the last", units,
              text_of(&p), x.gathers, 2 * units - 1);
    const double wanted = gather + 2 * units * takes;
    LAB_CHECK_HINT(
        x.clock <= wanted + 1e-9, "which gather could have started one computation earlier?",
        "units = %d: %s: a gather takes %g, a computation %g: done after %g; with gathers ahead after %g",
        units, text_of(&p), gather, takes, x.clock, wanted);
    return GS_OK;
}

gs_status check_zero3_pass(void) {
    for (int units = 1; units <= UNITS; units += units < FEW ? 1 : UNITS - FEW) {
        const double takes = (double)(1 + lab_pick(TIMES_ROW, (size_t)units, 16)) / 4;
        GS_TRY(check_units(units, 1, 1));
        GS_TRY(check_units(units, takes / 2, takes));
    }
    return GS_OK;
}
