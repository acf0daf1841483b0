/* For the checks of lab 13: a run with a toy model, which records the order of all calls. */
#pragma once

#include "tasks.h"

enum { MOST_LAYERS = 6, MOST_SAMPLES = 60, MOST_PARAMS = 60, MOST_EVENTS = 120 };

/* One training run. */
typedef struct lab_case {
    int ranks;
    size_t samples, batch;
    int layers;
    size_t count[MOST_LAYERS]; /* parameters of each */
    size_t least;              /* elements of a bucket, as in lesson 10, without the counts */
    float momentum;
} lab_case;

/* Case i: first fixed cases, the smallest first, then drawn ones. */
enum { CASES = 16 };
lab_case lab_case_of(size_t i);
const char *lab_case_text(const lab_case *);

size_t lab_steps_of(const lab_case *); /* of an epoch */

/* order[first .. first + count - 1]: the global batch of step `number` of an epoch. */
gs_shard lab_batch_of(size_t samples, size_t batch, size_t number);

/* Equal up to rounding. */
bool lab_near(double got, double wanted);

/* The model: t(s, i), the target of sample s for parameter i. The loss is the sum of (w[i] - t(s, i))^2 / 2, the
 * gradient w[i] - t(s, i). */
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
    float sums[MOST_PARAMS + GS_STATS]; /* a wait copies them */
    bool begun[MOST_LAYERS + 1], waited[MOST_LAYERS + 1];
    int forwards, backwards; /* layers done */
    event event[MOST_EVENTS];
    int events;
    gs_sync_cost sent;
    gs_status failed; /* of the first failed call, even if the student ignores it */
    char message[1024];
    const event *breaks; /* NULL, or the call that fails; all later calls fail too */
    bool broken;         /* this call was made */
} lab_sim;

/* A rank before its first step; weights and order are equal on all ranks. `buckets` false: one bucket. */
void lab_sim_begin(lab_sim *, const lab_case *, int rank, bool buckets);

/* Before a step: the gradients hold junk, and nothing was called. */
void lab_sim_next(lab_sim *, size_t number);

/* After the student's function returned `status`: a failed call of the run comes first. */
gs_status lab_sim_ended(lab_sim *, gs_status status);

/* Checks that every bucket was summed once and waited for. */
gs_status lab_sim_summed(const lab_sim *);

/* "load, forward 0, loss, backward 0, sum 0, wait 0" */
const char *lab_sim_text(const lab_sim *);

const char *lab_event_text(const event *); /* "backward 1" */

/* The index of an event in the timeline, or -1. */
int lab_sim_find(const lab_sim *, event_kind, int index);

/* The layer after whose backward a bucket is final. */
int lab_sim_last_layer(const lab_sim *, int bucket);

/* The cost of a step for a rank, all buckets, around a ring; 0 for a single rank. */
gs_sync_cost lab_sim_cost(const lab_sim *);

/* ---- check_broken.c ---- */

/* Checks that `run` passes on the failure of each of its calls. */
typedef struct lab_piece {
    gs_status (*run)(lab_step *);
    bool buckets; /* as of lab_sim_begin */
    /* Its parts, up to NULL: `run` is not to blame for a failure that one of them does not pass on. */
    gs_status (*const *of)(lab_step *);
} lab_piece;
gs_status lab_check_broken(const lab_piece *);

/* local_gradient without a hook, and with one; release of all layers. */
gs_status lab_gradient_alone(lab_step *);
gs_status lab_gradient_hooked(lab_step *);
gs_status lab_all_released(lab_step *);

/* ---- check_whole.c ---- */

/* All cases of overlapped_step or plain_step: N ranks equal one rank, all ranks have the same bits, and no message is
 * superfluous; for overlapped_step also the order of the calls. */
gs_status lab_check_whole(bool overlapped);

/* 6000 images in batches of 333, which nothing divides, against the library's own sharded update. */
gs_status lab_check_training(int bucket);
