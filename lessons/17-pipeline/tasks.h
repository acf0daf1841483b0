/* Lesson 17: the functions of lab.c. There are p stages, 0 .. p-1, and m micro-batches, 0 .. m-1.
 *
 * A *pass* takes a micro-batch through the layers of a stage, forward or backward. An *instruction* is a pass, or a
 * message to or from a neighbouring stage. You need from parallel/schedule.h
 *
 *     GS_DO_RECV_ACTIVATION, GS_DO_SEND_ACTIVATION    the input and the output of a forward pass
 *     GS_DO_RECV_GRADIENT, GS_DO_SEND_GRADIENT        the input and the output of a backward pass
 *     GS_DO_FORWARD, GS_DO_BACKWARD                   the pass itself
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "parallel/schedule.h"

/* Appends an instruction. peer: the stage that a message goes to or comes from; 0 for a pass. An instruction that does
 * not fit is only counted, and the check says so. */
static inline void then(gs_instructions *l, gs_action action, int micro_batch, int peer) {
    if (l->count < l->room) l->list[l->count] = (gs_instruction){action, micro_batch, 0, peer};
    l->count++;
}

/* Task 17.1. The instructions of one pass of micro-batch k through stage s, in order. The first stage takes its samples
 * from the loader and the last one starts backward from its own loss, both without a message. No stage needs the
 * gradient of the samples. With p = 1 there are no messages. */
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

/* Append a pass. */
static inline void then_forward(passes *l, int micro_batch) {
    if (l->count < l->room) l->list[l->count] = (pass){false, micro_batch};
    l->count++;
}

static inline void then_backward(passes *l, int micro_batch) {
    if (l->count < l->room) l->list[l->count] = (pass){true, micro_batch};
    l->count++;
}

/* Tasks 17.2 and 17.3. The passes of stage s in one step: each micro-batch goes once forward and once backward, both in
 * the order 0, 1, 2, ...
 *
 * 17.2: GPipe: all forward, then all backward.
 *
 * 17.3: 1F1B: the whole pipeline ends as early as in GPipe, for any times of a forward and a backward pass that are the
 * same in all stages. But at most p - s micro-batches are alive in stage s at a time: they have gone forward there, but
 * not yet backward. */
void gpipe(passes *, int p, int m, int s);
void one_forward_one_backward(passes *, int p, int m, int s);

/* Task 17.4. Runs the passes of all stages on a clock that starts at 0. lists[s] holds the passes of stage s, each with
 * a micro-batch below m. In stage s a forward pass takes forward[s] and a backward pass backward[s]; a message takes no
 * time. A stage runs its passes in the order of its list, each as soon as it can:
 *
 *     a forward pass      starts after the same micro-batch's forward in stage s - 1; in stage 0 it need not wait
 *     a backward pass     starts after its backward in stage s + 1; in the last stage, after its forward there
 *
 * Write the end of the pass of micro-batch k in stage s into end[pass_index(m, s, backward, k)]; -1 if it never ends or
 * is in no list. (lab.c fills `end` with -1.) Returns the end of the last pass; -1 if some passes wait forever (a
 * deadlock). No list has a pass twice. p <= MOST_STAGES. */
enum { MOST_STAGES = 16 };
double pipeline_time(int p, int m, const passes *lists, const double *forward, const double *backward,
                     double *end);

/* The index of a pass in `end`, which has room for 2 p m numbers. */
static inline size_t pass_index(int m, int s, bool backward, int micro_batch) {
    return ((size_t)s * 2 + backward) * (size_t)m + (size_t)micro_batch;
}

/* Task 17.5. A batch of `batch` samples is split into m equal micro-batches, so m must divide it. Returns the smallest
 * m with which, in 1F1B or in GPipe, if all stages take the same time,
 *
 *     stages wait at most `bubble` of a step's time: a share, 0.1 is 10 %
 *     and stage 0 never holds the activations of more than `samples` samples
 *
 * 0: there is no such m. */
int fewest_micro_batches(bool is_1f1b, int p, int batch, double bubble, int samples);

/* Task 17.6. Cuts `layers` layers into p non-empty runs of neighbours: stage s gets the layers first[s] ..
 * first[s + 1] - 1. So first[0] is 0 and first[p] is `layers`. Layer i takes seconds[i]; the slowest stage must be as
 * fast as possible. Any of several equally good cuts is right. 1 <= p <= layers <= MOST_LAYERS. */
enum { MOST_LAYERS = 32 };
void cut_layers(int layers, const double *seconds, int p, int *first);
