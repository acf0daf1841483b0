/* A kernel's source with its includes; a lab's kernels are a student's. */
#include "cl/program.c"
#include "fuzz.h"

FUZZ(in) {
    text source = {0};
    append_file(&source, fuzz_folder("lab.cl", 0, in->data, in->size), "lab.cl", 0);
    free(source.bytes);
}
