/* A list of lives. */
#include "layer/memory/arena.h"

#include <stdlib.h>
#include "core/memory.h"

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
