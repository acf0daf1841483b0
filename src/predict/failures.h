/* The cost of failures in a run that writes checkpoints: its expected time, and the best checkpoint interval.
 *
 *     | work, tau | checkpoint, delta | work, tau | ch  X  restart, R | work, tau | checkpoint, delta | ...
 *                                        a failure: work since the last checkpoint is repeated
 *
 * Failures occur at a constant rate, on average every M = mtbf / hosts seconds in the cluster. For W seconds of work:
 *
 *     expected time    M e^(R/M) (e^((tau + delta)/M) - 1) W / tau                 (Daly 2006, eq. 13)
 *     Young's optimum  tau = sqrt(2 delta M)
 *     Daly's optimum   tau = sqrt(2 delta M) (1 + sqrt(delta/2M)/3 + delta/2M/9) - delta    for delta < 2 M, else M
 *
 * Runs are also drawn at random from the seed, failure by failure. A drawn run ends when its work is done; only the
 * formula includes a final checkpoint.
 *
 * Sources: Young, "A first order approximation to the optimum checkpoint interval" (Communications of the ACM 17,
 * 1974); Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps" (Future Generation
 * Computer Systems 22, 2006).
 */
#pragma once

#include <stdint.h>

#include "core/error.h"

typedef struct gs_failures {
    double mtbf; /* mean seconds between two failures of one host */
    int hosts;
    double work;                /* seconds of a run without failures or checkpoints */
    double checkpoint, restart; /* seconds */
    double every;               /* seconds of work between two checkpoints; 0: Daly's optimum */
    uint64_t seed;
} gs_failures;

typedef struct gs_failures_cost {
    double mtbf; /* of the cluster */
    double every, young, daly;
    double expected, expected_young, expected_daly; /* seconds, by the formula */
    /* Mean, minimum and maximum of the drawn runs; NAN: drawing would take too long. */
    double drawn, least, most;
    int runs;
} gs_failures_cost;

/* The formulas above for a cluster that fails every `mtbf` seconds: the expected time with `every` seconds of work
 * between two checkpoints, and Daly's optimum. They are in interval.c, which lesson 21 replaces. */
double gs_failures_time(const gs_failures *, double mtbf, double every);
double gs_failures_daly(double checkpoint, double mtbf);

/* All inputs must be positive, except that `restart` and `every` may be 0. GS_E_USAGE: the run would hardly ever reach
 * a checkpoint. */
gs_status gs_failures_expect(const gs_failures *, gs_failures_cost *out);
