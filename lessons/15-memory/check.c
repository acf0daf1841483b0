/* Lesson 15: the list of its tasks, and the checks of the arena. check_rows.c checks 15.3 to 15.5. */
#include "check.h"

#include <stdio.h>
#include <string.h>

/* ---- lifetimes ---- */

enum { MOST_BUFFERS = 9, STEPS = 12 };

typedef struct lifetimes_case {
    size_t count;
    gs_lifetime life[MOST_BUFFERS];
} lifetimes_case;

#define PLAIN(floats_, born_, dies_)                                                                         \
    { floats_, born_, born_, born_, dies_, 0 }

static bool needed(const gs_lifetime *l, int step) {
    return (step >= l->born && step <= l->pause) || (step >= l->resume && step <= l->dies);
}

/* "5 floats, steps 0 to 3; 2 floats, steps 1 to 2 and 5 to 6" */
static const char *text_of(const gs_lifetime *life, size_t count, bool places) {
    static char texts[2][900]; /* with places, and without */
    char *text = texts[places];
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const gs_lifetime *l = &life[i];
        const bool gap = gs_lifetime_has_gap(l);
        lab_append(text, sizeof *texts, "%s%zu float%s", i > 0 ? "; " : "", l->floats, gs_s(l->floats));
        if (places) lab_append(text, sizeof *texts, " at %zu", l->at);
        lab_append(text, sizeof *texts, ", steps %d to %d", l->born, gap ? l->pause : l->dies);
        if (gap) lab_append(text, sizeof *texts, " and %d to %d", l->resume, l->dies);
    }
    return text;
}

static lifetimes_case drawn_lifetimes(unsigned row, size_t i) {
    lifetimes_case k = {.count = 2 + lab_pick(row, 1000 * i, MOST_BUFFERS - 1)};
    for (size_t j = 0; j < k.count; j++) {
        const size_t at = 1000 * i + 10 * j + 1;
        gs_lifetime *l = &k.life[j];
        l->floats = 1 + lab_pick(row, at, 9);
        l->born = l->pause = l->resume = (int)lab_pick(row, at + 1, STEPS - 1);
        l->dies = l->born + (int)lab_pick(row, at + 2, (size_t)(STEPS - l->born));
        const int length = l->dies - l->born;
        if (length < 3 || lab_pick(row, at + 3, 2) == 0) continue;
        l->pause = l->born + (int)lab_pick(row, at + 4, (size_t)length - 1);
        l->resume = l->pause + 2 + (int)lab_pick(row, at + 5, (size_t)(l->dies - l->pause - 1));
    }
    return k;
}

/* The case of a large network: later, in units of FAR floats, and some buffers forever, so that the numbers exceed a
 * short loop or an int. */
enum { LATER = 5000, FAR = 1000000000 };

static lifetimes_case far(lifetimes_case k) {
    for (size_t i = 0; i < k.count; i++) {
        gs_lifetime *l = &k.life[i];
        l->floats *= FAR;
        l->at *= FAR;
        l->dies = l->dies == STEPS - 1 ? GS_FOREVER : l->dies + LATER;
        l->born += LATER;
        l->pause += LATER;
        l->resume += LATER;
    }
    return k;
}

/* ---- 15.1 ---- */

static gs_status check_least(const lifetimes_case *near, bool is_far) {
    const lifetimes_case made = is_far ? far(*near) : *near, *k = &made;
    size_t most = 0;
    for (int step = 0; step < STEPS; step++) {
        size_t sum = 0;
        for (size_t i = 0; i < k->count; i++) sum += needed(&near->life[i], step) ? k->life[i].floats : 0;
        if (sum > most) most = sum;
    }
    const gs_lifetimes l = {(gs_lifetime *)k->life, k->count, k->count};
    const size_t got = gs_lifetimes_peak(&l);
    LAB_CHECK(got == most, "%s: got %zu, expected %zu", text_of(k->life, k->count, false), got, most);
    return GS_OK;
}

static gs_status what_is_needed_at_once(void) {
    static const lifetimes_case cases[] = {
        {1, {PLAIN(5, 0, 3)}},
        {2, {PLAIN(5, 0, 3), PLAIN(4, 4, 6)}},
        {2, {PLAIN(5, 0, 3), PLAIN(4, 3, 6)}},
        {3, {PLAIN(5, 0, 1), PLAIN(4, 2, 5), PLAIN(3, 4, 6)}},
        {2, {{5, 0, 1, 6, 7, 0}, PLAIN(4, 2, 5)}},
        {3, {{5, 0, 1, 6, 7, 0}, PLAIN(4, 2, 5), PLAIN(3, 3, 6)}},
        {3, {{5, 2, 3, 8, 9, 0}, PLAIN(4, 0, 1), PLAIN(3, 7, 8)}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) GS_TRY(check_least(&cases[i], false));
    for (size_t i = 0; i < 60; i++) {
        const lifetimes_case drawn = drawn_lifetimes(LEAST_ROW, i);
        GS_TRY(check_least(&drawn, i >= 40));
    }
    return GS_OK;
}

/* ---- 15.2 ---- */

static bool is_free(const gs_lifetime *it, size_t at, const gs_lifetime *placed, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const gs_lifetime *o = &placed[i];
        bool both = false;
        for (int step = 0; step < STEPS; step++) both = both || (needed(it, step) && needed(o, step));
        if (both && at < o->at + o->floats && o->at < at + it->floats) return false;
    }
    return true;
}

/* Places the buffers in order, each at the right offset even if the answer is wrong. `backwards`: the list of placed
 * buffers is reversed. */
static gs_status check_places(lifetimes_case k, bool is_far, bool backwards) {
    for (size_t i = 0; i < k.count; i++) {
        const lifetimes_case shown = is_far ? far(k) : k;
        gs_lifetime placed[MOST_BUFFERS], *list[MOST_BUFFERS];
        size_t wanted = 0;
        for (size_t j = 0; j < i; j++) {
            placed[j] = shown.life[backwards ? i - 1 - j : j];
            list[j] = &placed[j];
        }
        while (!is_free(&k.life[i], wanted, k.life, i)) wanted++;
        const size_t got = lowest_place(&shown.life[i], list, i), place = is_far ? wanted * FAR : wanted;
        LAB_CHECK(got == place, "placed: %s; then %s: got place %zu, expected %zu",
                  i > 0 ? text_of(placed, i, true) : "none", text_of(&shown.life[i], 1, false), got, place);
        k.life[i].at = wanted;
    }
    return GS_OK;
}

static gs_status the_lowest_place(void) {
    static const lifetimes_case cases[] = {
        {2, {PLAIN(5, 0, 3), PLAIN(4, 2, 6)}},                                 /* above it */
        {2, {PLAIN(5, 0, 3), PLAIN(4, 4, 6)}},                                 /* in its place */
        {4, {PLAIN(5, 0, 3), PLAIN(4, 0, 6), PLAIN(3, 0, 9), PLAIN(5, 4, 9)}}, /* in a hole that fits */
        {4, {PLAIN(5, 0, 3), PLAIN(4, 0, 6), PLAIN(3, 0, 9), PLAIN(6, 4, 9)}}, /* the hole is too small */
        {4, {PLAIN(5, 0, 3), PLAIN(5, 2, 9), PLAIN(5, 4, 9), PLAIN(3, 4, 9)}}, /* above two of them */
        {2, {{5, 0, 1, 6, 7, 0}, PLAIN(4, 2, 5)}},                             /* in a gap */
    };
    lifetimes_case tower = {.count = 7};
    for (size_t i = 0; i < tower.count; i++) tower.life[i] = (gs_lifetime)PLAIN(3, 0, 9);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) GS_TRY(check_places(cases[i], false, false));
    GS_TRY(check_places(tower, false, true));
    for (size_t i = 0; i < 60; i++) GS_TRY(check_places(drawn_lifetimes(PLACE_ROW, i), i >= 40, i % 2));
    return GS_OK;
}

const char *const lab_may_call[] = {NULL};

const lab_task lab_tasks[] = {
    {"15.1", "the arena: what is needed at the same time", 2, what_is_needed_at_once,
     "draw a bar for each buffer over the steps, and add up the bars above each step. A bar may have a gap"},
    {"15.2", "the arena: the lowest free offset", 3, the_lowest_place,
     "only buffers that are needed in the same step are in the way. A hole must be as large as the buffer; "
     "above one buffer in the way there may be another"},
    {"15.3", "recompute: peak, share done again, the best segment", 2, lab_check_recompute,
     "of 9 layers with k = 3, which three y are kept? How many others are in memory at most? Which segment's "
     "backward begins when its forward has just ended?"},
    {"15.4", "offload: when forward is over", 2, lab_check_offload,
     "draw two rows: layers above, copies below. With 2 buffers, whose copy does layer 2 wait for?"},
    {"15.5", "the scale of the loss", 1, lab_check_loss_scale,
     "a skipped update ends a row of good ones. At a limit, a power of two, the scale stays"},
    {0},
};
