/* What would save memory: each change is put into a copy of the settings, and the plan is made again. Then what theory
 * says. */
#include <stdio.h>

#include "train/memory/memory_levers.h"

static bool has_room(const gs_memory_options *list) {
    return list->count < GS_MEMORY_OPTIONS;
}

static void try_lever(const gs_memory_plan *plan, const gs_memory_lever *l, gs_memory_options *list) {
    const int degrees = l->degrees(plan);
    const double most = gs_memory_most(plan, NULL);
    double before = 0;
    for (int i = 0; has_room(list); i++) {
        const int degree = l->listed ? l->listed(plan, i) : i;
        gs_memory_option o = {.in_theory = false};
        gs_settings s = plan->settings;
        if (degree < 0 || degree >= degrees) break;
        l->set(plan, degree, &s, &o);
        double again;
        o.peak = gs_memory_with(plan, &s, &again);
        o.saves = most - o.peak;
        if (o.saves < before + 1) continue; /* less than a byte is nothing */
        before = o.saves;
        if (again > plan->again)
            snprintf(o.formula, sizeof o.formula, "y inside of segments; backward repeats %.0f %% of forward",
                     100 * again);
        list->of[list->count++] = o;
    }
}

/* ---- theory ---- */

/* "8 + 4/2": the bytes that a worker of N holds for each parameter, all of them f32. */
static double bytes_each(int vectors, int stage, int n, char *text, size_t size) {
    const int parts = 4 * ((stage > 0 ? vectors : 0) + (stage > 1) + (stage > 2)),
              all = 4 * (vectors + 2) - parts;
    if (text && parts == 0) snprintf(text, size, "%d", all);
    if (text && parts > 0 && all == 0) snprintf(text, size, "%d/%d", parts, n);
    if (text && parts > 0 && all > 0) snprintf(text, size, "%d + %d/%d", all, parts, n);
    return all + (double)parts / n;
}

double gs_memory_bytes_each(const gs_memory_plan *plan, char *text, size_t size) {
    return bytes_each(plan->vectors, plan->zero, plan->all_workers / plan->stages / plan->tensor, text, size);
}

/* The stages above the run's own. */
static void add_theory(const gs_memory_plan *plan, gs_memory_options *list) {
    const int n = plan->all_workers > 1 ? plan->all_workers : 8;
    const double now = bytes_each(plan->vectors, plan->zero, n, NULL, 0);
    for (int stage = plan->zero + 1; stage <= 3 && has_room(list) && plan->stages == 1 && plan->tensor == 1;
         stage++) {
        gs_memory_option *o = &list->of[list->count];
        char from[32], to[32];
        bytes_each(plan->vectors, plan->zero, n, from, sizeof from);
        const double then = bytes_each(plan->vectors, stage, n, to, sizeof to);
        *o = (gs_memory_option){.in_theory = true, .saves = (now - then) * (double)plan->params};
        if (o->saves < 1) continue;
        o->peak = gs_memory_most(plan, NULL) - o->saves;
        snprintf(o->option, sizeof o->option, "ZeRO %d, %d workers", stage, n);
        snprintf(o->formula, sizeof o->formula, "%s bytes a parameter, not %s", to, from);
        list->count++;
    }
}

void gs_memory_options_find(const gs_memory_plan *plan, gs_memory_options *list) {
    *list = (gs_memory_options){.count = 0};
    for (int i = 0; i < GS_MEMORY_LEVERS; i++) try_lever(plan, &gs_memory_levers[i], list);
    add_theory(plan, list);
}
