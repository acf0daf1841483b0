/* For the checks of lab 13: a run that computes next to nothing, and writes down what was called, in which order. */
#pragma once

#include "tasks.h"

enum { MOST_LAYERS = 6, MOST_SAMPLES = 60, MOST_PARAMS = 60, MOST_EVENTS = 120 };

/* One training run. */
typedef struct lab_case {
    int ranks;
    size_t samples, batch;
    int layers;
    size_t count[MOST_LAYERS]; /* parameters of each */
    size_t least;              /* elements of a bucket, as in lesson 10, beside the counts */
    float momentum;
} lab_case;

/* Case i: the first ones are always the same, small ones first; those after them are drawn. */
enum { CASES = 16 };
lab_case lab_case_of(size_t i);
const char *lab_case_text(const lab_case *);

size_t lab_steps_of(const lab_case *); /* of an epoch */

/* order[first .. first + count - 1]: the global batch of step `number` of an epoch. */
gs_shard lab_batch_of(size_t samples, size_t batch, size_t number);

/* Equal up to rounding. */
bool lab_near(double got, double wanted);

/* The model. A sample s says t(s, i) for parameter i; its loss is the sum of (w[i] - t(s, i))^2 / 2, its gradient
 * w[i] - t(s, i). */
double lab_says(size_t sample, size_t i);

typedef enum event_kind { LOADS, FORWARD, LOSSES, BACKWARD, HOOK, BEGINS, WAITS } event_kind;

typedef struct event {
    event_kind kind;
    int index; /* layer, bucket */
} event;

typedef struct lab_sim {
    lab_run run; /* first, so that a run is its sim */
    lab_step step;
    gs_sync *sync; /* NULL: nothing is summed */
    gs_chunk layer[MOST_LAYERS], bucket[MOST_LAYERS + 1];
    size_t order[MOST_SAMPLES], loaded[MOST_SAMPLES], count;
    float counts[GS_STATS]; /* of the loss */
    float weights[MOST_PARAMS], velocity[MOST_PARAMS], gradients[MOST_PARAMS + GS_STATS];
    float sums[MOST_PARAMS + GS_STATS]; /* what a wait brings */
    bool begun[MOST_LAYERS + 1], waited[MOST_LAYERS + 1];
    int forwards, backwards; /* layers done */
    event event[MOST_EVENTS];
    int events;
    gs_sync_cost sent;
    gs_status failed; /* the first call that failed: also where the student looks away */
    char message[1024];
    const event *breaks; /* NULL, or the call that fails, and all after it */
    bool broken;         /* it has come */
} lab_sim;

/* A rank before its first step; weights and order are the same on all ranks. buckets: as the case says; else one. */
void lab_sim_begin(lab_sim *, const lab_case *, int rank, bool buckets);

/* Before a step: gradients are such as nobody wants, and nothing has been called. */
void lab_sim_next(lab_sim *, size_t number);

/* After the student's function has returned `status`: the failure of the run comes first. */
gs_status lab_sim_ended(lab_sim *, gs_status status);

/* Every bucket was summed once, and waited for. */
gs_status lab_sim_summed(const lab_sim *);

/* "load, forward 0, loss, backward 0, sum 0, wait 0" */
const char *lab_sim_text(const lab_sim *);

const char *lab_event_text(const event *); /* "backward 1" */

/* The place of an event in the timeline, or -1. */
int lab_sim_find(const lab_sim *, event_kind, int index);

/* The layer after whose backward a bucket is final. */
int lab_sim_last_layer(const lab_sim *, int bucket);

/* What a rank sends in a step, all buckets together, around a ring; nothing if it is alone. */
gs_sync_cost lab_sim_cost(const lab_sim *);

/* ---- check_broken.c ---- */

/* What is run in the same step of the same rank, and each of its calls fails in turn: `run` passes that on. */
typedef struct lab_piece {
    gs_status (*run)(lab_step *);
    bool buckets; /* as of lab_sim_begin */
    /* What it consists of, NULL ends them: a failure that one of these does not pass on is no fault of `run`. */
    gs_status (*const *of)(lab_step *);
} lab_piece;
gs_status lab_check_broken(const lab_piece *);

/* local_gradient without a hook, and with one; release of all layers. */
gs_status lab_gradient_alone(lab_step *);
gs_status lab_gradient_hooked(lab_step *);
gs_status lab_all_released(lab_step *);

/* ---- check_whole.c ---- */

/* All cases: N ranks compute what one would, to the same bits, with no more messages and bytes than a step needs; of
 * overlapped_step also the order of the calls. Else of plain_step. */
gs_status lab_check_whole(bool overlapped);

/* 6000 images in batches of 333, so that nothing divides, against the library's own sharded update. */
gs_status lab_check_training(int bucket);
