/* 16.4: executes a plan line by line, on a clock. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "lab.h"

enum { FEW = 12, UNITS = 40, ROOM = 8 * UNITS, TIMES_ROW = 40 };

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

typedef struct unit {
    bool whole;    /* it has a window */
    double there;  /* when its weights arrive */
    bool gradient; /* computed and not yet reduced */
} unit;

typedef struct execution {
    const plan *p;
    int units, next, whole, gathers; /* next: of the computations; whole: windows that are taken */
    double clock, line;              /* line: when the last gather ends */
    unit unit[UNITS];
} execution;

/* Computation i: forward of 0, 1, ..., then backward. */
static gs_status compute(execution *x, const plan_line *l, double takes) {
    unit *u = &x->unit[l->unit];
    const bool backward = x->next >= x->units;
    const int wanted = backward ? 2 * x->units - 1 - x->next : x->next;
    LAB_CHECK(x->next < 2 * x->units, "units = %d: %s: there is '%s %d' after the last computation", x->units,
              text_of(x->p), names[l->action], l->unit);
    LAB_CHECK(l->unit == wanted && (l->action == BACKWARD) == backward,
              "units = %d: %s: there is '%s %d' where '%s %d' must be the next computation", x->units,
              text_of(x->p), names[l->action], l->unit, backward ? "backward" : "forward", wanted);
    LAB_CHECK(u->whole,
              "units = %d: %s: '%s %d', but the weights of unit %d were not gathered, or were dropped",
              x->units, text_of(x->p), names[l->action], l->unit, l->unit);
    x->clock = fmax(x->clock, u->there) + takes;
    u->gradient = backward;
    x->next++;
    return GS_OK;
}

static gs_status window(execution *x, const plan_line *l, double gather) {
    unit *u = &x->unit[l->unit];
    const bool takes = l->action == GATHER;
    LAB_CHECK(u->whole != takes, "units = %d: %s: '%s %d', but unit %d has %s window", x->units,
              text_of(x->p), names[l->action], l->unit, l->unit, takes ? "already a" : "no");
    LAB_CHECK(takes || !u->gradient,
              "units = %d: %s: 'drop %d' before its gradients were reduced: they are lost", x->units,
              text_of(x->p), l->unit);
    u->whole = takes;
    x->whole += takes ? 1 : -1;
    LAB_CHECK(x->whole <= 2, "units = %d: %s: at 'gather %d' three units have a window; wanted two", x->units,
              text_of(x->p), l->unit);
    if (!takes) return GS_OK;
    x->line = u->there = fmax(x->clock, x->line) + gather;
    x->gathers++;
    return GS_OK;
}

static gs_status execute(execution *x, double gather, double takes) {
    int reduced = 0;
    for (size_t i = 0; i < x->p->count; i++) {
        const plan_line *l = &x->p->list[i];
        LAB_CHECK((unsigned)l->action < ACTIONS && l->unit >= 0 && l->unit < x->units,
                  "units = %d: %s: line %zu is about unit %d", x->units, text_of(x->p), i + 1, l->unit);
        if (l->action == FORWARD || l->action == BACKWARD) {
            GS_TRY(compute(x, l, takes));
        } else if (l->action == REDUCE) {
            LAB_CHECK(x->unit[l->unit].gradient, "units = %d: %s: 'reduce %d', but unit %d has no gradients",
                      x->units, text_of(x->p), l->unit, l->unit);
            x->unit[l->unit].gradient = false;
            reduced++;
        } else {
            GS_TRY(window(x, l, gather));
        }
    }
    LAB_CHECK(x->next == 2 * x->units && reduced == x->units && x->whole == 0,
              "units = %d: %s: at the end %d of %d computations ran, %d units were reduced, and %d windows "
              "are taken",
              x->units, text_of(x->p), x->next, 2 * x->units, reduced, x->whole);
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
