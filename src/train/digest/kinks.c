/* The kinks of relu and max_pool2d: see digest.h. Forward notes the bin of each gap, and backward, which has dy, adds
 * it up. A pipeline has several passes under way at once, so the notes of each wait for its own backward. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "layer/window.h"
#include "train/digest/record.h"

static bool is_relu(const gs_layer *l) {
    return strcmp(l->ops->name, "relu") == 0;
}

static bool is_max_pool(const gs_layer *l) {
    return strcmp(l->ops->name, "max_pool2d") == 0;
}

/* 0: there is no gap. A NaN has none. */
static uint8_t bin_of(float gap) {
    if (!(gap > 0)) return 0;
    if (isinf(gap)) return GS_KINK_BINS - 1;
    const int bin = ilogbf(gap) - GS_KINK_LEAST;
    return (uint8_t)(bin < 1 ? 1 : bin < GS_KINK_BINS ? bin : GS_KINK_BINS - 1);
}

/* ---- forward ---- */

static gs_kink_pass *waiting(gs_digest *d, int layer, size_t first) {
    for (int i = 0; i < d->kink_passes; i++)
        if (d->kink_pass[i].waits && d->kink_pass[i].layer == layer && d->kink_pass[i].first == first)
            return &d->kink_pass[i];
    return NULL;
}

/* One that waits for nothing any more, with room for so many gaps. */
static gs_status new_pass(gs_digest *d, const gs_layer *l, size_t first, size_t count, gs_kink_pass **out) {
    int i = 0;
    while (i < d->kink_passes && (d->kink_pass[i].waits || d->kink_pass[i].layer != l->number)) i++;
    if (i == d->kink_passes) {
        gs_kink_pass *more = realloc(d->kink_pass, (size_t)(i + 1) * sizeof *more);
        if (!more) return gs_fail(GS_E_MEMORY, "--digest: no memory for %d passes", i + 1);
        d->kink_pass = more;
        more[i] = (gs_kink_pass){.layer = l->number};
        d->kink_passes++;
    }
    gs_kink_pass *p = *out = &d->kink_pass[i];
    if (count > p->room) {
        free(p->bin);
        p->room = 0;
        p->bin = malloc(count);
        if (!p->bin)
            return gs_fail(GS_E_MEMORY, "--digest: no memory for %zu gaps of layer %s", count, l->name);
        p->room = count;
    }
    p->first = first;
    p->waits = true;
    return GS_OK;
}

/* The largest of window (row, column) less the second largest. */
static float gap_of_window(const gs_pool2d_sizes *s, const float *x, int row, int column) {
    float most = -INFINITY, second = -INFINITY;
    for (int u = 0; u < s->kernel_h; u++)
        for (int v = 0; v < s->kernel_w; v++) {
            const int h = row * s->stride_h + u - s->pad_h, w = column * s->stride_w + v - s->pad_w;
            if (h < 0 || h >= s->in_h || w < 0 || w >= s->in_w) continue;
            const float value = x[(ptrdiff_t)h * s->in_w + w];
            if (value > most) {
                second = most;
                most = value;
            } else if (value > second)
                second = value;
        }
    return most - second;
}

gs_status gs_digest_kinks_before(gs_digest *d, const gs_layer *l, const gs_pass *pass, gs_mem x) {
    if (!is_max_pool(l) || d->layer[l->number].y.elsewhere) return GS_OK;
    const gs_pool2d_sizes *s = gs_layer_pool_sizes(l);
    const size_t in = gs_shape_size(l->in), count = pass->n * gs_shape_size(l->out),
                 plane = (size_t)s->in_h * (size_t)s->in_w, windows = (size_t)s->out_h * (size_t)s->out_w;
    gs_kink_pass *p;
    GS_TRY(new_pass(d, l, pass->first, count, &p));
    GS_TRY(gs_digest_fetch(d, x, pass->n * in));
    for (size_t i = 0; i < count; i++) {
        const size_t at = i % windows;
        p->bin[i] = bin_of(gap_of_window(s, d->room + i / windows * plane, (int)(at / (size_t)s->out_w),
                                         (int)(at % (size_t)s->out_w)));
    }
    return GS_OK;
}

gs_status gs_digest_kinks_after(gs_digest *d, const gs_layer *l, const gs_pass *pass, gs_mem y) {
    if (!is_relu(l) || d->layer[l->number].y.elsewhere) return GS_OK;
    const size_t count = pass->n * gs_shape_size(l->out);
    gs_kink_pass *p;
    GS_TRY(new_pass(d, l, pass->first, count, &p));
    GS_TRY(gs_digest_fetch(d, y, count));
    for (size_t i = 0; i < count; i++) p->bin[i] = bin_of(d->room[i]);
    return GS_OK;
}

/* ---- backward ---- */

static gs_kink_bin *bins(gs_digest *d, int layer, int eighth) {
    return &d->kink[((size_t)layer * GS_DIGEST_EIGHTHS + (size_t)eighth) * GS_KINK_BINS];
}

/* How much of |dy|, and of dy^2, another choice changes. */
typedef struct jump {
    double sum, squares;
} jump;

static int windows_with(int kernel, int stride) {
    return (kernel + stride - 1) / stride;
}

static jump jump_of(const gs_layer *l) {
    if (is_relu(l)) return (jump){1, 1};
    const gs_pool2d_sizes *s = gs_layer_pool_sizes(l);
    return (jump){2, 2 * windows_with(s->kernel_h, s->stride_h) * windows_with(s->kernel_w, s->stride_w)};
}

gs_status gs_digest_kinks_backward(gs_digest *d, const gs_layer *l, const gs_pass *pass, gs_mem dy) {
    gs_kink_pass *p = waiting(d, l->number, pass->first);
    if (!p) return GS_OK;
    const size_t each = gs_shape_size(l->out);
    const jump j = jump_of(l);
    GS_TRY(gs_digest_fetch(d, dy, pass->n * each));
    for (size_t i = 0; i < pass->n * each; i++) {
        if (p->bin[i] == 0) continue;
        const int eighth = gs_digest_eighth(pass->first + i / each, d->worker->piece.batch);
        gs_kink_bin *to = bins(d, l->number, eighth) + p->bin[i];
        const double v = (double)d->room[i];
        to->n++;
        to->sum += j.sum * fabs(v);
        to->squares += j.squares * v * v;
    }
    p->waits = false;
    return GS_OK;
}

/* ---- the step ends ---- */

static void write_line(gs_digest *d, uint64_t step, int layer, int eighth) {
    const gs_kink_bin *of = bins(d, layer, eighth);
    int first = 0, end = GS_KINK_BINS;
    while (first < end && !(of[first].n > 0)) first++;
    while (end > first && !(of[end - 1].n > 0)) end--;
    if (first == end) return;
    fprintf(d->text, "kink %" PRIu64 " %d %d %d %d", step, layer, eighth, first + GS_KINK_LEAST, end - first);
    for (int b = first; b < end; b++) fprintf(d->text, " %.0f %.4g %.4g", of[b].n, of[b].sum, of[b].squares);
    fputc('\n', d->text);
}

void gs_digest_kinks_write(gs_digest *d, uint64_t step) {
    for (int l = 0; l < d->numbers; l++)
        for (int e = 0; e < GS_DIGEST_EIGHTHS; e++) write_line(d, step, l, e);
    memset(d->kink, 0, (size_t)d->numbers * GS_DIGEST_EIGHTHS * GS_KINK_BINS * sizeof *d->kink);
    for (int i = 0; i < d->kink_passes; i++) d->kink_pass[i].waits = false;
}

void gs_digest_kinks_free(gs_digest *d) {
    for (int i = 0; i < d->kink_passes; i++) free(d->kink_pass[i].bin);
    free(d->kink_pass);
    free(d->kink);
}
