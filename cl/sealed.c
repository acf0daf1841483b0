#include "cl/sealed.h"

#include <string.h>
#include "io/file.h"

gs_status gs_cl_sealed_text(const char *file, char **text, size_t *size) {
    const gs_cl_sealed *s = gs_cl_sealed_files;
    *text = NULL;
    while (s->file && strcmp(s->file, file) != 0) s++;
    if (!s->file) return GS_OK;
    return gs_context(gs_unzip(file, s->data, s->bytes, s->size, text, size), "sealed kernels");
}
