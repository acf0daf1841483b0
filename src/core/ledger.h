/* What a device's memory is used for. Each allocation is recorded with its kind and removed when it is freed. The
 * backends record device memory (cpu/memory.c, cl/memory.c), so that no allocation is missed; host memory is recorded
 * by its owner. `gradsum memory` prints a ledger before a run, and `train` prints one after it. */
#pragma once

#include <pthread.h>
#include <stddef.h>
#include "core/error.h"

/* X(name, word): people see the word, and JSON uses it. */
#define GS_MEMORY_KINDS_TABLE(X)                                                                             \
    X(GS_MEMORY_WEIGHTS, "weights")         /* the parameters */                                             \
    X(GS_MEMORY_GRADIENTS, "gradients")     /* of the weights, summed over the batch */                      \
    X(GS_MEMORY_OPTIMIZER, "optimizer")     /* the optimiser's vectors: momentum, or means and squares */    \
    X(GS_MEMORY_STATE, "state")             /* batch_norm's running statistics, and the sums for them */     \
    X(GS_MEMORY_ACTIVATIONS, "activations") /* y and dx of all layers, and data kept for backward */         \
    X(GS_MEMORY_WORKSPACE, "workspace")     /* scratch memory of operators */                                \
    X(GS_MEMORY_COMMUNICATION, "communication") /* copies of gradients on their way to other workers */      \
    X(GS_MEMORY_DATA, "data")                   /* samples on their way to the device */

typedef enum gs_memory_kind {
#define GS_MEMORY_NAME(name, word) name,
    GS_MEMORY_KINDS_TABLE(GS_MEMORY_NAME)
#undef GS_MEMORY_NAME
        GS_MEMORY_KINDS
} gs_memory_kind;

const char *gs_memory_word(gs_memory_kind);

/* Bytes of each kind at one moment. */
typedef struct gs_memory_use {
    double bytes[GS_MEMORY_KINDS];
} gs_memory_use;

double gs_memory_total(const gs_memory_use *);

/* Where memory is. On cpu, device memory is host memory, and everything is recorded as GS_ON_DEVICE. Offloaded memory
 * (--offload) is in a file for cpu, in host memory for cl; while part of it is also in device memory, that part is
 * recorded there, too. */
typedef enum gs_memory_place { GS_ON_DEVICE, GS_ON_HOST, GS_OFFLOADED, GS_MEMORY_PLACES } gs_memory_place;

typedef struct gs_ledger {
    pthread_mutex_t lock;
    struct gs_booking *booking; /* current allocations */
    size_t bookings, room;
    gs_memory_use now[GS_MEMORY_PLACES];
    gs_memory_use peak[GS_MEMORY_PLACES]; /* the use when its total was largest */
} gs_ledger;

void gs_ledger_create(gs_ledger *);
void gs_ledger_free(gs_ledger *);

/* Record `bytes` bytes at `memory`. gs_ledger_tail changes the kind of the last `tail` of them. GS_E_MEMORY: no memory
 * for the ledger itself. */
gs_status gs_ledger_add(gs_ledger *, gs_memory_place, gs_memory_kind, void *memory, size_t bytes);
void gs_ledger_tail(gs_ledger *, const void *memory, gs_memory_kind, size_t tail);

/* The current bytes of each kind. Any thread may call it. */
void gs_ledger_now(gs_ledger *, gs_memory_place, gs_memory_use *out);

/* The kind of the GS_OFFLOADED memory that contains this address; GS_MEMORY_KINDS: none does. (In other places an
 * address may be a handle.) */
gs_memory_kind gs_ledger_offloaded_kind(gs_ledger *, const void *address);

/* Record that the pages (4 kB) of these GS_OFFLOADED bytes are now also in device memory (if `here`), or that they no
 * longer are. Pages that also hold other bytes enter device memory but do not leave it (cpu/offload.c). */
void gs_ledger_pages(gs_ledger *, const void *memory, size_t bytes, bool here);

/* Remove freed memory. Returns its bytes; 0 if it was never recorded, which is allowed. */
size_t gs_ledger_remove(gs_ledger *, const void *memory);
