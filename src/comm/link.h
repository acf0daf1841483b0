/* A slow link between workers, as a model: gs_comm_linked_create (comm.h) slows real messages by it.
 *
 * Every worker has one line out and one line in, as if it were alone on a machine with one cable to a switch. A message
 * of b bytes takes
 *
 *     alpha + beta b        alpha: the latency; beta = 1 / bandwidth
 *
 * For beta b of that it occupies its sender's line out, and for as long, alpha later, its receiver's line in. A line
 * carries one message at a time; the others queue. Latencies overlap. So with N ranks, 3 of them shown:
 *
 *     rank 0 sends to 1, 2             rank 0 receives from 1, 2
 *
 *     0 out  |--to 1--|--to 2--|       1 out  |--------|
 *     1 in     alpha  |--------|       2 out  |--------|
 *     2 in              alpha  |----   0 in     alpha  |-from 1-|-from 2-|
 *
 *     time   alpha + (N-1) beta b      alpha + (N-1) beta b
 *
 * That is why a parameter server is a bottleneck in both directions. The switch is none: it carries any number of
 * messages between different pairs at once.
 *
 * A line in takes messages in the order in which they reach it, whatever the order in which the receiver asks for them:
 * a message that finds a gap goes through it (gs_port).
 *
 * Hockney's model has the same alpha + beta b for one message; it says nothing of several. The formulas of
 * src/sync/ let a rank's messages follow each other, (N-1) (alpha + beta b): latencies that do not overlap. LogP and
 * LogGP separate what overlaps (L) from what does not: the time of the processor for each message (o), and the gap to
 * the next one (g). Here L = alpha, G = beta, o = g = 0; what this machine needs for a message comes on top, since the
 * messages are real.
 *
 * Sources: Hockney, "The communication challenge for MPP: Intel Paragon and Meiko CS-2" (Parallel Computing 20, 1994);
 * Culler et al., "LogP: towards a realistic model of parallel computation" (PPoPP 1993); Alexandrov, Ionescu, Schauser,
 * Scheiman, "LogGP: incorporating long messages into the LogP model" (SPAA 1995).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct gs_link {
    double latency;   /* alpha, in seconds: 0 to 10 */
    double bandwidth; /* 1 / beta, in bytes a second: 1 to 10^12; both 0: messages are not slowed */
} gs_link;

static inline bool gs_link_is_there(const gs_link *l) {
    return l->latency > 0 || l->bandwidth > 0;
}

/* "50us,125MB/s", "1ms,1Gbit/s": us, ms, s; B/s, kB/s, MB/s, GB/s, bit/s, kbit/s, Mbit/s, Gbit/s. False: it is not. */
bool gs_link_read(const char *text, gs_link *);

/* The same as text; "none" where there is none. Returns `text`. */
const char *gs_link_text(const gs_link *, char *text, size_t size);

/* ---- a line ----
 *
 * When a line is busy: one end of a link, which carries one message at a time.
 *
 *     busy          |--------|        |-----|
 *     earliest           x                        this message could come from here on, and takes ====
 *     it is taken            |====|               in the first gap that is long enough
 */

enum { GS_PORT_BUSY = 32 };

/* All zero: never busy. */
typedef struct gs_port {
    int first, count;                            /* a ring of places: it begins at `first` */
    double from[GS_PORT_BUSY], to[GS_PORT_BUSY]; /* in order, and apart */
    double before; /* what lies before this moment is forgotten, and counts as busy */
} gs_port;

/* Take the line for so many seconds, at the earliest from then on. Returns when that begins. */
double gs_port_take(gs_port *, double earliest, double seconds);

/* When it is free again, after all that it has taken. */
double gs_port_free(const gs_port *);
