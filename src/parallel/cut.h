/* Where a model is cut into runs of layers, one for each chunk of each stage of a pipeline.
 *
 * A cut lies between children of the outermost sequence, before one with parameters: a relu, a pooling or a dropout
 * stays with the layer before it, so that one operator can still compute both (layer/sequential.c). The best cut
 * minimizes the cost of the most expensive run; among equal cuts, the first runs are the longest. The cost of a layer
 * is measured (predict/times.h), or counted: the FLOPs of a sample, forward and backward. FLOPs ignore the bytes that
 * are moved: in resnet20 a block of the first third takes about 1.15 times as long as one of the last, for the same
 * FLOPs.
 */
#pragma once

#include <string.h>
#include "layer/pass.h"

enum { GS_RUNS = 256 /* at most */, GS_CUT_TEXT = 8 * GS_RUNS };

/* A table that is the weight of two layers in different runs (layer/tied.c). */
typedef struct gs_tied_runs {
    const gs_param *table; /* of the net; NULL: the net has none */
    int lender, borrower;  /* runs */
} gs_tied_runs;

/* Cut net into runs: run r has the children first[r] .. first[r + 1] - 1; `first` has room for runs + 1. how: the text
 * of --pipeline-cut, "3,6" for runs that begin at layers 0, 3 and 6; any other text cuts by FLOPs. cost: the cost of
 * each child, [children], which then decides instead of `how`; or NULL. GS_E_USAGE: too few layers with parameters,
 * more than GS_RUNS runs, or an impossible cut. */
gs_status gs_pipeline_cut(const gs_layer *net, const char *how, const double *cost, int runs, int *first);

/* GS_E_USAGE: `how` is not measured, flops or a list of numbers. NULL means measured. */
gs_status gs_pipeline_cut_check(const char *how);
static inline bool gs_pipeline_is_measured(const char *how) {
    return !how || strcmp(how, "measured") == 0;
}

/* The list of a cut: "3,6". */
const char *gs_pipeline_cut_text(int runs, const int *first, char text[GS_CUT_TEXT]);

/* A cut that was measured. */
typedef struct gs_cut_report {
    int runs;                                   /* 0: nothing was measured */
    int first[GS_RUNS + 1];                     /* as above */
    size_t samples;                             /* in the micro-batch that was measured */
    double forward[GS_RUNS], backward[GS_RUNS]; /* seconds of each run for it */
} gs_cut_report;

/* cost[i] = the FLOPs of child i for a sample, forward and backward. */
void gs_pipeline_flops(const gs_layer *net, double *cost);

/* Find the table that two runs use. GS_E_USAGE: they are not the first and the last one. */
gs_status gs_pipeline_tied(gs_layer *net, int runs, const int *first, gs_tied_runs *out);
