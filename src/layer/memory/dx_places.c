#include "layer/memory/dx_places.h"

#include <stdlib.h>
#include "core/memory.h"
#include "layer/make.h"

/* ---- a list of lives ---- */

/* One line more, as each allocation has: operators may read a vector that begins inside. In f32 two, so that two of as
 * many numbers in 16 bits fit into the place. */
static size_t room_for(size_t numbers, bool half) {
    const size_t floats = (numbers + 1) / 2, lines = (floats + 2 * GS_LIFE_LINE - 1) / GS_LIFE_LINE;
    return lines * GS_LIFE_LINE * (half ? 1 : 2);
}

int gs_lives_add(gs_lives *l, size_t numbers, bool half, int born, int dies) {
    if (!gs_grow(&l->life, l->count, &l->room, sizeof *l->life)) return -1;
    l->life[l->count] =
        (gs_life){.floats = room_for(numbers, half), .born = born, .away = born, .back = born, .dies = dies};
    return (int)l->count++;
}

void gs_lives_free(gs_lives *l) {
    free(l->life);
    *l = (gs_lives){0};
}

/* ---- who lives when ---- */

static int take(gs_dx_places *p, gs_shape sample, bool half, int born) {
    return gs_lives_add(&p->lives, p->max_batch * gs_shape_size(sample), half, born, GS_FOREVER);
}

int gs_y_take(gs_dx_places *p, gs_layer *l) {
    l->memory.y_place = GS_DX_NONE;
    if (l->ops->buffers == GS_VIEW || l->y_over_x) return GS_DX_NONE;
    return l->memory.y_place = take(p, gs_layer_y_shape(l), l->memory.y_half, 0);
}

int gs_dx_take(gs_dx_places *p, gs_layer *l) {
    return l->memory.dx_place = take(p, l->in, l->memory.x_half, p->now);
}

void gs_dx_release(gs_dx_places *p, int place) {
    if (place >= 0) p->lives.life[place].dies = p->now;
}

/* Containers do not read their y. An element-wise layer may: GS_ELEMENT_WISE does not tell. */
bool gs_y_is_read(const gs_layer *l) {
    return l->then.relu || l->then.pool || l->ops->buffers == GS_READS_Y ||
           l->ops->buffers == GS_ELEMENT_WISE;
}

static gs_status come_back(gs_layer *l, void *context) {
    const gs_dx_places *p = context;
    if (l->memory.y_place < 0 || l->memory.again != GS_AGAIN_WHOLE) return GS_OK;
    gs_life *life = &p->lives.life[l->memory.y_place];
    if (gs_life_has_gap(life)) life->back = p->now;
    return GS_OK;
}

void gs_y_again(gs_dx_places *p, gs_layer *l) {
    (void)gs_layer_walk(l, come_back, p);
}

int gs_dx_place(gs_layer *l, gs_dx_places *p, int dy) {
    const bool first = p->again > 0 && p->again == p->now; /* after a second forward */
    /* its y was not made again, so it was last read in the step before the second forward */
    const int before = first && l->memory.again != GS_AGAIN_WHOLE ? p->now - 1 : p->now;
    if (l->children == 0 || !l->ops->place_dx) p->now++;
    l->memory.backward_step = p->now;
    if (l->memory.y_place >= 0 && (l->children == 0 || l->ops->place_dx))
        p->lives.life[l->memory.y_place].dies = gs_y_is_read(l) ? p->now : before;
    if (l->ops->place_dx) return l->ops->place_dx(l, p, dy);
    if (l->ops->buffers == GS_VIEW || l->dx_over_dy) return l->needs_dx ? dy : GS_DX_NONE;
    if (!l->needs_dx || l->children > 0) return GS_DX_NONE;
    return gs_dx_take(p, l);
}
