/* A layout: how the workers of a run share the work, in one word.
 *
 *     --layout dp2,pp4,zero1
 *
 *     dpN      N replicas (data parallel): each has a part of the batch
 *     tpN      N parts of each pair of linear layers, as --tensor N
 *     ppN      N stages of the model, as --pipeline N
 *     zeroN    what the replicas hold alike is divided, as --zero N
 *
 * The terms come in any order, each at most once. One that is left out is dp1, tp1, pp1 or zero0. The run has dp x tp x
 * pp workers, no more and no less. Neighbouring ranks are those that talk most: rank = (stage x dp + replica) x tp +
 * part, so with dp2,pp2
 *
 *                replica 0   replica 1
 *     stage 0     worker 0    worker 1      a step's activations go down a column,
 *     stage 1     worker 2    worker 3      and gradients are summed along a row
 */
#pragma once

#include "core/error.h"

#include <stddef.h>

struct gs_settings;

enum { GS_LAYOUT_WORKERS = 4096, GS_LAYOUT_STAGES = 64, GS_LAYOUT_ZERO = 3 }; /* at most */

typedef struct gs_layout {
    int dp, tp, pp, zero;
} gs_layout;

/* GS_E_USAGE: a term that is none, is there twice, or is out of its range: 1 to 4096, of tp and pp 64, of
 * zero 0 to 3. */
gs_status gs_layout_read(const char *text, gs_layout *out);

/* "dp2,pp4,zero1": what is 1, or zero 0, is left out, except for a lone "dp1". */
enum { GS_LAYOUT_TEXT = 64 };
const char *gs_layout_text(const gs_layout *, char text[GS_LAYOUT_TEXT]);

/* Settings that name a layout get its pipeline, tensor and zero. Doing it twice changes nothing. GS_E_USAGE: as
 * gs_layout_read; or they have another --pipeline, --tensor or --zero already. */
gs_status gs_layout_settle(struct gs_settings *);

/* The layout that settings, settled, give so many workers. */
gs_layout gs_layout_of(const struct gs_settings *, int workers);

/* GS_E_USAGE: settings->layout is for another number of workers. */
gs_status gs_layout_check_workers(const struct gs_settings *, int workers, const char *options);

/* Where a worker is. */
typedef struct gs_place {
    int replica, part, stage;
} gs_place;

gs_place gs_place_of(const gs_layout *, int rank);
int gs_rank_at(const gs_layout *, gs_place);
