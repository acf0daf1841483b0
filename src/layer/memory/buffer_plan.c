#include "layer/memory/buffer_plan.h"

#include <stdlib.h>
#include "core/memory.h"
#include "layer/make.h"

/* ---- a list of lifetimes ---- */

/* Adds one cache line, as every allocation does, because operators may read a vector that starts in the buffer and ends
 * after it. For f32 it adds two, so that two 16-bit buffers with as many numbers fit into the same memory. */
static size_t room_for(size_t numbers, bool half) {
    const size_t floats = (numbers + 1) / 2, lines = (floats + 2 * GS_LINE_FLOATS - 1) / GS_LINE_FLOATS;
    return lines * GS_LINE_FLOATS * (half ? 1 : 2);
}

int gs_lifetimes_add(gs_lifetimes *l, size_t numbers, bool half, int born, int dies) {
    if (!gs_grow(&l->life, l->count, &l->room, sizeof *l->life)) return -1;
    l->life[l->count] = (gs_lifetime){
        .floats = room_for(numbers, half), .born = born, .pause = born, .resume = born, .dies = dies};
    return (int)l->count++;
}

void gs_lifetimes_free(gs_lifetimes *l) {
    free(l->life);
    *l = (gs_lifetimes){0};
}

/* ---- lifetimes of the buffers ---- */

static int take(gs_buffer_plan *p, gs_shape sample, bool half, int born) {
    return gs_lifetimes_add(&p->lifetimes, p->max_batch * gs_shape_size(sample), half, born, GS_FOREVER);
}

int gs_buffer_plan_y(gs_buffer_plan *p, gs_layer *l) {
    return l->memory.y_buffer = take(p, gs_layer_y_shape(l), l->memory.y_half, 0);
}

int gs_buffer_plan_dx(gs_buffer_plan *p, gs_layer *l) {
    return l->memory.dx_buffer = take(p, l->in, l->memory.x_half, p->now);
}

void gs_buffer_plan_release(gs_buffer_plan *p, int buffer) {
    if (buffer >= 0) p->lifetimes.life[buffer].dies = p->now;
}

/* Containers do not read their y. An element-wise layer may read it: GS_ELEMENT_WISE leaves that open. */
bool gs_layer_reads_y(const gs_layer *l) {
    return l->epilogue.relu || l->epilogue.pool || l->ops->buffers == GS_READS_Y ||
           l->ops->buffers == GS_ELEMENT_WISE;
}

static gs_status come_back(gs_layer *l, void *context) {
    const gs_buffer_plan *p = context;
    if (l->memory.y_buffer < 0 || l->memory.rerun != GS_RERUN_WHOLE) return GS_OK;
    gs_lifetime *life = &p->lifetimes.life[l->memory.y_buffer];
    if (gs_lifetime_has_gap(life)) life->resume = p->now;
    return GS_OK;
}

void gs_buffer_plan_rerun(gs_buffer_plan *p, gs_layer *l) {
    (void)gs_layer_walk(l, come_back, p);
}

int gs_buffer_plan_backward(gs_layer *l, gs_buffer_plan *p, int dy) {
    const bool first = p->rerun > 0 && p->rerun == p->now; /* after a second forward */
    /* its y was not computed again, so it was last read in the step before the second forward */
    const int before = first && l->memory.rerun != GS_RERUN_WHOLE ? p->now - 1 : p->now;
    if (l->children == 0 || !l->ops->plan_backward) p->now++;
    l->memory.backward_step = p->now;
    if (l->memory.y_buffer >= 0 && (l->children == 0 || l->ops->plan_backward))
        p->lifetimes.life[l->memory.y_buffer].dies = gs_layer_reads_y(l) ? p->now : before;
    if (l->ops->plan_backward) return l->ops->plan_backward(l, p, dy);
    if (l->ops->buffers == GS_VIEW || l->dx_over_dy) return l->needs_dx ? dy : GS_NO_BUFFER;
    if (!l->needs_dx || l->children > 0) return GS_NO_BUFFER;
    return gs_buffer_plan_dx(p, l);
}
