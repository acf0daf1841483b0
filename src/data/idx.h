/* IDX files, gzipped or not: each holds an array of bytes, and its sizes.
 *
 *     offset 0: 0x00 0x00 0x08 (the elements are unsigned bytes) D (the number of sizes)
 *     offset 4: D sizes, big-endian 32-bit; then the bytes, the last index fastest. Images: 0x803; labels: 0x801
 */
#pragma once

#include <stddef.h>
#include "core/error.h"

enum { GS_IDX_MAX_SIZES = 3 };

typedef struct gs_idx {
    int size[GS_IDX_MAX_SIZES]; /* (60000, 28, 28) or (60000) */
    unsigned char *data;        /* free it with free() */
} gs_idx;

/* Load a file with `sizes` sizes: 3 for images, 1 for labels. GS_E_FILE, also if the file is much longer than its
 * header states; GS_E_MEMORY; GS_E_FORMAT: truncated, empty, another magic number, a size of 0, 2^31 bytes or more, a
 * damaged gzip stream, bytes after the last element. */
gs_status gs_idx_load(const char *path, int sizes, gs_idx *out);
