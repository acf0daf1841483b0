/* Kernels that are not separate files: in a sealed handout (lessons/sealed.list) the library contains, compressed, the
 * kernels from which a lab's answer could be copied. Here the list is empty: all kernels are files in this folder. */
#pragma once

#include <stddef.h>

typedef struct gs_cl_sealed {
    const char *file;          /* "gemm.cl"; NULL ends the list */
    const unsigned char *data; /* gzip */
    size_t bytes, size;        /* of the data; of the uncompressed text */
} gs_cl_sealed;

/* Defined in sealed_files.c, which a handout replaces with an object file that contains its kernels. */
extern const gs_cl_sealed gs_cl_sealed_files[];
