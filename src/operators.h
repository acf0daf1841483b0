/* Lists of the functions of backend.h: those that move memory, and the operators. cpu/cpu.h and cl/cl.h declare their
 * functions and fill their tables from these lists. For a new operator, add its slots in backend.h, its names here
 * unless it is a row of a table in backend.h, and its files in cpu/ and cl/. cpu/plain/ has a plain loop for each of
 * GS_PLAIN_OPERATORS. */
#pragma once

#include "backend.h"

/* clang-format off */
#define GS_BOTH(X, name, forward, backward, ...) X(forward) X(backward)
#define GS_MEMORY_FUNCTIONS(X) \
    X(alloc) X(free) X(write) X(read) X(map) X(unmap) X(fill) X(copy) X(finish) X(close) \
    X(alloc_offloaded) X(free_offloaded) X(fetch) X(await) X(offload) X(settle)
#define GS_LAST(X, name, update) X(update)
#define GS_UPDATES(X) X(sgd_update) X(nesterov_update) GS_STEP_UPDATES(GS_LAST, X)
#define GS_PLAIN_OPERATORS(X) \
    X(bytes_to_float) \
    X(linear_forward) X(linear_backward) X(linear_tree_forward) X(linear_tree_backward) \
    X(conv2d_forward) X(conv2d_backward) \
    X(max_pool2d_forward) X(max_pool2d_backward) \
    X(avg_pool2d_forward) X(avg_pool2d_backward) \
    X(batch_norm_statistics) X(batch_norm_running) X(batch_norm_forward) \
    X(batch_norm_sums) X(batch_norm_backward) \
    X(layer_norm_forward) X(layer_norm_backward) \
    X(embedding_forward) X(embedding_backward) \
    X(positions_forward) X(positions_backward) \
    X(attention_forward) X(attention_backward) X(attention_cached_forward) \
    GS_ELEMENT_WISE(GS_BOTH, GS_BOTH, X) \
    X(softmax_cross_entropy_forward) X(softmax_cross_entropy_backward) \
    X(mean_squared_error_forward) X(mean_squared_error_backward) \
    X(add) X(squares) GS_UPDATES(X)
#define GS_OPERATORS(X) \
    GS_PLAIN_OPERATORS(X) \
    X(softmax_part_largest) X(softmax_part_sums) X(softmax_part_end) X(softmax_part_backward) \
    X(one_hot) X(fuses) X(dropout) X(fma_loop) X(triad) X(arithmetic)
/* clang-format on */
/* The type of the function `name`. */
#define GS_OPERATOR(name) __typeof__(*((gs_backend *)0)->name)
