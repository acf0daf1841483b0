/* What failures cost a run that writes checkpoints: the expected time, and the best time between two checkpoints.
 *
 *     | work, tau | checkpoint, delta | work, tau | ch  X  restart, R | work, tau | checkpoint, delta | ...
 *                                        a failure: what was done since the last checkpoint is done again
 *
 * Failures come with a constant rate: one of M seconds is expected between two of a cluster, M = mtbf / hosts. With
 * W seconds of work:
 *
 *     expected time    M e^(R/M) (e^((tau + delta)/M) - 1) W / tau                 (Daly 2006, eq. 13)
 *     Young's optimum  tau = sqrt(2 delta M)
 *     Daly's optimum   tau = sqrt(2 delta M) (1 + sqrt(delta/2M)/3 + delta/2M/9) - delta    for delta < 2 M, else M
 *
 * Beside the formula runs are drawn, failure by failure, from the seed. They end with their work, without a last
 * checkpoint; the formula counts one.
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
    double work;                /* seconds that the run takes without failures and checkpoints */
    double checkpoint, restart; /* seconds */
    double every;               /* seconds of work between two checkpoints; 0: Daly's optimum */
    uint64_t seed;
} gs_failures;

typedef struct gs_failures_cost {
    double mtbf; /* of the cluster */
    double every, young, daly;
    double expected, expected_young, expected_daly; /* seconds, by the formula */
    double drawn, least, most; /* of the drawn runs: the mean, the extremes; NAN: they would take too long */
    int runs;
} gs_failures_cost;

/* The formulas above, for a cluster that fails every `mtbf` seconds: the expected time, with `every` seconds of work
 * between two checkpoints; Daly's optimum (interval.c). */
double gs_failures_time(const gs_failures *, double mtbf, double every);
double gs_failures_daly(double checkpoint, double mtbf);

/* All numbers are above 0, those of `restart` and `every` not below. GS_E_USAGE: no checkpoint would ever be
 * reached. */
gs_status gs_failures_expect(const gs_failures *, gs_failures_cost *out);
