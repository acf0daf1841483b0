/* NumPy's array format: magic, version, a header text padded to a multiple of 64 bytes, and the elements.
 *
 *     offset 0: 0x93 "NUMPY"   6: version, 1.0, 2.0 or 3.0   8: bytes of the text, little-endian (1.0: 2 bytes, else 4)
 *     then {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), } and spaces; then the elements
 *
 * The keys must be in this order, in which NumPy and other programs write them.
 *
 * Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
#pragma once

#include <stddef.h>
#include "core/error.h"

/* Write an f32 array of shape (rows, columns) in version 1.0, completely or not at all. GS_E_FILE. */
gs_status gs_npy_save(const char *path, const float *data, size_t rows, size_t columns);

enum { GS_NPY_SIZES = 4 };

typedef struct gs_npy {
    char kind;                 /* 'u', 'i' or 'f': unsigned, signed or floating-point numbers ... */
    int bytes;                 /* ... of 1, 2, 4 or 8 bytes each, little-endian */
    int sizes;                 /* the number of sizes */
    size_t size[GS_NPY_SIZES]; /* (60000, 28, 28) */
    size_t count;              /* elements */
    void *data;                /* the last index changes fastest; free it with free() */
} gs_npy;

/* Load an array with up to GS_NPY_SIZES sizes. GS_E_FILE, GS_E_MEMORY; GS_E_FORMAT: another format, or an archive
 * (.npz); a truncated file, or bytes after the last element; a damaged header; objects, records, texts or big-endian
 * numbers; Fortran order; a size of 0; more bytes than a file can have. */
gs_status gs_npy_load(const char *path, gs_npy *out);

/* "uint8 (60000,28,28)", for messages; valid until the end of the statement. */
typedef struct gs_npy_text {
    char text[120];
} gs_npy_text;
gs_npy_text gs_npy_describe(const gs_npy *);
