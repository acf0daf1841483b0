#include "cli/step/step.h"

#include <stdlib.h>

static int compare_sizes(const void *a, const void *b) {
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

gs_status gs_step_chunks(const gs_step_record *s, size_t **bounds, int *chunks) {
    size_t room = 1, used = 0, unique = 0;
    for (int i = 0; i < s->count; i++) room += (size_t)s->events[i].count + 1;
    size_t *b = malloc(room * sizeof *b);
    if (!b) return gs_fail(GS_E_MEMORY, "no memory for the chunks of a step");
    for (int i = 0; i < s->count; i++) {
        const gs_step_event *e = &s->events[i];
        for (int p = 0; p < e->count; p++) b[used++] = e->parts[p].first;
        b[used++] = e->parts[e->count - 1].first + e->parts[e->count - 1].count;
    }
    qsort(b, used, sizeof *b, compare_sizes);
    for (size_t i = 0; i < used; i++)
        if (i == 0 || b[i] != b[unique - 1]) b[unique++] = b[i];
    *bounds = b;
    *chunks = (int)unique - 1;
    return GS_OK;
}

int gs_step_chunk_at(const size_t *bounds, size_t element) {
    int c = 0;
    while (bounds[c] < element) c++;
    return c;
}

const gs_step_part *gs_step_part_at(const gs_step_event *e, size_t element) {
    int p = 0;
    while (e->parts[p].first + e->parts[p].count <= element) p++;
    return &e->parts[p];
}
