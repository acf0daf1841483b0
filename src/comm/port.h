/* When a line is busy: one end of a link (link.h), which carries one message at a time. Only for src/comm/.
 *
 *     busy          |--------|        |-----|
 *     earliest           x                        this message could come from here on, and takes ====
 *     it is taken            |====|               in the first gap that is long enough
 */
#pragma once

enum { GS_PORT_BUSY = 32 };

/* All zero: never busy. */
typedef struct gs_port {
    int count;
    double from[GS_PORT_BUSY], to[GS_PORT_BUSY]; /* in order, and apart */
    double before; /* what lies before this moment is forgotten, and counts as busy */
} gs_port;

/* Take the line for so many seconds, at the earliest from then on. Returns when that begins. */
double gs_port_take(gs_port *, double earliest, double seconds);
