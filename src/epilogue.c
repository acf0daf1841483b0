#include "backend.h"

gs_epilogue gs_epilogue_of(gs_device *d, const gs_epilogue *then, const gs_conv2d_sizes *s) {
    if (!then || (!then->relu && !then->pool)) return (gs_epilogue){.relu = false};
    const gs_pool2d_sizes *p = then->pool;
    if (!d->ops->fuses(d, then)) gs_bug("%s: an epilogue that this device does not take", d->name);
    if (s && gs_conv2d_is_grouped(s)) gs_bug("%s: conv2d with groups or dilation, and an epilogue", d->name);
    if (p && !s) gs_bug("%s: linear with a pooling", d->name);
    if (p && (p->c != s->out_c || p->in_h != s->out_h || p->in_w != s->out_w))
        gs_bug("%s: conv2d's y is (%d,%d,%d), its epilogue pools (%d,%d,%d)", d->name, s->out_c, s->out_h,
               s->out_w, p->c, p->in_h, p->in_w);
    return *then;
}
