#include "core/ledger.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/memory.h"

typedef struct gs_booking {
    const void *memory;
    gs_memory_place place;
    gs_memory_kind kind, tail_kind;
    size_t bytes, tail;  /* the tail is a part of them */
    unsigned char *here; /* [pages] of memory that is offloaded: in memory now? NULL: none ever was */
} gs_booking;

static const struct {
    const char *word, *what;
} kinds[] = {
#define GS_MEMORY_ROW(name, word, what) {word, what},
    GS_MEMORY_KINDS_TABLE(GS_MEMORY_ROW)
#undef GS_MEMORY_ROW
};

const char *gs_memory_word(gs_memory_kind kind) {
    return kinds[kind].word;
}

const char *gs_memory_what(gs_memory_kind kind) {
    return kinds[kind].what;
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

static void keep_peak(gs_ledger *l, gs_memory_place place) {
    if (gs_memory_total(&l->now[place]) > gs_memory_total(&l->peak[place])) l->peak[place] = l->now[place];
}

gs_status gs_ledger_add(gs_ledger *l, gs_memory_place place, gs_memory_kind kind, void *memory,
                        size_t bytes) {
    const gs_booking b = {memory, place, kind, kind, bytes, 0, NULL};
    pthread_mutex_lock(&l->lock);
    const bool room = gs_grow(&l->booking, l->bookings, &l->room, sizeof *l->booking);
    if (room) {
        l->booking[l->bookings++] = b;
        count(l, &b, 1);
        keep_peak(l, place);
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

static gs_booking *away_at(gs_ledger *l, const void *address) {
    for (size_t i = 0; i < l->bookings; i++) {
        const uintptr_t begin = (uintptr_t)l->booking[i].memory;
        if (l->booking[i].place == GS_OFFLOADED && (uintptr_t)address - begin < l->booking[i].bytes)
            return &l->booking[i];
    }
    return NULL;
}

gs_memory_kind gs_ledger_away_kind(gs_ledger *l, const void *address) {
    pthread_mutex_lock(&l->lock);
    const gs_booking *b = away_at(l, address);
    const gs_memory_kind kind = b ? b->kind : GS_MEMORY_KINDS;
    pthread_mutex_unlock(&l->lock);
    return kind;
}

static void set_pages(gs_ledger *l, const gs_booking *b, size_t first, size_t end, size_t page, bool here) {
    const double bytes = here ? (double)page : -(double)page;
    for (size_t i = first; i < end; i++) {
        if ((b->here[i] != 0) == here) continue;
        b->here[i] = here;
        l->now[GS_ON_DEVICE].bytes[i * page < b->bytes - b->tail ? b->kind : b->tail_kind] += bytes;
    }
    keep_peak(l, GS_ON_DEVICE);
}

gs_status gs_ledger_pages(gs_ledger *l, const void *memory, size_t bytes, bool here) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    gs_status status = GS_OK;
    pthread_mutex_lock(&l->lock);
    gs_booking *b = bytes ? away_at(l, memory) : NULL;
    if (b && !b->here && here && !(b->here = calloc(b->bytes / page + 1, 1)))
        status = gs_fail(GS_E_MEMORY, "no memory for a ledger of %zu pages", b->bytes / page);
    if (b && b->here) {
        const size_t begin = (size_t)((const char *)memory - (const char *)b->memory), end = begin + bytes;
        set_pages(l, b, (here ? begin : begin + page - 1) / page, (here ? end + page - 1 : end) / page, page,
                  here);
    }
    pthread_mutex_unlock(&l->lock);
    return status;
}

size_t gs_ledger_remove(gs_ledger *l, const void *memory) {
    size_t bytes = 0;
    pthread_mutex_lock(&l->lock);
    gs_booking *b = memory ? find(l, memory) : NULL;
    if (b) {
        count(l, b, -1);
        bytes = b->bytes;
        const size_t page = (size_t)sysconf(_SC_PAGESIZE);
        if (b->here) set_pages(l, b, 0, (bytes + page - 1) / page, page, false);
        free(b->here);
        *b = l->booking[--l->bookings];
    }
    pthread_mutex_unlock(&l->lock);
    return bytes;
}
