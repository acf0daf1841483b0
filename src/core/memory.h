/* Memory: the amount this process has used, and copies between cores. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The largest resident memory of this process so far, in bytes; 0: unknown. (getrusage's value survives exec: a small
 * program started by a large one would report the large one's peak.) */
double gs_peak_memory(void);

/* Makes room for one more element in a growing array. `array` is the address of the array's pointer. The array holds
 * `used` elements of `size` bytes and has room for *room. If it is full, the room doubles. False: no memory; nothing
 * has changed. */
bool gs_grow(void *array, size_t used, size_t *room, size_t size);

/* memcpy for values sent from one worker to another; source and target must not overlap.
 *
 * The C library copies blocks of 4 KiB to about 100 KiB with one instruction, `rep movsb`. On AMD's Zen 3 and Zen 4 it
 * runs at 3 GB/s instead of 30 if the target begins 1 to 63 bytes further into its page than the source does into its
 * own. This happens between a page-aligned staging buffer and an array from malloc, which begins 16 bytes into its
 * page. So gs_copy copies in short pieces, for which memcpy uses vector instructions.
 *
 * Source: glibc bug 30994, "REP MOVSB performance suffers from page aliasing on Zen 4". */
void gs_copy(void *restrict to, const void *restrict from, size_t bytes);
