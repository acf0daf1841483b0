/* layer_norm, for layer_norm.c and for the version that sees only some tokens of a sequence (parallel/layer_norm.c). */
#pragma once

#include "layer/make.h"

typedef struct gs_norm {
    gs_layer base;     /* its parameters: the enum below */
    gs_mem mean, rstd; /* for each vector: mean, 1 / sqrt(var + eps) */
} gs_norm;

enum { GS_NORM_WEIGHT, GS_NORM_BIAS };
