/* Where a model is cut into runs of layers, one for each chunk of each stage of a pipeline.
 *
 * Only between children of the outermost sequence, and only before one that has parameters: a relu, a pooling or a
 * dropout stays with the layer before it, so that what one operator can do together stays so (layer/sequential.c). Of
 * all cuts that is taken whose most expensive run is cheapest; of several with the same, the one with the longest first
 * runs. What a layer costs is measured (predict/times.h), or counted: the FLOPs of a sample, forward and backward. A
 * byte that must be moved is not a FLOP, so these differ: of resnet20 a block of the first third takes about 1.15 times
 * as long as one of the last, for the same FLOPs.
 */
#pragma once

#include <string.h>
#include "layer/pass.h"

enum { GS_RUNS = 256 /* at most */, GS_CUT_TEXT = 8 * GS_RUNS };

/* A table that is the weight of two layers in different runs (layer/tied.c). */
typedef struct gs_tied_runs {
    const gs_param *table; /* of the net; NULL: there is none */
    int lender, borrower;  /* runs */
} gs_tied_runs;

/* Run r has the children first[r] .. first[r + 1] - 1 of net; `first` has room for runs + 1. how: as
 * --pipeline-cut has it, "3,6" for runs that begin at layers 0, 3 and 6; else, and where it is yet to be measured, by
 * FLOPs. cost: what each child costs, [children], instead of `how`; or NULL. GS_E_USAGE: there are not so many layers
 * with parameters, or more than GS_RUNS are wanted; or no such cut is possible. */
gs_status gs_pipeline_cut(const gs_layer *net, const char *how, const double *cost, int runs, int *first);

/* GS_E_USAGE: not measured, flops, or a list of numbers. how NULL: measured. */
gs_status gs_pipeline_cut_check(const char *how);
static inline bool gs_pipeline_is_measured(const char *how) {
    return !how || strcmp(how, "measured") == 0;
}

/* As a list: "3,6". */
const char *gs_pipeline_cut_text(int runs, const int *first, char text[GS_CUT_TEXT]);

/* A cut that was measured. */
typedef struct gs_cut_report {
    int runs;                                   /* 0: nothing was measured */
    int first[GS_RUNS + 1];                     /* as above */
    size_t samples;                             /* in the micro-batch that was measured */
    double forward[GS_RUNS], backward[GS_RUNS]; /* seconds that each run takes for it */
} gs_cut_report;

/* The slices of which runs are made: slice i has the children point[i] .. point[i + 1] - 1. point: room for children +
 * 2. Returns how many they are. */
int gs_pipeline_cut_points(const gs_layer *net, int *point);

/* cost[children]: FLOPs of a sample, forward and backward. */
void gs_pipeline_flops(const gs_layer *net, double *cost);

/* GS_E_USAGE: such a table is used by another run than the first and the last one. */
gs_status gs_pipeline_tied(gs_layer *net, int runs, const int *first, gs_tied_runs *out);
