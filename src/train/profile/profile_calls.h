/* What the workers of a layout send each other in a step, and how much of the time of that lies behind their layers:
 * `gradsum profile --zero 2`, `--layout tp2`. A run makes a few steps, of which the last ones are traced
 * (train/timeline/timeline.h).
 *
 *     worker     layer 2  | layer 1 |    waits    | layer 0 | other sums | update
 *     its thread          |    scatters 2   | scatters 1    |
 *                         <- hidden -> shown        shown
 *
 * A call that the worker makes itself is not hidden: it does nothing else meanwhile. A call of a thread beside it, as
 * ZeRO's stages 2 and 3 have one, is hidden as long as the worker computes a layer.
 */
#pragma once

#include "train/timeline/timeline.h"

typedef enum gs_profile_act {
    GS_PROFILE_GATHERS,  /* ZeRO: all-gathers of weights, */
    GS_PROFILE_SCATTERS, /* reduce-scatters of gradients */
    GS_PROFILE_GROUP,    /* calls of a tensor group, within its layers */
    GS_PROFILE_MESSAGES, /* between stages, or of a scheme; a receiver's include its wait */
    GS_PROFILE_OTHERS, /* whatever else a worker does between backward and the next step but update: sums, waits */
    GS_PROFILE_ACTS
} gs_profile_act;

extern const char *const gs_profile_act_names[GS_PROFILE_ACTS];

/* All of one step, and the mean of the workers. */
typedef struct gs_profile_calls {
    int workers, steps; /* steps: that were traced */
    double step;        /* seconds; */
    double layers;      /* of it in layers, a group's calls included */
    struct {
        double calls, seconds, bytes; /* bytes: sent by a worker */
        double hidden;                /* seconds behind layers */
    } act[GS_PROFILE_ACTS];
} gs_profile_calls;

/* Of a timeline with so many steps. GS_E_MEMORY. */
gs_status gs_profile_calls_count(const gs_timeline_part *, int workers, int steps, gs_profile_calls *out);

/* Make a run of settings->devices, whose layout is settled. Fails as gs_train would. */
gs_status gs_profile_calls_run(const gs_settings *, gs_profile_calls *out);
