/* A list of lives. */
#include "layer/memory/arena.h"

#include <stdlib.h>
#include "core/memory.h"

int gs_lives_add(gs_lives *l, size_t floats, int born, int dies) {
    if (!gs_grow(&l->life, l->count, &l->room, sizeof *l->life)) return -1;
    /* one line more, as each allocation has: operators may read a vector that begins inside */
    const size_t whole = (floats + 2 * GS_LIFE_LINE - 1) / GS_LIFE_LINE * GS_LIFE_LINE;
    l->life[l->count] = (gs_life){.floats = whole, .born = born, .away = born, .back = born, .dies = dies};
    return (int)l->count++;
}

void gs_lives_free(gs_lives *l) {
    free(l->life);
    *l = (gs_lives){0};
}
