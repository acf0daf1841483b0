/* The layer_norm, for layer_norm.c and for the one with some tokens of each sequence (parallel/layer_norm.c). */
#pragma once

#include "layer/make.h"

typedef struct gs_norm {
    gs_layer base;     /* its parameters: */
    gs_mem mean, rstd; /* of each vector: mean, 1 / sqrt(var + eps) */
} gs_norm;

enum { GS_NORM_WEIGHT, GS_NORM_BIAS };
