/* What the parts of an update count in norms (gs_held), where a group divides some tensors and repeats others. */
#include <stdlib.h>

#include "train/ways/tensor.h"

/* Tensors after each other that are alike: where they end, and whether the group repeats them. */
static size_t end_of_run(const gs_model *m, size_t at, bool *repeated) {
    size_t end = at;
    for (int i = 0; i < m->param_count; i++) {
        const gs_param *p = m->param[i];
        if (p->at + p->count <= at) continue;
        const bool same = p->cut == GS_UNCUT;
        if (end == at) *repeated = same;
        if (same != *repeated) break;
        end = p->at + p->count;
    }
    return end;
}

static gs_held_part *cut_one(const gs_model *m, gs_held_part rest, gs_held_part *to) {
    while (rest.count > 0) {
        bool repeated = false;
        const size_t end = end_of_run(m, rest.first, &repeated),
                     here = end - rest.first < rest.count ? end - rest.first : rest.count;
        *to = rest;
        to->count = here;
        to->counted &= !repeated || m->tensor.rank == 0;
        to++;
        rest.first += here;
        rest.vector_at += here;
        rest.weights = gs_at(rest.weights, here);
        rest.gradients = gs_at(rest.gradients, here);
        rest.count -= here;
    }
    return to;
}

gs_status gs_tensor_cut_held(const gs_model *m, gs_held_part **part, int *parts) {
    if (!m->undivided) return GS_OK;
    const size_t most =
        (size_t)*parts + (size_t)m->param_count * 2; /* borders are in one part, or a rest, each */
    gs_held_part *list = calloc(most + 1, sizeof *list), *to = list;
    if (!list) return gs_fail(GS_E_MEMORY, "--tensor: no memory for a list of %zu parts", most);
    for (int i = 0; i < *parts; i++) {
        if ((*part)[i].count == 0) *to++ = (*part)[i];
        to = cut_one(m, (*part)[i], to);
    }
    free(*part);
    *part = list;
    *parts = (int)(to - list);
    return GS_OK;
}
