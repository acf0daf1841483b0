/* What each worker does in a step, for comm/virtual/play.h. */
#pragma once

#include "train/simulate/lists.h"
#include "train/simulate/simulate.h"

typedef struct gs_scripts {
    gs_virtual_script *script; /* [workers] */
    gs_virtual_item **item; /* [workers]: those of the scripts; the first one of each is GS_VIRTUAL_BEGIN */
    int *room;
    int workers;
    gs_lists lists;
    double forward, backward; /* seconds of a worker's compute */
    int buckets;
    double *compute; /* [workers]: seconds */
    double formula;  /* seconds of the sums of gradients, by the scheme's formula; NAN: there is none */
} gs_scripts;

/* *out is to be freed in any case. The simulation is settled. GS_E_USAGE: the layout does not fit the model. */
gs_status gs_scripts_create(const gs_simulation *, const gs_simulated_work *, gs_scripts *out);
void gs_scripts_free(gs_scripts *);

/* ---- used by scripts.c and scripts_*.c ---- */

/* One more item of a worker; compute: it is counted as that. */
gs_status gs_scripts_add(gs_scripts *, int rank, gs_virtual_item, bool compute);
static inline gs_virtual_item gs_item_pass(double seconds, gs_simulated_kind kind) {
    return (gs_virtual_item){.what = GS_VIRTUAL_PASS, .seconds = seconds, .kind = (int)kind};
}

gs_virtual_item gs_item_work(double seconds, gs_simulated_kind);

/* Workers base + i * stride, i < size, do what the key says; the lists are those of a group of that size. */
typedef struct gs_sim_group {
    int base, stride, size;
} gs_sim_group;
gs_status gs_scripts_add_sum(gs_scripts *, const gs_sim_group *, int place, const gs_lists_key *);

/* The whole forward, and then the whole backward. */
gs_status gs_scripts_add_compute(gs_scripts *, int rank);

/* --zero: the rest of the step, for all workers. */
gs_status gs_scripts_add_zero(gs_scripts *, const gs_simulation *, const gs_simulated_work *, int stage);

/* --layout with pp: the rest of the step, for all workers. */
gs_status gs_scripts_add_pipeline(gs_scripts *, const gs_simulation *, const gs_simulated_work *,
                                  const gs_layout *);
