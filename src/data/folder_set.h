/* An image folder as a data set: only the file names are in memory. Pictures are decoded on demand (io/picture.h), by
 * the requesting thread and up to --loaders - 1 helpers. A sample, of shape (3, size, size), is the middle of a picture
 * or, with --augment resized_crop, a random part of it (view.h).
 *
 * A run needs the channels' mean and standard deviation before its first step. So that a million files take no longer
 * than a thousand, only GS_FOLDER_DRAWN pictures are measured: the first in the order of epoch 0 with seed 0 (order.h).
 *
 * A file that cannot be decoded ends the run; the message gives its name and number. With skip_broken, the next
 * decodable file in the list replaces it, with that file's label. The choice depends only on the files. */
#pragma once

#include "data/augment.h"

enum {
    GS_FOLDER_SIZE = 224,    /* the default size, ... */
    GS_FOLDER_MOST = 4096,   /* ... and the largest */
    GS_FOLDER_DRAWN = 1000,  /* pictures measured for mean and standard deviation */
    GS_FOLDER_LOADERS = 256, /* maximum threads of --loaders */
    GS_FOLDER_FILE = 1 << 28 /* maximum bytes of a file */
};

/* ---- its files ----
 *
 * An image folder is laid out like ImageNet: train and val hold a folder for each class.
 *
 *     DIR/train/CLASS/NAME.jpg      .jpg, .jpeg, .jfif or .png in any case; other files, and names that begin
 *     DIR/val/CLASS/NAME.png        with a dot, are ignored. Without val, test is read
 *
 * Classes are numbered in the order of their names in train, sorted by bytes; the files of a class are sorted by bytes
 * too. Therefore labels and samples are the same on every machine. Names take about 40 bytes per file. */
typedef struct gs_folder_file {
    size_t name; /* offset in `names` of the path within the split: "CLASS/NAME.jpg" */
    int32_t label;
} gs_folder_file;

typedef struct gs_folder_list {
    char folder[4096]; /* "DIR/train" */
    size_t count;
    gs_folder_file *files;
    char *names;
    gs_class_names classes; /* the classes of train */
    char left_out[200];     /* pictures that gradsum cannot read: "3 .webp, 1 .gif" */
    char absent[200];       /* classes of train without pictures here: "bee", "bee and 2 other classes" */
} gs_folder_list;

/* True if `where` is a folder that contains a folder `train` or `val`. */
bool gs_folder_is_at(const char *where);

/* Explain a folder whose pictures are one level too high or too low: GS_E_FILE. GS_OK: it has no pictures, or cannot be
 * read. */
gs_status gs_folder_explain(const char *where);

/* GS_E_FILE: a folder is missing or cannot be read. GS_E_FORMAT: no classes; a class without pictures in train, or a
 * class in val that train lacks (the message names it). GS_E_MEMORY. */
gs_status gs_folder_list_read(const char *where, gs_split, gs_folder_list *);
void gs_folder_list_free(gs_folder_list *);

static inline const char *gs_folder_name(const gs_folder_list *l, size_t i) {
    return l->names + l->files[i].name;
}

/* ---- its samples ---- */

/* A request for samples order[0..n-1]; if order is NULL, for first .. first + n - 1. */
typedef struct gs_sample_request {
    const uint32_t *order;
    size_t first, n;
    /* Random changes to the pictures, drawn from (seed, epoch, sample); NULL: none. */
    const gs_augment *augment;
    uint64_t seed, epoch;
} gs_sample_request;

static inline size_t gs_sample_request_at(const gs_sample_request *w, size_t i) {
    return w->order ? w->order[i] : w->first + i;
}

/* Replaces the array of images of a gs_dataset. Each sample has one label. */
typedef struct gs_folder_set {
    gs_folder_list list;
    const char *split;        /* train, val or test */
    gs_scaling scaling;       /* for a training set: gs_dataset_scaling */
    uint32_t checksum;        /* covers size, names and labels, which must agree on all ranks */
    unsigned char *is_broken; /* with skip_broken: flags of files that could not be decoded; else NULL */
    int size;
    int loaders, helpers; /* maximum threads that decode, and how many help a requesting thread now */
} gs_folder_set;

/* Load one split. GS_E_USAGE: an option out of range. Other errors as in gs_folder_list_read; loading a training set
 * may also report a broken file. */
gs_status gs_folder_set_load(const char *where, gs_split, const gs_folder_options *, gs_dataset *d);
void gs_folder_set_free(gs_folder_set *); /* NULL is allowed */

/* Write bytes to `inputs` and labels to `targets`; either may be NULL. Any number of threads may call it. */
gs_status gs_folder_set_read(gs_folder_set *, const gs_dataset *, const gs_sample_request *,
                             unsigned char *inputs, int32_t *targets);
