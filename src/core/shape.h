/* A sample's shape. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "core/api.h"

/* The shape of one sample: t tokens, each with c channels of h x w. In memory: x[t][c][h][w]. An image has no tokens:
 * {1, 28, 28, 0}, where 0 means the same as 1. A vector of k numbers is {k, 1, 1, 0}; t vectors are {k, 1, 1, t}. */
typedef struct gs_shape {
    int c, h, w, t;
} gs_shape;

/* The number of tokens; 1 if the shape has no token dimension. */
static inline int gs_shape_tokens(gs_shape s) {
    return s.t > 1 ? s.t : 1;
}

static inline size_t gs_shape_size(gs_shape s) {
    return (size_t)gs_shape_tokens(s) * (size_t)s.c * (size_t)s.h * (size_t)s.w;
}

static inline bool gs_shape_same(gs_shape a, gs_shape b) {
    return a.c == b.c && a.h == b.h && a.w == b.w && gs_shape_tokens(a) == gs_shape_tokens(b);
}

enum { GS_SHAPE_MOST = 0x7fffffff /* maximum number of elements in a sample: their indices are ints */ };

/* Is each size at least 1, and t at least 0? _fits also requires at most GS_SHAPE_MOST elements. */
bool gs_shape_is_positive(gs_shape);
bool gs_shape_fits(gs_shape);

/* A shape as text, valid until the end of the statement: "(1,28,28)" and "1x28x28"; with tokens, "(7,1,28,28)" and
 * "7x1x28x28". */
typedef struct gs_shape_text {
    char text[64];
} gs_shape_text;
GS_API gs_shape_text gs_shape_tuple(gs_shape);
gs_shape_text gs_shape_product(gs_shape);

/* "1x28x28", or with tokens "7x1x28x28" -> the shape. False if the text has another form, or a size is below 1 or above
 * INT_MAX. */
bool gs_shape_parse(const char *text, gs_shape *out);
