/* Lesson 17: the functions of lab.c. There are p stages, 0 .. p-1, and m micro-batches, 0 .. m-1.
 *
 * A *pass* is a micro-batch through the layers of a stage, forward or backward. An *instruction* is one thing that a
 * stage does: a pass, or a message to a stage beside it or from one. Of parallel/schedule.h you need
 *
 *     GS_DO_RECV_ACTIVATION, GS_DO_SEND_ACTIVATION    what goes into a forward pass; what comes out of it
 *     GS_DO_RECV_GRADIENT, GS_DO_SEND_GRADIENT        the same of a backward pass
 *     GS_DO_FORWARD, GS_DO_BACKWARD                   the pass itself
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "parallel/schedule.h"

/* One more instruction at the end of a list. peer: of a message, the stage that it goes to or comes from; else 0. (What
 * does not fit is only counted, and the check tells you so.) */
static inline void then(gs_instructions *l, gs_action action, int micro_batch, int peer) {
    if (l->count < l->room) l->list[l->count] = (gs_instruction){action, micro_batch, 0, peer};
    l->count++;
}

/* Task 17.1. The instructions of one pass of micro-batch k through stage s, in their order. The first stage takes its
 * samples from the loader, and the last one begins backward by itself, from its loss: no message is needed for these.
 * Nobody wants the gradient of the samples. With p = 1 there is no message at all. */
void stage_forward(gs_instructions *, int p, int s, int k);
void stage_backward(gs_instructions *, int p, int s, int k);

typedef struct pass {
    bool backward;
    int micro_batch;
} pass;

typedef struct passes {
    pass *list;
    size_t count, room;
} passes;

/* One more pass at the end of a list. */
static inline void then_forward(passes *l, int micro_batch) {
    if (l->count < l->room) l->list[l->count] = (pass){false, micro_batch};
    l->count++;
}

static inline void then_backward(passes *l, int micro_batch) {
    if (l->count < l->room) l->list[l->count] = (pass){true, micro_batch};
    l->count++;
}

/* Tasks 17.2 and 17.3. The passes of stage s in one step: each micro-batch once forward and once backward. Both ways
 * they come in the order 0, 1, 2, ...
 *
 * 17.2: GPipe: all forward, then all backward.
 *
 * 17.3: 1F1B: the whole pipeline is ready as early as in GPipe, whatever a forward and a backward pass take, as long as
 * they take the same in all stages. But no more than p - s micro-batches are ever alive in stage s: they have been
 * forward there, and not yet backward. */
void gpipe(passes *, int p, int m, int s);
void one_forward_one_backward(passes *, int p, int m, int s);

/* Task 17.4. The passes of all stages on a clock that begins at 0: lists[s] are those of stage s, each with a
 * micro-batch below m. In stage s a forward pass takes forward[s], a backward pass backward[s]; a message takes no
 * time. A stage makes its passes one after another, in the order of its list, each as soon as it can:
 *
 *     a forward pass      needs the same micro-batch to have been forward in stage s - 1; in stage 0 nothing
 *     a backward pass     needs it to have been backward in stage s + 1; in the last stage, to have been forward here
 *
 * Write into end[pass_index(m, s, backward, k)] when that pass of micro-batch k in stage s has ended; -1 if it never
 * ends, or is in no list. (lab.c begins with -1 everywhere.) Returns when the last pass of all has ended; -1 if some of
 * the passes in the lists wait forever (a deadlock). No list has a pass twice. p <= MOST_STAGES. */
enum { MOST_STAGES = 16 };
double pipeline_time(int p, int m, const passes *lists, const double *forward, const double *backward,
                     double *end);

/* The place of a pass in `end`, which has room for 2 p m numbers. */
static inline size_t pass_index(int m, int s, bool backward, int micro_batch) {
    return ((size_t)s * 2 + backward) * (size_t)m + (size_t)micro_batch;
}

/* Task 17.5. A batch of `batch` samples is cut into m equal micro-batches; so m must divide it. Return the smallest m
 * with which, if all stages take the same time,
 *
 *     stages wait for at most `bubble` of the time of a step: a share, 0.1 is 10 %
 *     and stage 0 never holds the activations of more than `samples` samples at once
 *
 * in 1F1B, or in GPipe. 0: there is no such m. */
int fewest_micro_batches(bool is_1f1b, int p, int batch, double bubble, int samples);

/* Task 17.6. Cut `layers` layers into p runs of neighbours, none of them empty: stage s gets the layers first[s] ..
 * first[s + 1] - 1. So first[0] is 0 and first[p] is `layers`. Layer i takes seconds[i]; the slowest stage must be as
 * fast as it can be. Where several cuts are equally good, any of them is right. 1 <= p <= layers <= MOST_LAYERS. */
enum { MOST_LAYERS = 32 };
void cut_layers(int layers, const double *seconds, int p, int *first);
