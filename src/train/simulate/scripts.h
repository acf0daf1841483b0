/* What each worker does in a step, for comm/virtual/play.h: what a rehearsal of its stage and its part has written down
 * (train/rehearsal.h), with seconds, and with the ranks that it is among. The replicas of a part do the same as the
 * first one, which has as many samples as any.
 */
#pragma once

#include "train/simulate/lists.h"
#include "train/simulate/simulate.h"

typedef struct gs_scripts {
    gs_virtual_script *script; /* [workers] */
    gs_virtual_item **item; /* [workers]: those of the scripts; the first one of each is GS_VIRTUAL_BEGIN */
    int *room;
    int workers;
    gs_lists lists;
    int buckets;
    double *compute; /* [workers]: seconds */
    double formula;  /* seconds of the sums of gradients, by the scheme's formula; NAN: there is none */
} gs_scripts;

/* *out is to be freed in any case. The simulation is settled. GS_E_USAGE: the layout does not fit the model. */
gs_status gs_scripts_create(const gs_simulation *, const gs_simulated_work *, gs_scripts *out);
void gs_scripts_free(gs_scripts *);
