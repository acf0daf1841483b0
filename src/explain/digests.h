/* Reads the records that the ranks of a run wrote with `train --digest` (train/digest/digest.h). */
#pragma once

#include "train/digest/digest.h"

typedef struct gs_digest_row {
    uint64_t step;
    int kind, number, part;
    gs_sketch x;
} gs_digest_row;

/* One rank's record of a step. */
typedef struct gs_digest_of_step {
    size_t first, rows; /* the step's rows in gs_digest_rank.row */
    gs_digest_score score;
} gs_digest_of_step;

typedef struct gs_digest_rank {
    gs_digest_row *row; /* sorted by step, kind, number, part */
    size_t rows, room;
    gs_digest_of_step *step; /* [steps], starting at gs_digests.first */
    size_t steps, step_room;
} gs_digest_rank;

typedef struct gs_layer_name {
    char op[32], name[64]; /* the outermost layer's name is "" */
} gs_layer_name;

typedef struct gs_param_name {
    size_t at, count;
    bool state;
    int layer;
    char name[64];
} gs_param_name;

enum { GS_DIGEST_RANKS = 64 };

typedef struct gs_digests {
    const char *folder;
    int workers;
    size_t set;    /* samples in the training set */
    char **option; /* "batch 64" */
    int options;
    gs_layer_name *layer;
    int layers;
    gs_param_name *param;
    int params;
    gs_digest_rank rank[GS_DIGEST_RANKS];
    uint64_t last;         /* the last step of the longest record */
    int shortest;          /* the first rank with the shortest record */
    uint64_t first, steps; /* every rank has all of steps first .. first + steps - 1 */
} gs_digests;

/* GS_E_FILE: a rank's record is missing. GS_E_FORMAT: a record is damaged; the message names the file and the line.
 * Skips an incomplete last step, which a killed run may leave. `folder` must outlive the result. */
gs_status gs_digests_read(const char *folder, gs_digests *);
void gs_digests_free(gs_digests *);

/* Options that determine what is computed, but not how the work is divided. Two runs are comparable if they agree in
 * the first GS_DIGESTS_EQUAL options. */
enum { GS_DIGESTS_EQUAL = 26, GS_DIGESTS_DECIDING = 34 };
extern const char *const gs_digests_deciding[GS_DIGESTS_DECIDING];

/* The value of an option: as text, "" if the run has no such option; as a number, 0 if it is not a number; as a count,
 * 0 unless it is a number from 1 to 1,000,000. */
const char *gs_digests_option(const gs_digests *, const char *name);
double gs_digests_number(const gs_digests *, const char *name);
int gs_digests_count(const gs_digests *, const char *name);

/* True if the run was trained with --exact. Two such runs are compared bit for bit. */
bool gs_digests_is_exact(const gs_digests *);

/* NULL: there is no such row. step: within first .. first + steps - 1. */
const gs_sketch *gs_digests_find(const gs_digests *, int rank, uint64_t step, int kind, int number, int part);
const gs_digest_score *gs_digests_score(const gs_digests *, int rank, uint64_t step);
