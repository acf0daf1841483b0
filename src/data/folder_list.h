/* The files of an image folder, which is laid out as ImageNet is: a folder for each class, in train and in val.
 *
 *     DIR/train/CLASS/NAME.jpg      .jpg, .jpeg, .jfif or .png, in capitals too; other files are left alone, and so
 *     DIR/val/CLASS/NAME.png        are names that begin with a dot. Where there is no val, test is taken
 *
 * Classes are numbered by their names in train, sorted by bytes, and the files of a class are sorted alike. So labels
 * and samples are the same on every machine. Only names are kept, some 40 bytes a file.
 */
#pragma once

#include <stdbool.h>
#include "data/dataset.h"

typedef struct gs_folder_file {
    size_t name; /* where its path within the split begins in `names`: "CLASS/NAME.jpg" */
    int32_t label;
} gs_folder_file;

typedef struct gs_folder_list {
    char folder[4096]; /* "DIR/train" */
    size_t count;
    gs_folder_file *files;
    char *names;
    gs_class_names classes; /* those of train */
    char left_out[200];     /* pictures that gradsum cannot read: "3 .webp, 1 .gif" */
    char absent[200]; /* classes of train that have no pictures here: "bee", "bee and 2 other classes" */
} gs_folder_list;

/* Is `where` a folder with a folder `train` or `val`? */
bool gs_folder_is_at(const char *where);

/* What to say of a folder that is none of the sets that gradsum reads, if it has pictures: that they lie one folder too
 * high or too low. GS_E_FILE: said; GS_OK: it has no pictures, or it cannot be read. */
gs_status gs_folder_explain(const char *where);

/* GS_E_FILE: there is no such folder, or one cannot be read. GS_E_FORMAT: no classes; a class without pictures in
 * train; a class in val that train does not have; the message names it. GS_E_MEMORY. */
gs_status gs_folder_list_read(const char *where, gs_split, gs_folder_list *);
void gs_folder_list_free(gs_folder_list *);

static inline const char *gs_folder_name(const gs_folder_list *l, size_t i) {
    return l->names + l->files[i].name;
}

/* The file's path; false: it is longer than `size`. */
bool gs_folder_path(const gs_folder_list *, size_t i, char *path, size_t size);
