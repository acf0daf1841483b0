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

/* A collective of so many floats, each rank's own for GS_ALL_GATHER. No floats, no collective, except GS_BARRIER. */
gs_status gs_scripts_add_call(gs_scripts *, const gs_sim_group *, int place, gs_operation, size_t count);

/* The key of a sum by --sync, among so many workers. */
gs_status gs_scripts_sum_key(const gs_simulation *, gs_sync_array, int ranks, gs_lists_key *out);

/* The whole forward, and then the whole backward. */
gs_status gs_scripts_add_compute(gs_scripts *, int rank);

/* What the step of a layout is made from. */
typedef struct gs_sim_step {
    const gs_simulation *sim;
    const gs_simulated_work *work;
    gs_layout layout;
    const gs_model *part; /* of the model, that the first of a tensor group has; without groups all of it */
} gs_sim_step;

/* --pipeline, --zero without it, and --tensor without both: the rest of the step, for all workers. */
gs_status gs_scripts_add_pipeline(gs_scripts *, const gs_sim_step *);
gs_status gs_scripts_add_zero(gs_scripts *, const gs_sim_step *);
gs_status gs_scripts_add_tensor(gs_scripts *, const gs_sim_step *);

/* ---- scripts_tensor.c: with tp, in each of these ---- */

/* A layer of the outermost sequence in one direction. */
typedef struct gs_sim_pass {
    int layer;
    bool backward;
    double samples, times; /* times: `samples` over those of work->samples */
} gs_sim_pass;

/* The worker's part of a layer, with the sums in its group; of all layers, and all samples of a replica. */
gs_status gs_scripts_add_part(gs_scripts *, const gs_sim_step *, int rank, const gs_sim_pass *);
gs_status gs_scripts_add_parts(gs_scripts *, const gs_sim_step *, int rank);
gs_sim_pass gs_sim_pass_of(const gs_sim_step *, int layer, bool backward);

/* The group tells each other who wishes to stop; without a group nothing. */
gs_status gs_scripts_add_wishes(gs_scripts *, const gs_sim_step *, int rank);

/* The workers that have the same part in a stage, by replica. */
static inline gs_sim_group gs_sim_beside(const gs_layout *l, int stage, int part) {
    return (gs_sim_group){stage * l->dp * l->tp + part, l->tp, l->dp};
}
