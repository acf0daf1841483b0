/* A sample's shape. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "core/api.h"

/* The shape of one sample: t tokens, each with c channels of h x w. In memory: x[t][c][h][w]. An image has no tokens:
 * {1, 28, 28, 0}, where 0 says the same as 1. A vector of k numbers is {k, 1, 1, 0}; t vectors are {k, 1, 1, t}. */
typedef struct gs_shape {
    int c, h, w, t;
} gs_shape;

/* How many tokens; 1 without that dimension. */
static inline int gs_shape_tokens(gs_shape s) {
    return s.t > 1 ? s.t : 1;
}

/* How many numbers. */
static inline size_t gs_shape_size(gs_shape s) {
    return (size_t)gs_shape_tokens(s) * (size_t)s.c * (size_t)s.h * (size_t)s.w;
}

static inline bool gs_shape_same(gs_shape a, gs_shape b) {
    return a.c == b.c && a.h == b.h && a.w == b.w && gs_shape_tokens(a) == gs_shape_tokens(b);
}

enum { GS_SHAPE_MOST = 0x7fffffff /* numbers in a sample: places in it are found with int arithmetic */ };

/* Each size at least 1; t at least 0. And: at most GS_SHAPE_MOST numbers. */
bool gs_shape_is_positive(gs_shape);
bool gs_shape_fits(gs_shape);

/* As a text that lives to the end of the statement: "(1,28,28)" and "1x28x28"; with tokens, "(7,1,28,28)" and
 * "7x1x28x28". */
typedef struct gs_shape_text {
    char text[64];
} gs_shape_text;
GS_API gs_shape_text gs_shape_tuple(gs_shape);
gs_shape_text gs_shape_product(gs_shape);

/* "1x28x28", or with tokens "7x1x28x28" -> the shape. False: it is neither, or a size is not in 1 .. INT_MAX. */
bool gs_shape_parse(const char *text, gs_shape *out);
