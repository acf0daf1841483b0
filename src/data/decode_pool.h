/* Threads that help with loops: --loaders N. Whoever calls works too, so a pool of N has N - 1 threads of its own; with
 * one, everything is done where it is asked for. Several threads may call at once: helpers go to whoever has work left.
 */
#pragma once

#include <stddef.h>
#include "core/error.h"

typedef struct gs_decode_pool gs_decode_pool;

/* What each thread needs for itself, such as a decoder. */
typedef struct gs_decode_pool_tools {
    gs_status (*create)(void **tools);
    void (*free)(void *tools);
} gs_decode_pool_tools;

gs_status gs_decode_pool_create(int threads, gs_decode_pool_tools, gs_decode_pool **out); /* GS_E_MEMORY */
void gs_decode_pool_free(gs_decode_pool *);

/* work(context, tools, i) for each i < n, in any order. A failure ends the loop early; of several, the one with the
 * smallest i is returned, with its message. So the result does not depend on the number of threads. */
gs_status gs_decode_pool_do(gs_decode_pool *, size_t n,
                            gs_status (*work)(void *context, void *tools, size_t i), void *context);
