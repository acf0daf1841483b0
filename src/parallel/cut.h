/* Cuts a model into runs of layers, one for each chunk of each pipeline stage.
 *
 * Cuts lie between children of the outermost sequence, and only before a child with parameters. A relu, pooling or
 * dropout thus stays with the layer before it, so that one operator can still compute both (layer/sequential.c). The
 * best cut minimizes the cost of the most expensive run and, among equals, has the longest first runs. A layer's cost
 * is either measured (predict/times.h) or its FLOPs per sample, forward and backward. FLOPs ignore memory traffic: in
 * resnet20 a block of the first third takes about 1.15 times as long as a block of the last, with the same FLOPs.
 */
#pragma once

#include "layer/pass.h"

enum { GS_RUNS = 256 /* maximum number of runs */, GS_CUT_TEXT = 8 * GS_RUNS };

/* A table that serves as the weight of two layers in different runs (layer/tied.c). */
typedef struct gs_tied_runs {
    const gs_param *table; /* part of the net; NULL: the net has none */
    int lender, borrower;  /* the runs that contain these layers */
} gs_tied_runs;

/* Cut net into runs: run r contains the children first[r] .. first[r + 1] - 1; `first` has room for runs + 1. how: the
 * value of --pipeline-cut: "3,6" for runs that begin at layers 0, 3 and 6; any other text cuts by FLOPs. cost:
 * [children], the cost of each child, used instead of `how` unless it is NULL. GS_E_USAGE: there are too few layers
 * with parameters or more than GS_RUNS runs, or the cut is impossible. */
gs_status gs_pipeline_cut(const gs_layer *net, const char *how, const double *cost, int runs, int *first);

/* GS_E_USAGE: `how` is neither "measured" nor "flops" nor a list of numbers. NULL means "measured". */
gs_status gs_pipeline_cut_check(const char *how);
static inline bool gs_pipeline_is_measured(const char *how) {
    return !how || strcmp(how, "measured") == 0;
}

/* The cut as a list: "3,6". */
const char *gs_pipeline_cut_text(int runs, const int *first, char text[GS_CUT_TEXT]);

/* The result of a measured cut. */
typedef struct gs_cut_report {
    int runs;                                   /* 0: nothing was measured */
    int first[GS_RUNS + 1];                     /* as in gs_pipeline_cut */
    size_t samples;                             /* in the measured micro-batch */
    double forward[GS_RUNS], backward[GS_RUNS]; /* seconds that each run takes for this micro-batch */
} gs_cut_report;

/* cost[i] = child i's FLOPs per sample, forward and backward. */
void gs_pipeline_flops(const gs_layer *net, double *cost);

/* Find the table shared by two runs. GS_E_USAGE: they are not the first and the last run. */
gs_status gs_pipeline_tied(gs_layer *net, int runs, const int *first, gs_tied_runs *out);
