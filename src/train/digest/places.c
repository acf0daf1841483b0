#include "train/digest/record.h"

#include "layer/parallel/tensor.h"

/* ---- arrays of samples ---- */

static const gs_layer *find(const gs_layer *l, int number) {
    const gs_layer *found = l->number == number ? l : NULL;
    for (int i = 0; i < l->children && !found; i++) found = find(l->child[i], number);
    return found;
}

/* In how many equal parts a token's numbers lie: 1, or 3 where q, k and v follow each other inside a pair. */
static int blocks_of(const gs_layer *l, bool input) {
    const bool has = l->part && input == (l->ops->tensor == GS_TENSOR_HEADS);
    return has ? l->part->blocks : 1;
}

gs_digest_vector gs_digest_vector_of(const gs_model *m, const gs_layer *l, bool input) {
    const gs_shape here = input ? l->in : l->out;
    const size_t each = gs_shape_size(here);
    gs_digest_vector v = {.each = each, .whole = each, .runs = 1, .floats = each, .blocks = 1};
    if (!m->undivided) return v;
    const gs_layer *of_all = find(m->undivided->net, l->number);
    const gs_shape all = input ? of_all->in : of_all->out;
    const bool tokens =
        gs_shape_tokens(all) != gs_shape_tokens(here); /* this member has some (parallel/sequence.h) */
    v.elsewhere = all.c == here.c && !tokens && m->tensor.rank > 0;
    if (all.c == here.c && !tokens) return v;
    if (tokens) {
        v.whole = gs_shape_size(all);
        v.first = each * (size_t)m->tensor.rank;
        return v;
    }
    const size_t plane = (size_t)here.h * (size_t)here.w;
    const int blocks = blocks_of(l, input);
    const gs_share share = gs_tensor_share(&m->tensor, all.c / blocks);
    v.whole = gs_shape_size(all);
    v.blocks = (size_t)blocks;
    v.runs = (size_t)gs_shape_tokens(here) * v.blocks;
    v.floats = (size_t)here.c / v.blocks * plane;
    v.whole_step = (size_t)all.c / v.blocks * plane;
    v.first = (size_t)gs_share_first(&share) * plane;
    return v;
}

void gs_digest_add_vector(gs_numbers *to, const gs_digest_vector *v, const float *x, uint64_t sample) {
    for (size_t i = 0; i < v->runs && !v->elsewhere; i++)
        gs_numbers_add(to, x + i * v->floats, v->floats, sample * v->whole + i * v->whole_step + v->first);
}

/* ---- parameters ---- */

bool gs_digest_add_param(gs_numbers *to, const gs_model *m, int p, const float *x, size_t from,
                         size_t count) {
    const gs_param *part = m->param[p];
    if (!m->undivided) {
        gs_numbers_add(to, x, count, part->at + from);
        return true;
    }
    const size_t at = m->undivided->param[p]->at;
    if (part->cut == GS_UNCUT && m->tensor.rank > 0) return false;
    const gs_tensor_rows r = gs_tensor_rows_of(part, m->tensor.rank, m->tensor.size);
    for (size_t done = 0; done < count;) {
        const size_t run = (from + done) / r.floats, inside = (from + done) % r.floats,
                     rest = r.floats - inside, n = rest < count - done ? rest : count - done;
        gs_numbers_add(to, x + done, n, at + r.whole_first + run * r.whole_step + inside);
        done += n;
    }
    return true;
}
