#include "data/folder_set.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include "data/decode_pool.h"
#include "data/decoded.h"
#include "data/folder_list.h"
#include "data/order.h"
#include "io/file.h"
#include "core/text.h"
#include "data/source.h"
#include "data/view.h"
#include "io/picture.h"

enum { PATH_SIZE = 8192 };

typedef struct folder_set {
    gs_source source; /* first: the set knows only that */
    gs_folder_list list;
    int size;
    bool skip_broken;
    gs_decode_pool *pool;
    gs_decoded *cache; /* NULL: none */
} folder_set;

/* ---- one file: read, decoded, cropped and resized to a sample ---- */

/* What a thread that decodes has for itself. */
typedef struct folder_tools {
    gs_picture_reader *reader;
    gs_resizer resizer;
    unsigned char *picture; /* a sample before it is changed */
} folder_tools;

static void free_tools(void *of) {
    folder_tools *t = of;
    if (!t) return;
    gs_picture_reader_free(t->reader);
    gs_resizer_free(&t->resizer);
    free(t->picture);
    free(t);
}

static gs_status create_tools(void **out) {
    folder_tools *t = *out = calloc(1, sizeof *t);
    if (!t) return gs_fail(GS_E_MEMORY, "no memory for a loader");
    gs_status status = gs_picture_reader_create(&t->reader);
    if (status == GS_OK) return GS_OK;
    free_tools(t);
    *out = NULL;
    return status;
}

/* The messages of a file leave its name out: decode_file puts it before them. */
static gs_status read_file(const char *path, char **file, size_t *bytes) {
    FILE *f;
    uint64_t size;
    const gs_status opened = gs_file_open_stream(path, &f, &size);
    if (opened == GS_E_MEMORY || (opened != GS_OK && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)))
        return gs_fail(GS_E_MEMORY, "cannot be opened: %s", strerror(errno)); /* not the file's fault */
    if (opened != GS_OK)
        return gs_fail(GS_E_FILE, "cannot be read: %s",
                       errno == EINVAL ? "it is no regular file" : strerror(errno));
    gs_status status = GS_OK;
    if (size > GS_FOLDER_FILE)
        status = gs_fail(GS_E_FORMAT, "the file has %llu bytes; at most %d are allowed",
                         (unsigned long long)size, GS_FOLDER_FILE);
    else if (!(*file = malloc((size_t)size + 1)))
        status = gs_fail(GS_E_MEMORY, "no memory for its %llu bytes", (unsigned long long)size);
    else if ((*bytes = fread(*file, 1, (size_t)size, f)) < size && ferror(f))
        status = gs_fail(GS_E_FILE, "cannot be read: %s", strerror(errno));
    fclose(f);
    return status;
}

/* Which part of the file's picture is wanted. */
static gs_view view_of(int size, const gs_sample_request *w, size_t sample, int width, int height) {
    if (!w->augment || !w->augment->resized_crop) return gs_view_centre(width, height, size);
    return gs_view_resized(width, height, size, w->seed, w->epoch, sample);
}

static gs_status decode(folder_tools *t, const void *file, size_t bytes, int size, const gs_sample_request *w,
                        size_t sample, unsigned char *out) {
    const unsigned char *rgb;
    int width, height, small_width, small_height;
    GS_TRY(gs_picture_begin(t->reader, file, bytes, &width, &height));
    const gs_view whole = view_of(size, w, sample, width, height);
    GS_TRY(gs_picture_decode(t->reader, gs_view_shrink(&whole), &rgb, &small_width, &small_height));
    const gs_view view = gs_view_of_small(&whole, width, height, small_width, small_height);
    if (gs_resize(&t->resizer, rgb, small_width, view.across, view.down, size, out)) return GS_OK;
    return gs_fail(GS_E_MEMORY, "no memory to make it %d x %d", size, size);
}

/* File `i` of the list becomes out[3][size][size], as it is shown to sample `sample`: with resized_crop a part of it,
 * else its middle. The message of a failure has its path and its number. */
static gs_status decode_file(folder_tools *t, const gs_folder_list *list, size_t i, int size,
                             const gs_sample_request *w, size_t sample, unsigned char *out) {
    char path[PATH_SIZE], shown[700], *file = NULL;
    size_t bytes = 0;
    gs_status status = gs_folder_path(list, i, path, sizeof path)
                           ? read_file(path, &file, &bytes)
                           : gs_fail(GS_E_FILE, "the path is too long");
    if (status == GS_OK) status = decode(t, file, bytes, size, w, sample, out);
    free(file);
    return gs_context(status, "%s, file %zu of %zu", gs_printable_into(shown, sizeof shown, path, ""), i + 1,
                      list->count);
}

/* ---- one sample ---- */

static bool is_marked(const folder_set *f, size_t i) {
    return f->source.is_broken && __atomic_load_n(&f->source.is_broken[i], __ATOMIC_RELAXED);
}

/* File `i` from the cache, or decoded, and then kept. */
static gs_status bring(folder_set *f, folder_tools *t, size_t i, const gs_sample_request *w, size_t sample,
                       unsigned char *out) {
    const bool resized = w->augment && w->augment->resized_crop;
    gs_decoded *cache = resized ? NULL : f->cache;
    if (cache && gs_decoded_get(cache, i, out)) return GS_OK;
    GS_TRY(decode_file(t, &f->list, i, f->size, w, sample, out));
    if (cache) gs_decoded_put(cache, i, out);
    return GS_OK;
}

static bool may_be_skipped(const folder_set *f, gs_status status) {
    return f->skip_broken && (status == GS_E_FILE || status == GS_E_FORMAT);
}

/* The sentence about a broken file, and how to go on without it. */
static gs_status with_advice(const folder_set *f, gs_status status) {
    if (f->skip_broken || (status != GS_E_FILE && status != GS_E_FORMAT)) return status;
    return gs_fail(status, "%s; remove it, or use --skip-broken where the command takes it", gs_message());
}

/* The first file from *i on that can be decoded; *i becomes its number. */
static gs_status bring_good(folder_set *f, folder_tools *t, size_t *i, const gs_sample_request *w,
                            unsigned char *out) {
    const size_t count = f->list.count, sample = *i;
    for (size_t k = 0; k < count; k++) {
        *i = (sample + k) % count;
        if (is_marked(f, *i)) continue;
        gs_status status = bring(f, t, *i, w, sample, out);
        if (!may_be_skipped(f, status)) return with_advice(f, status);
        __atomic_store_n(&f->source.is_broken[*i], 1, __ATOMIC_RELAXED);
    }
    return gs_fail(GS_E_FORMAT, "%s: none of its %zu files can be decoded", f->list.folder, count);
}

typedef struct reading {
    folder_set *f;
    const gs_dataset *set;
    const gs_sample_request *wanted;
    unsigned char *inputs;
    int32_t *targets;
} reading;

/* What --augment does to a sample after it was cut out. */
static bool is_changed(const gs_augment *a) {
    return a && (a->crop || a->flip || a->cutout);
}

static gs_status read_sample(void *context, void *tools_of, size_t k) {
    const reading *r = context;
    const gs_sample_request *w = r->wanted;
    folder_tools *t = tools_of;
    const size_t sample = gs_sample_request_at(w, k), bytes = gs_dataset_input_bytes(r->set);
    size_t i = sample;
    if (sample >= r->set->count) gs_bug("gs_dataset_gather: sample %zu of %zu", sample, r->set->count);
    unsigned char *out = r->inputs + k * bytes;
    const bool changed = is_changed(w->augment);
    if (changed && !t->picture) t->picture = malloc(bytes); /* all samples of a set have the same size */
    unsigned char *cut = changed ? t->picture : out;
    if (!cut) return gs_fail(GS_E_MEMORY, "no memory for a sample of %zu bytes", bytes);
    GS_TRY(bring_good(r->f, t, &i, w, cut));
    if (changed) gs_augment_picture(w->augment, r->set->shape, 1, w->seed, w->epoch, sample, cut, out);
    if (r->targets) r->targets[k] = r->f->list.files[i].label;
    return GS_OK;
}

static gs_status read_samples(gs_source *source, const gs_dataset *set, const gs_sample_request *w,
                              unsigned char *inputs, int32_t *targets) {
    folder_set *f = (folder_set *)source;
    reading r = {f, set, w, inputs, targets};
    if (inputs) return gs_decode_pool_do(f->pool, w->n, read_sample, &r);
    for (size_t k = 0; targets && k < w->n; k++) targets[k] = f->list.files[gs_sample_request_at(w, k)].label;
    return GS_OK;
}

/* ---- create, free ---- */

static const char *name_of(const gs_source *source, size_t sample) {
    return gs_folder_name(&((const folder_set *)source)->list, sample);
}

static void free_set(gs_source *source) {
    folder_set *f = (folder_set *)source;
    gs_decode_pool_free(f->pool);
    gs_decoded_free(f->cache);
    gs_folder_list_free(&f->list);
    free(f->source.is_broken);
    free(f);
}

static uint32_t checksum_of(const folder_set *f) {
    uint32_t sum = (uint32_t)crc32_z(0, (const void *)&f->size, sizeof f->size);
    for (size_t i = 0; i < f->list.count; i++) {
        const char *name = gs_folder_name(&f->list, i);
        sum = (uint32_t)crc32_z(sum, (const void *)name, strlen(name) + 1);
        sum = (uint32_t)crc32_z(sum, (const void *)&f->list.files[i].label, sizeof(int32_t));
    }
    return sum;
}

/* Whole numbers: the order of the sums does not matter. */
static void add_picture(const unsigned char *picture, size_t plane, uint64_t sum[3], uint64_t squares[3]) {
    for (size_t c = 0; c < 3; c++)
        for (size_t p = 0; p < plane; p++) {
            const unsigned x = picture[c * plane + p];
            sum[c] += x;
            squares[c] += x * x;
        }
}

static gs_status measure_scaling(folder_set *f, const gs_dataset *d) {
    enum { AT_ONCE = 32 };
    const size_t plane = (size_t)f->size * (size_t)f->size,
                 drawn = d->count < GS_FOLDER_DRAWN ? d->count : GS_FOLDER_DRAWN;
    uint32_t *order = malloc(d->count * sizeof *order);
    unsigned char *pictures = malloc(AT_ONCE * 3 * plane);
    uint64_t sum[3] = {0}, squares[3] = {0};
    gs_status status =
        order && pictures ? GS_OK : gs_fail(GS_E_MEMORY, "%s: no memory for its mean", d->name);
    if (order) gs_epoch_order(0, 0, d->count, order);
    for (size_t first = 0; first < drawn && status == GS_OK; first += AT_ONCE) {
        const size_t n = drawn - first < AT_ONCE ? drawn - first : AT_ONCE;
        status = gs_dataset_gather(d, order + first, 0, n, pictures, NULL);
        for (size_t i = 0; i < n && status == GS_OK; i++)
            add_picture(pictures + i * 3 * plane, plane, sum, squares);
    }
    free(order);
    free(pictures);
    GS_TRY(status);
    f->source.scaling = gs_scaling_of_sums(3, (double)drawn * (double)plane, sum, squares);
    return GS_OK;
}

/* *d frees what is made here, also after a failure. */
gs_status gs_folder_set_load(const char *where, gs_split split, const gs_folder_options *o, gs_dataset *d) {
    if (o->size < 0 || o->size > GS_FOLDER_MOST)
        return gs_fail(GS_E_USAGE, "--size %d: wanted 1 to %d", o->size, GS_FOLDER_MOST);
    folder_set *f = calloc(1, sizeof *f);
    if (!f) return gs_fail(GS_E_MEMORY, "%s: no memory", where);
    d->source = &f->source;
    f->source.read = read_samples;
    f->source.free = free_set;
    f->source.name = name_of;
    f->source.scaling = GS_NOT_SCALED;
    f->size = o->size ? o->size : GS_FOLDER_SIZE;
    f->skip_broken = o->skip_broken;
    GS_TRY(gs_folder_list_read(where, split, &f->list));
    f->source.list = &f->list;
    f->source.folder = strrchr(f->list.folder, '/') + 1;
    f->source.is_broken = f->skip_broken ? calloc(f->list.count, 1) : NULL;
    if (f->skip_broken && !f->source.is_broken) return gs_fail(GS_E_MEMORY, "%s: no memory", where);
    f->source.checksum = checksum_of(f);
    d->count = f->list.count;
    d->classes = f->list.classes.count;
    d->names = f->list.classes;
    f->list.classes = (gs_class_names){0};
    d->shape = (gs_shape){3, f->size, f->size, 0};
    snprintf(d->kind, sizeof d->kind, "pictures in %d folders", d->classes);
    GS_TRY(gs_decode_pool_create(o->loaders > 0 ? o->loaders : 1,
                                 (gs_decode_pool_tools){create_tools, free_tools}, &f->pool));
    if (o->cache) GS_TRY(gs_decoded_create(d->count, gs_shape_size(d->shape), &f->cache));
    return split == GS_TRAIN ? measure_scaling(f, d) : GS_OK;
}
