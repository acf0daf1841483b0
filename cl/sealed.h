/* Kernels that are no files: a sealed handout (lessons/sealed.list) has those of which a lab's answer could be copied
 * compressed in the library. Here there are none: all kernels are the files beside this one. */
#pragma once

#include <stddef.h>

typedef struct gs_cl_sealed {
    const char *file;          /* "gemm.cl"; NULL ends the list */
    const unsigned char *data; /* gzip */
    size_t bytes, size;        /* of the data; of the text */
} gs_cl_sealed;

/* sealed_files.c, which a handout has as an object with its kernels in it. */
extern const gs_cl_sealed gs_cl_sealed_files[];
