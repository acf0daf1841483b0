/* Sets of numbers that the caller has in memory. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "data/dataset.h"

/* A copy of count x each floats; NULL: no memory for it. */
static float *copy_of(const float *from, size_t count, size_t each) {
    size_t bytes;
    if (__builtin_mul_overflow(count, each * sizeof *from, &bytes)) return NULL;
    float *copy = malloc(bytes);
    return copy ? memcpy(copy, from, bytes) : NULL;
}

static gs_status copy_labels(gs_dataset *d, int each, const int32_t *labels) {
    size_t count;
    if (each < 1) return gs_fail(GS_E_USAGE, "%s: %d labels per sample; wanted at least 1", d->name, each);
    d->labels_each = each;
    d->labels = __builtin_mul_overflow(d->count, (size_t)each, &count) ? NULL : malloc(count);
    if (!d->labels) return gs_fail(GS_E_MEMORY, "%s: no memory for %zu x %d labels", d->name, d->count, each);
    for (size_t i = 0; i < count; i++) {
        if (labels[i] < 0 || labels[i] > UCHAR_MAX)
            return gs_fail(GS_E_FORMAT, "%s: the label of sample %zu is %d; wanted 0 to %d", d->name,
                           i / (size_t)each, labels[i], UCHAR_MAX);
        d->labels[i] = (unsigned char)labels[i];
        if (labels[i] >= d->classes) d->classes = labels[i] + 1;
    }
    return GS_OK;
}

static gs_status copy_targets(gs_dataset *d, int outputs, const float *targets) {
    if (outputs < 1)
        return gs_fail(GS_E_USAGE, "%s: %d targets per sample; wanted at least 1", d->name, outputs);
    d->outputs = outputs;
    d->targets = copy_of(targets, d->count, (size_t)outputs);
    return d->targets
               ? GS_OK
               : gs_fail(GS_E_MEMORY, "%s: no memory for %zu x %d targets", d->name, d->count, outputs);
}

static gs_status copy_inputs(gs_dataset *d, gs_shape shape, const float *inputs) {
    if (d->count == 0) return gs_fail(GS_E_USAGE, "%s: there are no samples", d->name);
    if (d->count > UINT32_MAX)
        return gs_fail(GS_E_USAGE, "%s: %zu samples; at most %u are allowed", d->name, d->count, UINT32_MAX);
    if (!gs_shape_is_positive(shape) || !gs_shape_fits(shape))
        return gs_fail(GS_E_USAGE, "%s: a sample is %s; wanted sizes of at least 1, and at most %d numbers",
                       d->name, gs_shape_tuple(shape).text, GS_SHAPE_MOST);
    d->shape = shape;
    d->inputs = copy_of(inputs, d->count, gs_shape_size(shape));
    if (d->inputs) return GS_OK;
    return gs_fail(GS_E_MEMORY, "%s: no memory for %zu samples of %s", d->name, d->count,
                   gs_shape_tuple(shape).text);
}

static gs_status named(const char *name, size_t count, gs_dataset **out) {
    GS_TRY(GS_NEW(*out, 1, "%s", name));
    snprintf((*out)->name, sizeof(*out)->name, "%s", name);
    (*out)->count = count;
    return GS_OK;
}

static gs_status done(gs_status status, gs_dataset **d) {
    if (status == GS_OK) return GS_OK;
    gs_dataset_free(*d);
    *d = NULL;
    return status;
}

gs_status gs_dataset_from_labels(const char *name, size_t count, gs_shape shape, const float *inputs,
                                 const int32_t *labels, gs_dataset **out) {
    return gs_dataset_from_token_labels(name, count, shape, inputs, 1, labels, out);
}

gs_status gs_dataset_from_token_labels(const char *name, size_t count, gs_shape shape, const float *inputs,
                                       int each, const int32_t *labels, gs_dataset **out) {
    GS_TRY(named(name, count, out));
    gs_status status = copy_inputs(*out, shape, inputs);
    if (status == GS_OK) status = copy_labels(*out, each, labels);
    return done(status, out);
}

gs_status gs_dataset_from_targets(const char *name, size_t count, gs_shape shape, const float *inputs,
                                  int outputs, const float *targets, gs_dataset **out) {
    GS_TRY(named(name, count, out));
    gs_status status = copy_inputs(*out, shape, inputs);
    if (status == GS_OK) status = copy_targets(*out, outputs, targets);
    return done(status, out);
}
