/* An image folder (folder_list.h) as a set: only the names of the files are in memory. A picture is decoded when it is
 * wanted (io/picture.h), by the thread that wants it or by those of --loaders, and becomes (3, size, size): its middle,
 * or with --augment resized_crop a part of it (view.h).
 *
 * Mean and deviation of the channels, which a run needs before its first step, are those of GS_FOLDER_DRAWN pictures:
 * the first of the order of epoch 0 with seed 0 (order.h). So a million files take no longer than a thousand.
 *
 * A file that cannot be decoded ends the run, by its name and number. With skip_broken the next file of the list that
 * can be decoded takes its place, with its own label. Which file that is depends on the files alone.
 */
#pragma once

#include "data/dataset.h"

enum {
    GS_FOLDER_SIZE = 224,    /* if none is chosen, */
    GS_FOLDER_MOST = 4096,   /* and at most */
    GS_FOLDER_DRAWN = 1000,  /* pictures for mean and deviation */
    GS_FOLDER_FILE = 1 << 28 /* bytes of a file, at most */
};

/* Load one split. GS_E_USAGE: an option out of its range. Otherwise as gs_folder_list_read; and in a training set, a
 * broken file may be found already here. */
gs_status gs_folder_set_load(const char *where, gs_split, const gs_folder_options *, gs_dataset *d);
