#include "io/npy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "io/file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file holds floats as they lie in memory");

gs_status gs_npy_save(const char *path, const float *data, size_t rows, size_t columns) {
    /* Magic (6 bytes), version (2), length of the text (2), text; spaces and a newline fill up to 64 x k
     * bytes. */
    enum { TEXT_AT = 10, HEADER = 128 };
    char header[HEADER + 1] = "\x93NUMPY\x01\x00";
    header[8] = HEADER - TEXT_AT;
    header[9] = 0;
    snprintf(header + TEXT_AT, HEADER - TEXT_AT,
             "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu), }", rows, columns);
    size_t used = TEXT_AT + strlen(header + TEXT_AT);
    memset(header + used, ' ', HEADER - used);
    header[HEADER - 1] = '\n';

    gs_file_writer w;
    GS_TRY(gs_file_writer_open(path, &w));
    size_t count = rows * columns;
    if (fwrite(header, 1, HEADER, w.file) < HEADER || fwrite(data, sizeof *data, count, w.file) < count) {
        gs_status st = gs_fail(GS_E_FILE, "cannot write %s: %s", path, strerror(errno));
        gs_file_writer_discard(&w);
        return st;
    }
    return gs_file_writer_commit(&w);
}
