/* Reads the records of a run that `train --digest` has written (train/digest/digest.h), of all its ranks. */
#pragma once

#include "core/error.h"
#include "train/digest/digest.h"

typedef struct gs_digest_row {
    uint64_t step;
    int kind, number, part;
    gs_sketch x;
} gs_digest_row;

/* A step of one rank. */
typedef struct gs_digest_of_step {
    size_t first, rows; /* in gs_digest_rank.row */
    gs_digest_score score;
} gs_digest_of_step;

typedef struct gs_digest_rank {
    gs_digest_row *row; /* by step, kind, number, part */
    size_t rows, room;
    gs_digest_of_step *step; /* [steps]: of steps gs_digests.first and so on */
    size_t steps, step_room;
} gs_digest_rank;

typedef struct gs_digest_option {
    char *name, *value;
} gs_digest_option;

typedef struct gs_layer_name {
    char op[32], name[64]; /* name "" of the outermost one */
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
    size_t set; /* samples of the training set */
    gs_digest_option *option;
    int options;
    gs_layer_name *layer;
    int layers;
    gs_param_name *param;
    int params;
    gs_digest_rank rank[GS_DIGEST_RANKS];
    uint64_t last;         /* step of the rank that has most; not all may have it */
    int shortest;          /* the first rank that has fewest */
    uint64_t first, steps; /* all ranks have steps first .. first + steps - 1 whole */
} gs_digests;

/* GS_E_FILE: the record of a rank is missing. GS_E_FORMAT: a record is damaged; the message names the file and the
 * line. A run that was killed may leave an incomplete last step, which is skipped. `folder` must outlive the result. */
gs_status gs_digests_read(const char *folder, gs_digests *);
void gs_digests_free(gs_digests *);

/* Options that decide what is computed, but not how it is divided. Two runs can be compared if the first
 * GS_DIGESTS_EQUAL are the same. */
enum { GS_DIGESTS_EQUAL = 26, GS_DIGESTS_DECIDING = 34 };
extern const char *const gs_digests_deciding[GS_DIGESTS_DECIDING];

/* "" if the run has no such option. */
const char *gs_digests_option(const gs_digests *, const char *name);
/* 0 if it is no number. */
double gs_digests_number(const gs_digests *, const char *name);
/* 0 if it is no number from 1 to 1,000,000. */
int gs_digests_count(const gs_digests *, const char *name);

/* It was trained with --exact. Two such runs are compared to the bit. */
bool gs_digests_is_exact(const gs_digests *);

/* NULL: there is no such row. step: within first .. first + steps - 1. */
const gs_sketch *gs_digests_find(const gs_digests *, int rank, uint64_t step, int kind, int number, int part);
const gs_digest_score *gs_digests_score(const gs_digests *, int rank, uint64_t step);
