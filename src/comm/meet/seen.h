/* The keys that a store has shown to one who looks again and again: each is to be shown once. Only for src/comm/meet/.
 *
 * A table with open addressing, at most half full: a key is at the first place from hash(key) on that is its own, or
 * free. Source: Knuth, The Art of Computer Programming 3, 6.4, algorithm L; the hash is FNV-1a (Fowler, Noll, Vo).
 */
#pragma once

#include "comm/meet/store.h"

typedef struct gs_seen {
    char (*key)[GS_STORE_KEY]; /* [places]; "": free */
    size_t count, places;      /* places: 0, or a power of two */
} gs_seen;

bool gs_seen_has(const gs_seen *, const char *key);

/* A key that is not there, of less than GS_STORE_KEY bytes. False: no memory. */
bool gs_seen_add(gs_seen *, const char *key);

void gs_seen_free(gs_seen *);
