/* Kernels that are not files: in a sealed handout (lessons/sealed.list) the library holds, compressed, the kernels from
 * which a lab's answer could be copied. Here there are none: all kernels are the files beside this one. */
#pragma once

#include <stddef.h>

typedef struct gs_cl_sealed {
    const char *file;          /* "gemm.cl"; NULL ends the list */
    const unsigned char *data; /* gzip */
    size_t bytes, size;        /* of the data; of the text */
} gs_cl_sealed;

/* sealed_files.c; a handout has it as an object with its kernels. */
extern const gs_cl_sealed gs_cl_sealed_files[];
