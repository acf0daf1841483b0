/* The search for the fastest tiles of products and convolutions on an OpenCL device: `gradsum tune`. */
#pragma once

#include <stdbool.h>
#include "core/error.h"

/* What is measured: y = x w^T + b, dx = dy w and dw += dy^T x of a linear layer, and a convolution, forward and
 * backward. */
enum { GS_TUNE_FORWARD, GS_TUNE_DX, GS_TUNE_DW, GS_TUNE_CONV2D, GS_TUNE_CASES };

/* One candidate. */
typedef struct gs_tune_row {
    char tiles[80];               /* as GRADSUM_CL_TILES takes them */
    bool correct;                 /* its results are those of the cpu backend, within rounding */
    double gflops[GS_TUNE_CASES]; /* if it is correct */
    double score;                 /* their geometric mean */
    char note[200];               /* why it is not correct */
} gs_tune_row;

typedef struct gs_tune_result {
    char device[160];          /* its own name */
    double peak_gflops;        /* of a loop of multiply-adds in registers, measured in this run */
    double peak_gb_s;          /* of y = a + 2 b on 3 x 32 MB, bytes read and written */
    double sgemm_gflops[2][2]; /* size 512 and 1024; with the tiles before, and with the best ones */
    int candidates, correct;
    gs_tune_row before, best; /* the tiles in use, and the fastest; measured alternately if they differ */
    bool faster; /* the mean of all figures is higher with the best than before, or they are the same tiles */
    bool kept;   /* if so: the best is in the user's cache directory, and will be used from now on */
} gs_tune_result;

/* Try candidates, the default ones first, for about `seconds` (at least one is tried). `row` (if not NULL) is called
 * for each, and ends the search where it returns false: GS_E_INTERRUPTED, and nothing is kept. The fastest is then
 * measured alternately with the tiles in use, and kept only if it is faster: a single measurement would favour
 * whichever was lucky. GS_E_USAGE, GS_E_DEVICE: not an OpenCL device. GS_E_OPENCL: no candidate is correct. */
gs_status gs_tune(const char *device, double seconds, bool (*row)(void *context, const gs_tune_row *),
                  void *context, gs_tune_result *out);
