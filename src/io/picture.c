#include "io/picture.h"

#include <stdlib.h>
#include "io/file.h"

static const gs_picture_kind *const kinds[] = {&gs_jpeg, &gs_png};
enum { KINDS = sizeof kinds / sizeof *kinds };

struct gs_picture_reader {
    void *decoder[KINDS];
    int kind; /* of the picture that was begun */
    unsigned char *rgb;
    size_t room;
};

gs_status gs_picture_reader_create(gs_picture_reader **out) {
    gs_picture_reader *r = *out = calloc(1, sizeof *r);
    bool complete = r != NULL;
    for (int k = 0; complete && k < KINDS; k++) complete = (r->decoder[k] = kinds[k]->create()) != NULL;
    if (complete) return GS_OK;
    gs_picture_reader_free(r);
    *out = NULL;
    return gs_fail(GS_E_MEMORY, "no memory for a decoder of pictures");
}

void gs_picture_reader_free(gs_picture_reader *r) {
    if (!r) return;
    for (int k = 0; k < KINDS; k++)
        if (r->decoder[k]) kinds[k]->free(r->decoder[k]);
    free(r->rgb);
    free(r);
}

gs_status gs_picture_check_size(const char *kind, unsigned long width, unsigned long height) {
    if (width < 1 || height < 1)
        return gs_fail(GS_E_FORMAT, "the %s says that it is %lu x %lu", kind, width, height);
    if (width > GS_PICTURE_SIDE || height > GS_PICTURE_SIDE ||
        (unsigned long long)width * height > GS_PICTURE_PIXELS)
        return gs_fail(GS_E_FORMAT,
                       "the %s says that it is %lu x %lu; at most %d on a side and %d pixels are allowed",
                       kind, width, height, GS_PICTURE_SIDE, GS_PICTURE_PIXELS);
    return GS_OK;
}

gs_status gs_picture_begin(gs_picture_reader *r, const void *data, size_t bytes, int *width, int *height) {
    if (bytes == 0) return gs_fail(GS_E_FORMAT, "the file is empty");
    for (r->kind = 0; r->kind < KINDS; r->kind++)
        if (kinds[r->kind]->is(data, bytes))
            return kinds[r->kind]->begin(r->decoder[r->kind], data, bytes, width, height);
    const gs_foreign *f = gs_foreign_of(data, bytes);
    if (!f) return gs_fail(GS_E_FORMAT, "it is neither a JPEG nor a PNG");
    return gs_fail(GS_E_FORMAT, "it is %s, neither a JPEG nor a PNG%s%s", f->what, f->todo ? "; " : "",
                   f->todo ? f->todo : "");
}

gs_status gs_picture_decode(gs_picture_reader *r, int shrink, const unsigned char **rgb, int *width,
                            int *height) {
    if (r->kind == KINDS) gs_bug("gs_picture_decode: no picture was begun");
    const gs_picture_kind *kind = kinds[r->kind];
    void *decoder = r->decoder[r->kind];
    GS_TRY(kind->size(decoder, shrink, width, height));
    const size_t bytes = (size_t)*width * (size_t)*height * 3 + 1;
    if (bytes > r->room) {
        free(r->rgb);
        r->rgb = malloc(bytes);
        r->room = r->rgb ? bytes : 0;
    }
    if (!r->rgb) return gs_fail(GS_E_MEMORY, "no memory for a picture of %d x %d", *width, *height);
    GS_TRY(kind->decode(decoder, r->rgb, *width, *height));
    *rgb = r->rgb;
    return GS_OK;
}
