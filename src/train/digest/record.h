/* What the files of this folder share: the record of a worker. */
#pragma once

#include <stdio.h>
#include "layer/watch.h"
#include "train/digest/digest.h"
#include "train/strategy.h"
#include "model/model.h"
#include "train/digest/numbers.h"

/* Where in whole arrays the numbers lie that a worker has: of a tensor group (parallel/tensor.h) each member records
 * its part of what is divided, at its places in the whole, and the first one what all of them repeat. So the records of
 * a group add up to those of a worker alone. */

/* An array of a sample, as a layer takes it or gives it. */
typedef struct gs_digest_vector {
    size_t each, whole;       /* its numbers here, and in the whole */
    size_t runs, floats;      /* here: so many runs of neighbours, of so many numbers */
    size_t blocks;            /* of q, k and v: each token's runs are in so many equal parts */
    size_t whole_step, first; /* in the whole: from one run to the next, and where the first begins */
    bool elsewhere;           /* another member of the group records it */
} gs_digest_vector;

/* Of a layer of m, or of a stage or a replica of m: its input, or its output. */
gs_digest_vector gs_digest_vector_of(const gs_model *m, const gs_layer *, bool input);

/* Sample number `sample`. */
void gs_digest_add_vector(gs_numbers *to, const gs_digest_vector *, const float *x, uint64_t sample);

/* count numbers of parameter p of m, from its number `from` on. False: another member of the group records them. */
bool gs_digest_add_param(gs_numbers *to, const gs_model *m, int p, const float *x, size_t from, size_t count);

/* Of a layer with those that are joined to it. */
typedef struct gs_digest_layer {
    int last; /* number of the last one */
    gs_digest_vector y, dx;
} gs_digest_layer;

struct gs_digest {
    gs_worker *worker;
    FILE *file;
    FILE *text;     /* what is to be written to it next, in memory */
    char *bytes;    /* of text, */
    size_t size;    /* and how many */
    uint32_t check; /* CRC-32 of all that was written */
    char path[4096];
    char stopped
        [GS_DIGEST_WHY]; /* why nothing more is written to the file, which is closed; "": it is not so */
    bool told;
    int numbers;            /* of layers, or of parameters: the larger count */
    gs_numbers *table;      /* (kinds, numbers, parts): of this step */
    gs_numbers *before;     /* [parameter]: dw when the last pass ended */
    int *passes, *masks;    /* [parameter], [layer]: passes of this step that added to dw, that drew a mask */
    gs_digest_layer *layer; /* [layer] */
    int *layer_of;          /* [parameter] */
    gs_mem *place;          /* [parameter]: of the layers that are watched */
    float *room;            /* a copy of what lies on the device */
    size_t room_count;
    size_t own; /* samples of this step that are loaded */
    double scale;
    gs_update_watcher updates;
    gs_layer_watcher layers;
};

static inline size_t gs_digest_cells(const gs_digest *d) {
    return (size_t)GS_DIGEST_KINDS_COUNT * (size_t)d->numbers * GS_DIGEST_PARTS;
}

/* ---- digest.c ---- */

gs_numbers *gs_digest_cell(gs_digest *, gs_digest_kind, int number, int part);
/* count numbers of the device, to d->room. */
gs_status gs_digest_fetch(gs_digest *, gs_mem x, size_t count);

/* ---- file.c ---- */

/* Begin the file: all before "start". */
gs_status gs_digest_write_start(gs_digest *);
gs_status gs_digest_write_step(gs_digest *, uint64_t step, const gs_digest_score *);
void gs_digest_close(gs_digest *);
