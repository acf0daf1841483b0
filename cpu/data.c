#include "cpu/cpu.h"

/* bytes_to_float and one_hot: convert stored samples to tensors. */

typedef struct bytes_work {
    float *to;
    const unsigned char *from;
    const gs_byte_scale *scale;
    size_t count;
    int parts;
} bytes_work;

static void bytes_part(void *context, int part) {
    const bytes_work *t = context;
    const gs_byte_scale *s = t->scale;
    gs_range r = gs_cpu_range(t->count, part, t->parts);
    float *restrict to = t->to;
    /* plane by plane, so that scale and shift are constant in the inner loop */
    const size_t plane = s->channels > 1 ? s->plane : t->count;
    for (size_t i = r.begin; i < r.end;) {
        const size_t place = i / plane, next = (place + 1) * plane, end = next < r.end ? next : r.end;
        const size_t c = place % (size_t)s->channels;
        const float scale = s->scale[c], shift = s->shift[c];
        for (; i < end; i++) to[i] = scale * (float)t->from[i] + shift;
    }
}

gs_status GS_ISA(gs_cpu_bytes_to_float)(gs_device *d, gs_mem y, gs_mem bytes, const gs_byte_scale *scale,
                                        size_t count) {
    bytes_work t = {gs_cpu_floats(y), bytes.base, scale, count,
                    gs_cpu_fine_parts(d, count, 1 << 14, 1 << 14)};
    return gs_cpu_run(d, t.parts, bytes_part, &t);
}

gs_status GS_ISA(gs_cpu_one_hot)(gs_device *d, gs_mem y, gs_mem labels, size_t n, int classes) {
    (void)d;
    const int32_t *label = gs_cpu_ints(labels);
    float *to = gs_cpu_floats(y);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < classes; k++) *to++ = label[i] == k ? 1.0f : 0.0f;
    return GS_OK;
}
