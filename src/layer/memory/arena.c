#include "layer/memory/arena.h"

#include <stdlib.h>

static bool needed_within(const gs_lifetime *l, int first, int last) {
    return (l->born <= last && first <= l->pause) ||
           (l->resume <= last && first <= l->dies && l->resume <= l->dies);
}

static bool meet(const gs_lifetime *a, const gs_lifetime *b) {
    return needed_within(a, b->born, b->pause) ||
           (b->resume <= b->dies && needed_within(a, b->resume, b->dies));
}

static size_t sum_at(const gs_lifetimes *l, int step) {
    size_t sum = 0;
    for (size_t i = 0; i < l->count; i++)
        if (needed_within(&l->life[i], step, step)) sum += l->life[i].floats;
    return sum;
}

size_t gs_lifetimes_peak(const gs_lifetimes *l) {
    size_t most = 0;
    for (size_t i = 0; i < l->count; i++) { /* the sum grows only at a birth, or after a gap */
        const size_t first = sum_at(l, l->life[i].born), again = sum_at(l, l->life[i].resume);
        if (first > most) most = first;
        if (again > most) most = again;
    }
    return most;
}

/* Larger buffers first; of equally large ones, the longer-lived. */
static int by_size(const void *a, const void *b) {
    const gs_lifetime *const *x = a, *const *y = b;
    const int longer = ((*y)->dies - (*y)->born) - ((*x)->dies - (*x)->born);
    if ((*x)->floats != (*y)->floats) return (*x)->floats < (*y)->floats ? 1 : -1;
    return longer ? longer : *x < *y ? -1 : *x > *y;
}

/* Earlier buffers first; of those born together, the longest-lived first, so that memory is released from the top. */
static int by_birth(const void *a, const void *b) {
    const gs_lifetime *const *x = a, *const *y = b;
    if ((*x)->born != (*y)->born) return (*x)->born - (*y)->born;
    if ((*x)->dies != (*y)->dies) return (*x)->dies < (*y)->dies ? 1 : -1;
    return *x < *y ? -1 : *x > *y;
}

static int by_place(const void *a, const void *b) {
    const gs_lifetime *const *x = a, *const *y = b;
    if ((*x)->at != (*y)->at) return (*x)->at < (*y)->at ? -1 : 1;
    return *x < *y ? -1 : *x > *y;
}

/* The first offset >= `at` where `floats` floats fit between two multiples of `most`. */
static size_t within_a_part(size_t at, size_t floats, size_t most) {
    const size_t left = most - at % most;
    return floats <= left || left == most ? at : at + left;
}

/* Place a buffer at the lowest free offset. `busy`: room for a list of the buffers in its way. */
static void place_one(gs_lifetime *l, gs_lifetime *const *placed, size_t count, const gs_lifetime **busy,
                      size_t most) {
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

static size_t place_in_order(gs_lifetimes *l, int (*order)(const void *, const void *), gs_lifetime **all,
                             const gs_lifetime **busy, size_t most) {
    size_t end = 0;
    for (size_t i = 0; i < l->count; i++) all[i] = &l->life[i];
    qsort(all, l->count, sizeof *all, order);
    for (size_t i = 0; i < l->count; i++) {
        place_one(all[i], all, i, busy, most);
        if (all[i]->at + all[i]->floats > end) end = all[i]->at + all[i]->floats;
    }
    return end;
}

gs_status gs_lifetimes_place(gs_lifetimes *l, size_t most, size_t *end) {
    gs_lifetime **all = calloc(l->count + 1, sizeof *all);
    const gs_lifetime **busy = calloc(l->count + 1, sizeof *busy);
    most = most / GS_LINE_FLOATS * GS_LINE_FLOATS;
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
