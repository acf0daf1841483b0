/* Where a model is cut into runs of layers, one for each chunk of each stage of a pipeline.
 *
 * Only between children of the outermost sequence, and only before one that has parameters: a relu, a pooling or a
 * dropout stays with the layer before it, so that what one operator can do together stays so (layer/sequential.c). The
 * costs that are balanced are counted, not measured: the FLOPs of a sample, forward and backward. Of all cuts that is
 * taken whose most expensive run is cheapest; of several with the same, the one with the longest first runs.
 */
#pragma once

#include "model/model.h"

enum { GS_RUNS = 256 /* at most */ };

/* A table that is the weight of two layers in different runs (layer/tied.c). */
typedef struct gs_tied_runs {
    const gs_param *table; /* of the plan; NULL: there is none */
    int lender, borrower;  /* runs */
} gs_tied_runs;

/* Run r has the children first[r] .. first[r + 1] - 1 of plan->net; `first` has room for runs + 1. GS_E_USAGE: there
 * are not so many layers with parameters, or more than GS_RUNS are wanted. */
gs_status gs_pipeline_cut(const gs_model *plan, int runs, int *first);

/* The FLOPs of a sample in a run, forward and backward. */
double gs_pipeline_cost(const gs_model *plan, const int *first, int run);

/* GS_E_USAGE: such a table is used by another run than the first and the last one. */
gs_status gs_pipeline_tied(const gs_model *plan, int runs, const int *first, gs_tied_runs *out);
