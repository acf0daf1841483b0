#include "layer/memory/arena.h"

#include <stdlib.h>
#include <string.h>

static bool lives_within(const gs_life *l, int first, int last) {
    return (l->born <= last && first <= l->away) ||
           (l->back <= last && first <= l->dies && l->back <= l->dies);
}

static bool meet(const gs_life *a, const gs_life *b) {
    return lives_within(a, b->born, b->away) || (b->back <= b->dies && lives_within(a, b->back, b->dies));
}

static size_t sum_at(const gs_lives *l, int step) {
    size_t sum = 0;
    for (size_t i = 0; i < l->count; i++)
        if (lives_within(&l->life[i], step, step)) sum += l->life[i].floats;
    return sum;
}

size_t gs_lives_least(const gs_lives *l) {
    size_t most = 0;
    for (size_t i = 0; i < l->count; i++) { /* the sum grows only where one is born, or comes back */
        const size_t first = sum_at(l, l->life[i].born), again = sum_at(l, l->life[i].back);
        if (first > most) most = first;
        if (again > most) most = again;
    }
    return most;
}

/* The larger first; of equal ones, the longer. */
static int by_size(const void *a, const void *b) {
    const gs_life *const *x = a, *const *y = b;
    const int longer = ((*y)->dies - (*y)->born) - ((*x)->dies - (*x)->born);
    if ((*x)->floats != (*y)->floats) return (*x)->floats < (*y)->floats ? 1 : -1;
    return longer ? longer : *x < *y ? -1 : *x > *y;
}

/* The earlier first; of those that begin together, the one that stays longest, so that they go from the top. */
static int by_birth(const void *a, const void *b) {
    const gs_life *const *x = a, *const *y = b;
    if ((*x)->born != (*y)->born) return (*x)->born - (*y)->born;
    if ((*x)->dies != (*y)->dies) return (*x)->dies < (*y)->dies ? 1 : -1;
    return *x < *y ? -1 : *x > *y;
}

static int by_place(const void *a, const void *b) {
    const gs_life *const *x = a, *const *y = b;
    if ((*x)->at != (*y)->at) return (*x)->at < (*y)->at ? -1 : 1;
    return *x < *y ? -1 : *x > *y;
}

/* The first place from `at` on where so many floats lie between two multiples of `most`. */
static size_t within_a_part(size_t at, size_t floats, size_t most) {
    const size_t left = most - at % most;
    return floats <= left || left == most ? at : at + left;
}

/* The lowest place that is free. `busy`: room for those that are in the way. */
static void place_one(gs_life *l, gs_life *const *placed, size_t count, const gs_life **busy, size_t most) {
    size_t others = 0, at = 0;
    for (size_t i = 0; i < count; i++)
        if (meet(l, placed[i])) busy[others++] = placed[i];
    qsort(busy, others, sizeof *busy, by_place);
    for (size_t i = 0; i < others; i++) {
        at = within_a_part(at, l->floats, most);
        if (busy[i]->at >= at + l->floats) break;
        if (busy[i]->at + busy[i]->floats > at) at = busy[i]->at + busy[i]->floats;
    }
    l->at = within_a_part(at, l->floats, most);
}

static size_t place_in_order(gs_lives *l, int (*order)(const void *, const void *), gs_life **all,
                             const gs_life **busy, size_t most) {
    size_t end = 0;
    for (size_t i = 0; i < l->count; i++) all[i] = &l->life[i];
    qsort(all, l->count, sizeof *all, order);
    for (size_t i = 0; i < l->count; i++) {
        place_one(all[i], all, i, busy, most);
        if (all[i]->at + all[i]->floats > end) end = all[i]->at + all[i]->floats;
    }
    return end;
}

gs_status gs_lives_place(gs_lives *l, size_t most, size_t *end) {
    gs_life **all = calloc(l->count + 1, sizeof *all);
    const gs_life **busy = calloc(l->count + 1, sizeof *busy);
    most = most / GS_LIFE_LINE * GS_LIFE_LINE;
    if (all && busy) {
        const size_t first = place_in_order(l, by_birth, all, busy, most);
        *end = place_in_order(l, by_size, all, busy, most);
        if (first < *end) *end = place_in_order(l, by_birth, all, busy, most);
    }
    const bool there = all && busy;
    free(all);
    free(busy);
    return there ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for the places of %zu buffers", l->count);
}
