#include "core/ledger.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "core/memory.h"

typedef struct gs_booking {
    const void *memory;
    gs_memory_place place;
    gs_memory_kind kind, tail_kind;
    size_t bytes, tail; /* the tail is a part of them */
} gs_booking;

static const char *const words[] = {
#define GS_MEMORY_ROW(name, word) word,
    GS_MEMORY_KINDS_TABLE(GS_MEMORY_ROW)
#undef GS_MEMORY_ROW
};

const char *gs_memory_word(gs_memory_kind kind) {
    return words[kind];
}

double gs_memory_total(const gs_memory_use *use) {
    double sum = 0;
    for (int k = 0; k < GS_MEMORY_KINDS; k++) sum += use->bytes[k];
    return sum;
}

void gs_ledger_create(gs_ledger *l) {
    memset(l, 0, sizeof *l);
    pthread_mutex_init(&l->lock, NULL);
}

void gs_ledger_free(gs_ledger *l) {
    pthread_mutex_destroy(&l->lock);
    free(l->booking);
    l->booking = NULL;
}

static void count(gs_ledger *l, const gs_booking *b, double sign) {
    double *bytes = l->now[b->place].bytes;
    bytes[b->kind] += sign * (double)(b->bytes - b->tail);
    bytes[b->tail_kind] += sign * (double)b->tail;
}

gs_status gs_ledger_add(gs_ledger *l, gs_memory_place place, gs_memory_kind kind, void *memory,
                        size_t bytes) {
    const gs_booking b = {memory, place, kind, kind, bytes, 0};
    pthread_mutex_lock(&l->lock);
    const bool room = gs_grow(&l->booking, l->bookings, &l->room, sizeof *l->booking);
    if (room) {
        l->booking[l->bookings++] = b;
        count(l, &b, 1);
        if (gs_memory_total(&l->now[place]) > gs_memory_total(&l->peak[place]))
            l->peak[place] = l->now[place];
    }
    pthread_mutex_unlock(&l->lock);
    return room ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for a ledger of %zu allocations", l->bookings);
}

static gs_booking *find(gs_ledger *l, const void *memory) {
    for (size_t i = l->bookings; i > 0; i--) /* what is freed soon was allocated late */
        if (l->booking[i - 1].memory == memory) return &l->booking[i - 1];
    return NULL;
}

static bool same(const gs_memory_use *a, const gs_memory_use *b) {
    for (int k = 0; k < GS_MEMORY_KINDS; k++)
        if (a->bytes[k] < b->bytes[k] || a->bytes[k] > b->bytes[k]) return false;
    return true;
}

void gs_ledger_tail(gs_ledger *l, const void *memory, gs_memory_kind kind, size_t tail) {
    pthread_mutex_lock(&l->lock);
    gs_booking *b = find(l, memory);
    if (b && tail <= b->bytes) {
        /* the same bytes under another name: if the peak is now, it has them too */
        const bool at_peak = same(&l->now[b->place], &l->peak[b->place]);
        count(l, b, -1);
        b->tail_kind = kind;
        b->tail = tail;
        count(l, b, 1);
        if (at_peak) l->peak[b->place] = l->now[b->place];
    }
    pthread_mutex_unlock(&l->lock);
}

void gs_ledger_now(gs_ledger *l, gs_memory_place place, gs_memory_use *out) {
    pthread_mutex_lock(&l->lock);
    *out = l->now[place];
    pthread_mutex_unlock(&l->lock);
}

gs_memory_kind gs_ledger_away_kind(gs_ledger *l, const void *address) {
    const uintptr_t at = (uintptr_t)address;
    gs_memory_kind kind = GS_MEMORY_KINDS;
    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < l->bookings && kind == GS_MEMORY_KINDS; i++) {
        const uintptr_t begin = (uintptr_t)l->booking[i].memory;
        if (l->booking[i].place == GS_OFFLOADED && at >= begin && at - begin < l->booking[i].bytes)
            kind = l->booking[i].kind;
    }
    pthread_mutex_unlock(&l->lock);
    return kind;
}

size_t gs_ledger_remove(gs_ledger *l, const void *memory) {
    size_t bytes = 0;
    pthread_mutex_lock(&l->lock);
    gs_booking *b = memory ? find(l, memory) : NULL;
    if (b) {
        count(l, b, -1);
        bytes = b->bytes;
        *b = l->booking[--l->bookings];
    }
    pthread_mutex_unlock(&l->lock);
    return bytes;
}
