/* A kernel's source with its includes; in a lab, students write them. */
#include "cl/program.c"
#include "fuzz.h"

FUZZ(in) {
    char *bytes = NULL;
    size_t size;
    text source = {.to = open_memstream(&bytes, &size)};
    if (!source.to) return;
    append_file(&source, fuzz_folder("lab.cl", 0, in->data, in->size), "lab.cl", 0);
    fclose(source.to);
    free(bytes);
}
