#include "core/ledger.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "core/memory.h"

enum { PAGE = 4096 };

typedef struct gs_booking {
    const void *memory;
    gs_memory_place place;
    gs_memory_kind kind, tail_kind;
    size_t bytes, tail;  /* bytes includes the tail */
    unsigned char *here; /* [pages] of offloaded memory: 1 if the page is in device memory too */
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
    for (size_t i = 0; i < l->bookings; i++) free(l->booking[i].here);
    free(l->booking);
    l->booking = NULL;
}

static void count(gs_ledger *l, const gs_booking *b, double sign) {
    double *bytes = l->now[b->place].bytes;
    bytes[b->kind] += sign * (double)(b->bytes - b->tail);
    bytes[b->tail_kind] += sign * (double)b->tail;
}

/* Update the peak if the use has grown, or if it was at its peak (at_peak) and bytes have changed their kind. */
static void keep_peak(gs_ledger *l, gs_memory_place place, bool at_peak) {
    if (at_peak || gs_memory_total(&l->now[place]) > gs_memory_total(&l->peak[place]))
        l->peak[place] = l->now[place];
}

gs_status gs_ledger_add(gs_ledger *l, gs_memory_place place, gs_memory_kind kind, void *memory,
                        size_t bytes) {
    gs_booking b = {memory, place, kind, kind, bytes, 0, NULL};
    pthread_mutex_lock(&l->lock);
    const bool room = gs_grow(&l->booking, l->bookings, &l->room, sizeof *l->booking) &&
                      (place != GS_OFFLOADED || (b.here = calloc(bytes / PAGE + 1, 1)));
    if (room) {
        l->booking[l->bookings++] = b;
        count(l, &b, 1);
        keep_peak(l, place, false);
    }
    pthread_mutex_unlock(&l->lock);
    return room ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for a ledger of %zu allocations", l->bookings);
}

static gs_booking *find(gs_ledger *l, const void *memory) {
    for (size_t i = l->bookings; i > 0; i--) /* backwards: usually a recent one is freed */
        if (l->booking[i - 1].memory == memory) return &l->booking[i - 1];
    return NULL;
}

void gs_ledger_tail(gs_ledger *l, const void *memory, gs_memory_kind kind, size_t tail) {
    pthread_mutex_lock(&l->lock);
    gs_booking *b = find(l, memory);
    if (b && tail <= b->bytes) {
        const bool at_peak = gs_memory_total(&l->now[b->place]) >= gs_memory_total(&l->peak[b->place]);
        count(l, b, -1);
        b->tail_kind = kind;
        b->tail = tail;
        count(l, b, 1);
        keep_peak(l, b->place, at_peak);
    }
    pthread_mutex_unlock(&l->lock);
}

void gs_ledger_now(gs_ledger *l, gs_memory_place place, gs_memory_use *out) {
    pthread_mutex_lock(&l->lock);
    *out = l->now[place];
    pthread_mutex_unlock(&l->lock);
}

static const gs_booking *find_offloaded(const gs_ledger *l, const void *address) {
    for (const gs_booking *b = l->booking; b < l->booking + l->bookings; b++)
        if (b->here && (uintptr_t)address - (uintptr_t)b->memory < b->bytes) return b;
    return NULL;
}

gs_memory_kind gs_ledger_offloaded_kind(gs_ledger *l, const void *address) {
    pthread_mutex_lock(&l->lock);
    const gs_booking *b = find_offloaded(l, address);
    const gs_memory_kind kind = b ? b->kind : GS_MEMORY_KINDS;
    pthread_mutex_unlock(&l->lock);
    return kind;
}

void gs_ledger_pages(gs_ledger *l, const void *memory, size_t bytes, bool here) {
    pthread_mutex_lock(&l->lock);
    const gs_booking *b = find_offloaded(l, memory);
    const size_t at = b ? (size_t)((const char *)memory - (const char *)b->memory) : 0,
                 more = here ? PAGE - 1 : 0;
    for (size_t i = (at + PAGE - 1 - more) / PAGE; b && i < (at + bytes + more) / PAGE; i++) {
        if (b->here[i] != here) l->now[GS_ON_DEVICE].bytes[b->kind] += here ? PAGE : -PAGE;
        b->here[i] = here;
    }
    keep_peak(l, GS_ON_DEVICE, false);
    pthread_mutex_unlock(&l->lock);
}

size_t gs_ledger_remove(gs_ledger *l, const void *memory) {
    size_t bytes = 0;
    pthread_mutex_lock(&l->lock);
    gs_booking *b = memory ? find(l, memory) : NULL;
    if (b) {
        count(l, b, -1);
        bytes = b->bytes;
        for (size_t i = 0; b->here && i <= bytes / PAGE; i++)
            l->now[GS_ON_DEVICE].bytes[b->kind] -= b->here[i] ? PAGE : 0;
        free(b->here);
        *b = l->booking[--l->bookings];
    }
    pthread_mutex_unlock(&l->lock);
    return bytes;
}
