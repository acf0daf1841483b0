#include "data/npy_set.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "io/file.h"
#include "io/npy.h"

enum { PATH_SIZE = 4096 };

static const char *const file_names[2][2] = {[GS_TRAIN] = {"train-images.npy", "train-labels.npy"},
                                             [GS_TEST] = {"test-images.npy", "test-labels.npy"}};

typedef struct pair {
    char images[PATH_SIZE], labels[PATH_SIZE];
} pair;

/* ---- where ---- */

bool gs_npy_set_is_at(const char *folder) {
    char path[PATH_SIZE];
    for (int i = 0; i < 4; i++)
        if (snprintf(path, sizeof path, "%s/%s", folder, file_names[i / 2][i % 2]) < PATH_SIZE &&
            access(path, F_OK) == 0)
            return true;
    return false;
}

static gs_status files_of_folder(const char *folder, gs_split split, pair *p) {
    char *const to[] = {p->images, p->labels};
    for (int i = 0; i < 2; i++) {
        if (snprintf(to[i], PATH_SIZE, "%s/%s", folder, file_names[split][i]) >= PATH_SIZE)
            return gs_fail(GS_E_FILE, "%s: the path is too long", folder);
        if (access(to[i], F_OK) != 0) return gs_fail(GS_E_FILE, "%s has no %s", folder, file_names[split][i]);
    }
    return GS_OK;
}

bool gs_npy_reads(const char *folder, const char *file) {
    bool reads = false;
    pair p = {.images = ""};
    for (int i = 0; i < 2 && !reads; i++)
        reads = files_of_folder(folder, i ? GS_TRAIN : GS_TEST, &p) == GS_OK &&
                (gs_file_is_same(p.images, file) || gs_file_is_same(p.labels, file));
    return reads;
}

/* ---- images ---- */

/* True for (n,h,w,c), the layout in which most programs load pictures, where c is 3 or 4, or 1 for square pictures. */
static bool channels_are_last(const gs_npy *a) {
    if (a->sizes != 4 || a->size[1] <= 4 || a->size[2] <= 4) return false;
    return a->size[3] == 3 || a->size[3] == 4 || (a->size[3] == 1 && a->size[1] == a->size[2]);
}

static gs_status shape_of(const char *path, const gs_npy *a, gs_shape *shape) {
    const bool known = a->sizes >= 2 && a->sizes <= 4;
    bool fits = known && a->size[0] <= UINT32_MAX;
    int s[3] = {1, 1, 1};
    const int skip = a->sizes == 3 ? 0 : 1; /* (n,h,w) has no channel dimension */
    for (int i = 1; fits && i < a->sizes; i++) {
        fits = a->size[i] <= GS_SHAPE_MOST;
        s[i - skip] = fits ? (int)a->size[i] : 1;
    }
    *shape = (gs_shape){s[0], s[1], s[2], 0};
    if (channels_are_last(a))
        return gs_fail(
            GS_E_FORMAT,
            "%s is %s, which looks like (n,h,w,c); wanted the channels first, (n,c,h,w) (in Python: "
            "x.transpose(0, 3, 1, 2)); if it is (n,c,h,w), with images %d high and %d wide, lay them on "
            "their "
            "side: x.transpose(0, 1, 3, 2)",
            path, gs_npy_describe(a).text, shape->h, shape->w);
    if (!known)
        return gs_fail(GS_E_FORMAT, "%s is %s; wanted (n,h,w), (n,c,h,w) or (n,features)", path,
                       gs_npy_describe(a).text);
    if (fits && gs_shape_fits(*shape)) return GS_OK;
    return gs_fail(GS_E_FORMAT, "%s is %s; at most %u images are allowed, each of at most %d numbers", path,
                   gs_npy_describe(a).text, UINT32_MAX, GS_SHAPE_MOST);
}

static gs_status check_finite(const char *path, const gs_dataset *d) {
    const size_t each = gs_shape_size(d->shape);
    for (size_t i = 0; i < d->count * each; i++)
        if (!isfinite(d->inputs[i]))
            return gs_fail(GS_E_FORMAT, "%s: a number of sample %zu is %g; wanted finite numbers", path,
                           i / each, (double)d->inputs[i]);
    return GS_OK;
}

static gs_status load_images(const char *path, gs_dataset *d) {
    gs_npy a;
    GS_TRY(gs_npy_load(path, &a));
    const bool bytes = a.kind == 'u' && a.bytes == 1, floats = a.kind == 'f' && a.bytes == 4;
    gs_status status = GS_OK;
    if (!bytes && !floats)
        status = gs_fail(GS_E_FORMAT, "%s is %s; wanted uint8 or float32 (in Python: x.astype('float32'))",
                         path, gs_npy_describe(&a).text);
    if (status == GS_OK) status = shape_of(path, &a, &d->shape);
    if (status != GS_OK) {
        free(a.data);
        return status;
    }
    d->count = a.size[0];
    if (bytes)
        d->images = a.data;
    else
        d->inputs = a.data;
    return floats ? check_finite(path, d) : GS_OK;
}

/* ---- labels ---- */

/* Element i, of any width, as 64 bits; a signed one in two's complement. */
static uint64_t whole(const gs_npy *a, size_t i) {
    uint64_t word = 0;
    memcpy(&word, (const unsigned char *)a->data + i * (size_t)a->bytes,
           (size_t)a->bytes); /* little-endian */
    const int above = 64 - 8 * a->bytes;
    return a->kind == 'u' ? word : (uint64_t)((int64_t)(word << above) >> above);
}

static gs_status take_labels(const char *path, const char *images, const gs_npy *a, gs_dataset *d) {
    if (a->kind == 'f' || a->sizes != 1)
        return gs_fail(GS_E_FORMAT, "%s is %s; wanted whole numbers of shape (n), a label for each image",
                       path, gs_npy_describe(a).text);
    if (a->size[0] != d->count)
        return gs_fail(GS_E_FORMAT, "%s has %zu label%s, but %s has %zu image%s", path, a->size[0],
                       gs_s(a->size[0]), images, d->count, gs_s(d->count));
    GS_TRY(GS_NEW(d->labels, d->count, "%zu labels of %s", d->count, path));
    for (size_t i = 0; i < d->count; i++) {
        const uint64_t label = whole(a, i);
        const bool negative = a->kind != 'u' && (int64_t)label < 0;
        if (label > UCHAR_MAX)
            return gs_fail(GS_E_FORMAT, "%s: the label of sample %zu is %s%" PRIu64 "; wanted 0 to %d", path,
                           i, negative ? "-" : "", negative ? -label : label, UCHAR_MAX);
        d->labels[i] = (unsigned char)label;
        if ((int)label >= d->classes) d->classes = (int)label + 1;
    }
    return GS_OK;
}

gs_status gs_npy_set_load(const char *folder, gs_split split, gs_labels fine, gs_dataset *d) {
    (void)fine; /* an image has one label */
    pair p;
    gs_npy labels;
    GS_TRY(files_of_folder(folder, split, &p));
    GS_TRY(load_images(p.images, d));
    GS_TRY(gs_npy_load(p.labels, &labels));
    gs_status status = take_labels(p.labels, p.images, &labels, d);
    free(labels.data);
    return status;
}
