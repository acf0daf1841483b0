#include "data/view.h"

#include "core/philox.h"

#include <math.h>

/* `full` pixels of all, of which the middle is cut out; halves to even, as Python rounds. */
static gs_resize_axis middle(int pixels, int full, int size) {
    return (gs_resize_axis){0, pixels, full, (int)rint((full - size) / 2.0)};
}

gs_view gs_view_centre(int width, int height, int size) {
    const int64_t edge = ((int64_t)size * 256 + 112) / 224, side = width < height ? width : height;
    return (gs_view){middle(width, (int)(edge * width / side), size),
                     middle(height, (int)(edge * height / side), size)};
}

static gs_view cut(int left, int top, int w, int h, int size) {
    return (gs_view){{left, left + w, size, 0}, {top, top + h, size, 0}};
}

gs_view gs_view_resized(int width, int height, int size, uint64_t seed, uint64_t epoch, size_t sample) {
    const uint64_t stream = gs_stream_hi(GS_STREAM_AUGMENT, epoch);
    for (uint64_t attempt = 0; attempt < 10; attempt++) {
        uint32_t word[4]; /* the upper half of the counters: augment.c has the lower */
        gs_philox(seed, stream, 1ull << 63 | (uint64_t)sample << 4 | attempt, word);
        const double area = (double)width * height * (0.08 + 0.92 * (double)gs_uniform(word[0])),
                     ratio = exp(log(4.0 / 3) * (2 * (double)gs_uniform(word[1]) - 1));
        const double w = rint(sqrt(area * ratio)), h = rint(sqrt(area / ratio));
        if (w < 1 || h < 1 || w > width || h > height) continue;
        const int left = gs_random_below(word[2], width - (int)w + 1),
                  top = gs_random_below(word[3], height - (int)h + 1);
        return cut(left, top, (int)w, (int)h, size);
    }
    int w = width, h = height;
    if (4 * (int64_t)w < 3 * (int64_t)h)
        h = (int)rint(w * 4.0 / 3);
    else if (3 * (int64_t)w > 4 * (int64_t)h)
        w = (int)rint(h * 4.0 / 3);
    return cut((width - w) / 2, (height - h) / 2, w, h, size);
}

int gs_view_shrink(const gs_view *v) {
    int shrink = 8;
    while (shrink > 1 && (v->across.hi - v->across.lo < 2 * shrink * v->across.full ||
                          v->down.hi - v->down.lo < 2 * shrink * v->down.full))
        shrink /= 2;
    return shrink;
}

static gs_resize_axis of_small(gs_resize_axis a, int pixels, int small) {
    const int64_t lo = (int64_t)a.lo * small / pixels, hi = ((int64_t)a.hi * small + pixels - 1) / pixels;
    return (gs_resize_axis){(int)lo, (int)hi, a.full, a.first};
}

gs_view gs_view_of_small(const gs_view *v, int width, int height, int small_width, int small_height) {
    return (gs_view){of_small(v->across, width, small_width), of_small(v->down, height, small_height)};
}
