/* 21.2, 21.4 and 21.5, with drawn files, waits and snapshot ids. 21.4 checks every group of up to four ranks. */
#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- 21.2 ---- */

enum { FILES = 40, SIZE = 12 };
#define LARGE_STEP ((UINT64_C(1) << 32) + 10)

typedef struct files {
    lab_file file[FILES];
    unsigned char data[FILES][SIZE];
    size_t count;
    uint64_t newest;
} files;

typedef enum damage { NONE, CHANGED, SHORTER, EMPTY, NO_MANIFEST, MISSING } damage;
static const char *const damage_names[] = {"no damage", "one byte changed", "the last byte missing",
                                           "no byte",   "no manifest yet",  "no file"};

/* Adds all parts of a checkpoint, with this damage to part `which`. */
static void add(files *f, uint64_t step, int of, damage d, int which) {
    for (int part = 0; part < of; part++) {
        if (d == MISSING && part == which) continue;
        unsigned char *data = f->data[f->count];
        size_t bytes = 1 + lab_pick(BYTES_ROW, f->count, SIZE);
        for (size_t k = 0; k < bytes; k++) data[k] = (unsigned char)lab_pick(VALUES_ROW, 100 * step + k, 256);
        lab_file *x = &f->file[f->count++];
        *x = (lab_file){step, part, of, true, lab_hash(data, bytes), bytes, data};
        if (part != which) continue;
        if (d == CHANGED) data[bytes - 1] ^= 1;
        if (d == SHORTER) x->bytes--;
        if (d == EMPTY) x->bytes = 0;
        if (d == NO_MANIFEST) x->has_manifest = false;
    }
    if (d == NONE && step > f->newest) f->newest = step;
}

static gs_status check_files(files *f, size_t i, const char *what) {
    for (size_t k = 0; k < f->count; k++) {
        const size_t place = lab_pick(ORDER_ROW, FILES * i + k, k + 1);
        const lab_file x = f->file[k];
        f->file[k] = f->file[place];
        f->file[place] = x;
    }
    const uint64_t got = lab_newest(f->count, f->file);
    LAB_CHECK(got == f->newest, "%s: expected step %" PRIu64 ", got %" PRIu64, what, f->newest, got);
    return GS_OK;
}

static files f; /* too large for the stack */

static gs_status check_damage(size_t i, damage d, int parts) {
    char what[200];
    f = (files){0};
    add(&f, 10, parts, NONE, -1);
    add(&f, 20, parts, d, parts - 1);
    snprintf(what, sizeof what, "steps 10 and 20, each of %d part%s; of step 20 the last part has %s", parts,
             gs_s((unsigned)parts), damage_names[d]);
    return check_files(&f, i, what);
}

static gs_status check_files_drawn(size_t i) {
    char what[400] = "";
    f = (files){0};
    const size_t count = 1 + lab_pick(FILES_ROW, 20 * i, 6);
    for (size_t k = 0; k < count; k++) {
        const size_t draw = 20 * i + 3 * k;
        const int of = 1 + (int)lab_pick(FILES_ROW, draw + 1, 5);
        const damage d =
            lab_pick(DAMAGE_ROW, draw, 3) == 0 ? NONE : (damage)lab_pick(DAMAGE_ROW, draw + 1, MISSING + 1);
        const uint64_t step = 10 * (1 + k);
        add(&f, step, of, d, (int)lab_pick(FILES_ROW, draw + 2, (size_t)of));
        lab_append(what, sizeof what, "%sstep %" PRIu64 " of %d part%s, one with %s", k ? "; " : "", step, of,
                   gs_s((unsigned)of), damage_names[d]);
    }
    return check_files(&f, i, what);
}

/* Step 20 was written by 3 processes, and by 2 after a restart: neither is whole, but together they have enough. */
static gs_status check_two_runs(size_t i, bool second) {
    char what[200];
    f = (files){0};
    add(&f, 10, 3, NONE, -1);
    add(&f, 20, 3, MISSING, 1);
    add(&f, 20, 2, second ? NONE : MISSING, 0);
    snprintf(what, sizeof what,
             "step 10 of 3 parts; step 20 of 3 parts, one missing, and again of 2 parts, %s",
             second ? "whole" : "one missing");
    return check_files(&f, i, what);
}

gs_status check_newest(void) {
    f = (files){0};
    GS_TRY(check_files(&f, 0, "an empty folder"));
    for (int parts = 1; parts <= 3; parts++)
        for (int d = NONE; d <= MISSING; d++) GS_TRY(check_damage((size_t)(8 * parts + d), (damage)d, parts));
    GS_TRY(check_two_runs(40, false));
    GS_TRY(check_two_runs(41, true));
    f = (files){0};
    add(&f, 4000, 2, NONE, -1);
    add(&f, LARGE_STEP, 2, NONE, -1);
    GS_TRY(check_files(&f, 42, "steps 4000 and 4294967306, each of 2 parts and whole"));
    for (size_t i = 50; i < 110; i++) GS_TRY(check_files_drawn(i));
    return GS_OK;
}

/* ---- 21.4 ---- */

enum { RANKS = 8, MANY = 40 };

static int to_blame(int me, const int *waits_for, const double *seconds, double timeout) {
    bool seen[MANY] = {false};
    while (waits_for[me] >= 0 && seconds[me] >= timeout / 2) {
        if (seen[me]) return -1;
        seen[me] = true;
        me = waits_for[me];
    }
    return me;
}

static gs_status check_suspect_of(int me, int ranks, const int *waits_for, const double *seconds,
                                  double timeout) {
    const int wanted = to_blame(me, waits_for, seconds, timeout);
    const int got = lab_suspect(me, ranks, waits_for, seconds, timeout);
    char text[300] = "";
    for (int r = 0; r < ranks; r++) {
        lab_append(text, sizeof text,
                   waits_for[r] < 0 ? "%srank %d for none" : "%srank %d for rank %d (%g s)", r ? ", " : "", r,
                   waits_for[r], seconds[r]);
    }
    LAB_CHECK(got == wanted, "rank %d gives up after %g s. The ranks wait: %s. Expected %d, got %d", me,
              timeout, text, wanted, got);
    return GS_OK;
}

/* Every group: each rank waits for none or for another, for 2 s or 10 s; rank 0 for 10 s. */
static gs_status check_all_groups(int ranks) {
    int groups = 1;
    for (int r = 1; r < ranks; r++) groups *= 2 * ranks;
    for (int first = 1; first < ranks; first++)
        for (int g = 0; g < groups; g++) {
            int waits_for[RANKS] = {first}, rest = g;
            double seconds[RANKS] = {10};
            for (int r = 1; r < ranks; r++, rest /= 2 * ranks) {
                waits_for[r] = rest % ranks == r ? -1 : rest % ranks;
                seconds[r] = rest / ranks % 2 ? 2 : 10;
            }
            GS_TRY(check_suspect_of(0, ranks, waits_for, seconds, 10));
        }
    return GS_OK;
}

static gs_status check_suspect(void) {
    for (int ranks = 2; ranks <= 4; ranks++) GS_TRY(check_all_groups(ranks));
    for (size_t i = 0; i < 100; i++) {
        int waits_for[RANKS];
        double seconds[RANKS];
        const double timeout = (double)(4 + lab_pick(WAITS_ROW, 40 * i, 30));
        const int me = (int)(i % RANKS);
        for (int r = 0; r < RANKS; r++) {
            const size_t draw = 40 * i + 1 + 3 * (size_t)r, other = lab_pick(WAITS_ROW, draw, RANKS - 1);
            waits_for[r] = (int)other < r ? (int)other : (int)other + 1;
            seconds[r] = r == me ? timeout : timeout * (double)(1 + lab_pick(WAITS_ROW, draw + 1, 16)) / 16;
            if (r != me && lab_pick(WAITS_ROW, draw + 2, 6) == 0) waits_for[r] = -1;
        }
        GS_TRY(check_suspect_of(me, RANKS, waits_for, seconds, timeout));
    }
    int next[MANY]; /* each waits for the next; the last for none, then for the first */
    double ten[MANY];
    for (int r = 0; r < MANY; r++) next[r] = r + 1 < MANY ? r + 1 : -1, ten[r] = 10;
    GS_TRY(check_suspect_of(0, MANY, next, ten, 10));
    next[MANY - 1] = 0;
    return check_suspect_of(0, MANY, next, ten, 10);
}

/* ---- 21.5 ---- */

/* The states that a process has kept: after these steps; 0: none. */
typedef struct kept {
    uint64_t step[GS_SNAPSHOTS];
    char state; /* the state's run, 'a' unless it differs */
} kept;

static void deal(const kept *k, int size, gs_snapshot_id *all) {
    memset(all, 0, (size_t)size * GS_SNAPSHOTS * sizeof *all);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < GS_SNAPSHOTS; i++) {
            gs_snapshot_id *c = &all[r * GS_SNAPSHOTS + i];
            c->valid = k[r].step[i] > 0;
            c->step = k[r].step[i];
            if (c->valid) snprintf(c->hash, sizeof c->hash, "%063" PRIx64 "%c", c->step, k[r].state);
        }
}

static const char *text_of(const kept *k, int size) {
    static char text[400];
    *text = '\0';
    for (int r = 0; r < size; r++) {
        if (k[r].step[0] + k[r].step[1] == 0)
            lab_append(text, sizeof text, "%srank %d is new", r ? "; " : "", r);
        else
            lab_append(text, sizeof text, "%srank %d has steps %" PRIu64 ", %" PRIu64 "%s", r ? "; " : "", r,
                       k[r].step[0], k[r].step[1], k[r].state == 'a' ? "" : ", with other hashes");
    }
    return text;
}

/* first -1: no rank has a state; differ: GS_E_DIFFER is expected. */
static gs_status check_agree_of(const kept *k, int size, uint64_t step, int first, bool differ) {
    gs_snapshot_id all[RANKS * GS_SNAPSHOTS];
    uint64_t its = 4711;
    int who = 4711;
    deal(k, size, all);
    const gs_status status = gs_snapshots_agree(all, size, &its, &who);
    if (differ) {
        LAB_CHECK(status == GS_E_DIFFER, "%s: expected GS_E_DIFFER, got %s", text_of(k, size),
                  status == GS_OK ? "GS_OK" : "another failure");
        return GS_OK;
    }
    LAB_CHECK(status == GS_OK, "%s: expected GS_OK, got '%s'", text_of(k, size), gs_message());
    LAB_CHECK(who == first, "%s: expected *first %d, got %d", text_of(k, size), first, who);
    LAB_CHECK(first < 0 || its == step, "%s: expected *step %" PRIu64 ", got %" PRIu64, text_of(k, size),
              step, its);
    return GS_OK;
}

/* Up to eight processes; some are one step ahead, and some are new. */
static gs_status check_agree_drawn(size_t i) {
    kept k[RANKS] = {0};
    const int size = 1 + (int)lab_pick(CARDS_ROW, 50 * i, RANKS);
    const uint64_t step = 2 + lab_pick(CARDS_ROW, 50 * i + 1, 1000);
    int first = -1, survivors = 0, survivor[RANKS];
    uint64_t common = step + 1;
    for (int r = 0; r < size; r++) {
        const size_t draw = 50 * i + 2 + 4 * (size_t)r;
        if (lab_pick(CARDS_ROW, draw, 3) == 0) continue;
        const uint64_t its = step + lab_pick(CARDS_ROW, draw + 1, 2);
        const size_t newest = lab_pick(CARDS_ROW, draw + 2, 2);
        k[r].step[newest] = its;
        k[r].step[1 - newest] = its - 1;
        k[r].state = 'a';
        if (its < common) common = its;
        if (first < 0) first = r;
        survivor[survivors++] = r;
    }
    const bool differ = survivors > 1 && lab_pick(CARDS_ROW, 50 * i + 49, 3) == 0;
    if (differ) k[survivor[lab_pick(CARDS_ROW, 50 * i + 48, (size_t)survivors)]].state = 'b';
    return check_agree_of(k, size, common, first, differ);
}

static gs_status check_agree(void) {
    static const kept new = {{0, 0}, 'a'}, at_57 = {{57, 56}, 'a'}, at_58 = {{58, 57}, 'a'},
                      at_60 = {{60, 59}, 'a'}, begins = {{57, 0}, 'a'}, other = {{57, 56}, 'b'},
                      large = {{LARGE_STEP, LARGE_STEP - 1}, 'a'};
    GS_TRY(check_agree_of((kept[]){at_57}, 1, 57, 0, false));
    GS_TRY(check_agree_of((kept[]){new, new}, 2, 0, -1, false));
    GS_TRY(check_agree_of((kept[]){at_57, at_58}, 2, 57, 0, false));
    GS_TRY(check_agree_of((kept[]){at_58, at_57}, 2, 57, 0, false));
    GS_TRY(check_agree_of((kept[]){new, at_58, at_57}, 3, 57, 1, false));
    GS_TRY(check_agree_of((kept[]){at_58, new, begins}, 3, 57, 0, false));
    GS_TRY(check_agree_of((kept[]){at_58, other}, 2, 0, 0, true));
    GS_TRY(check_agree_of((kept[]){at_57, at_60}, 2, 0, 0, true));
    GS_TRY(check_agree_of((kept[]){at_60, new, at_57}, 3, 0, 0, true));
    GS_TRY(check_agree_of((kept[]){at_58, other, at_58}, 3, 0, 0, true));
    GS_TRY(check_agree_of((kept[]){large, large}, 2, LARGE_STEP, 0, false));
    for (size_t i = 0; i < 80; i++) GS_TRY(check_agree_drawn(i));
    return GS_OK;
}

// clang-format off
const char *const lab_may_call[] = {"disk_write", "disk_sync", "disk_rename", "disk_remove", "disk_sync_folder",
    "gs_fail", "gs_context", "gs_snapshot_id_newest", "gs_snapshot_id_of_step", NULL};
// clang-format on

const lab_task lab_tasks[] = {
    {"21.1", "a checkpoint is there whole, or not at all", 3, check_save,
     "write down what is only in memory after each call, and what the disk may lose: bytes, names, or both."},
    {"21.2", "the newest checkpoint that is whole", 2, check_newest,
     "a checkpoint counts when all its `of` parts do. Which files belong to the same checkpoint?"},
    {"21.3", "what failures cost: rates, expected time, interval", 2, check_costs,
     "write one function at a time."},
    {"21.4", "whose fault is it?", 1, check_suspect,
     "the rank that you wait for may wait itself. Draw arrows and follow them: do they end, or go around?"},
    {"21.5", "from which step do the survivors go on?", 2, check_agree,
     "a new rank has no step. Take each survivor's last step, and of these the one that all have; then "
     "compare the states."},
    {0},
};
