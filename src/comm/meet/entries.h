/* The pairs that a store holds (store_server.h), in the order in which they came. Each has a number, which stays.
 *
 * A run may start its ranks a thousand times at one store, each time in a corner of its own: "2/rank-1"
 * (gs_rendezvous.attempt). When the first entry of attempt K comes, those of the attempts before K - 1 are forgotten:
 * their ranks have ended. What the launches say to each other ("launch/...") is kept, for one that comes again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct gs_entry {
    char *pair; /* key, 0, value, 0 */
    size_t bytes;
    long number;
} gs_entry;

typedef struct gs_entries {
    gs_entry *entry;            /* [count] */
    int count, places, attempt; /* attempt: the latest */
    long next;                  /* number */
} gs_entries;

/* The value of this key; NULL: there is none. */
const char *gs_entries_find(const gs_entries *, const char *key);

/* False: no memory. */
bool gs_entries_add(gs_entries *, const char *key, const char *value);

/* The first one from this number on; NULL: there is none. */
const gs_entry *gs_entries_from(const gs_entries *, long number);

void gs_entries_free(gs_entries *);
