/* The model of a slow link between workers. gs_comm_linked_create (create.h) delays real messages according to it.
 *
 * Every worker has one outgoing and one incoming line, like a machine with one cable to a switch. A message of b bytes
 * takes
 *
 *     alpha + beta b        alpha: the latency; beta = 1 / bandwidth
 *
 * It occupies its sender's outgoing line for beta b seconds and, alpha later, its receiver's incoming line for the same
 * time. A line carries one message at a time; the others queue. Latencies overlap. With N ranks, 3 of them shown:
 *
 *     rank 0 sends to 1, 2             rank 0 receives from 1, 2
 *
 *     0 out  |--to 1--|--to 2--|       1 out  |--------|
 *     1 in     alpha  |--------|       2 out  |--------|
 *     2 in              alpha  |----   0 in     alpha  |-from 1-|-from 2-|
 *
 *     time   alpha + (N-1) beta b      alpha + (N-1) beta b
 *
 * Therefore a parameter server is a bottleneck in both directions. The switch is not: it carries any number of messages
 * between different pairs at once.
 *
 * An incoming line takes messages in the order in which they reach it, not in the order in which the receiver asks for
 * them: a message uses the first gap that is long enough (gs_port).
 *
 * Hockney's model gives alpha + beta b for one message, and says nothing about several. The formulas of src/sync/
 * assume that a rank sends its messages sequentially, in (N-1) (alpha + beta b), so that latencies do not overlap. LogP
 * and LogGP separate what overlaps (L) from what does not: the processor's time for each message (o), and the gap to
 * the next one (g). Here L = alpha, G = beta, o = g = 0; this machine's own time for each message is added.
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
    double bandwidth; /* 1 / beta, in bytes/s: 1 to 10^12. If both are 0, messages are not slowed */
} gs_link;

static inline bool gs_link_is_there(const gs_link *l) {
    return l->latency > 0 || l->bandwidth > 0;
}

/* "50us,125MB/s", "1ms,1Gbit/s": us, ms, s; B/s, kB/s, MB/s, GB/s, bit/s, kbit/s, Mbit/s, Gbit/s. False: invalid. */
bool gs_link_read(const char *text, gs_link *);

/* The link as text; "none" if there is none. Returns `text`. */
const char *gs_link_text(const gs_link *, char *text, size_t size);

/* ---- a line ----
 *
 * The times at which a line is busy:
 *
 *     busy          |--------|        |-----|
 *     earliest           x                        a message of length ==== may begin from here on
 *     it is taken            |====|               in the first gap that is long enough
 */

enum { GS_PORT_BUSY = 32 };

/* All zero: never busy. */
typedef struct gs_port {
    int first, count;                            /* a ring buffer, from `first` on */
    double from[GS_PORT_BUSY], to[GS_PORT_BUSY]; /* busy intervals, in order and disjoint */
    double before;                               /* all time before this moment counts as busy */
} gs_port;

/* Occupy the line for `seconds`, not before `earliest`. Returns when that begins. */
double gs_port_take(gs_port *, double earliest, double seconds);

/* The end of the last busy interval. */
double gs_port_free(const gs_port *);
