/* Memory: how much of it this process has used, and how it is copied between cores. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The largest resident memory of this process so far, in bytes. Not getrusage's figure, which survives exec: a small
 * program started by a large one would report that of the large one. */
double gs_peak_memory(void);

/* Room for one more element of an array that grows. `array` is the address of the pointer to it; it has `used` elements
 * of `size` bytes, and room for *room. Where it is full, the room doubles. False: no memory; nothing has changed. */
bool gs_grow(void *array, size_t used, size_t *room, size_t size);

/* memcpy, for values that go from one worker to another: the two must not overlap.
 *
 * The C library copies 4 KiB to some 100 KiB with one instruction, `rep movsb`. On AMD's Zen 3 and Zen 4 that runs at
 * 3 GB/s instead of 30 if the target lies 1 to 63 bytes further into its page than the source does. That is just what
 * happens between a page-aligned stage and an array from malloc, which begins 16 bytes into its page. Short pieces are
 * copied with vector instructions instead.
 *
 * Source: glibc bug 30994, "REP MOVSB performance suffers from page aliasing on Zen 4". */
void gs_copy(void *restrict to, const void *restrict from, size_t bytes);
