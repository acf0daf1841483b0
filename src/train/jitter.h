/* --jitter 3:20ms@5%: worker 3 pauses 20 ms in 5 % of its steps. These are hiccups, as of a machine that does something
 * else sometimes. (A worker that is late in every step is --slow.)
 *
 * Which steps these are is drawn from the seed, the worker and the step, so it is the same in every run, however many
 * workers there are and however they wait for each other.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GS_PAUSES = 8, GS_JITTER_TEXT = 768 /* bytes of any as text */ };

typedef struct gs_pause {
    int rank;
    double seconds; /* above 0, at most 1000 */
    double share;   /* of the steps: above 0, at most 1 */
} gs_pause;

/* Each rank at most once; a count of 0: nobody pauses. */
typedef struct gs_jitter {
    int count;
    gs_pause pause[GS_PAUSES];
} gs_jitter;

/* "3:20ms@5%", and several with commas between: RANK:TIME@SHARE%, the time in us, ms or s. False: it is not. */
bool gs_jitter_read(const char *text, gs_jitter *);

/* The same as text; "none" where nobody pauses. Returns `text`. */
const char *gs_jitter_text(const gs_jitter *, char *text, size_t size);

/* Seconds that worker `rank` pauses in step `step`, from 0; mostly 0. */
double gs_jitter_seconds(const gs_jitter *, uint64_t seed, int rank, uint64_t step);
