#include "optim/tensors.h"

#include "optim/norm.h"

/* Part i of what this worker updates. Without gs_held, part 0 is everything or, in a warm-up, what the vectors hold. */
static bool part_of(const gs_optimizer *o, int i, gs_held_shard *out) {
    const gs_model *m = o->model;
    if (o->divided && i < o->divided->parts) *out = o->divided->part[i];
    if (o->divided) return i < o->divided->parts;
    *out = (gs_held_shard){.count = o->held, .weights = m->weights, .gradients = m->gradients};
    return i == 0;
}

/* A tensor may span several parts, and a part several tensors: both are traversed in order. */
bool gs_next_tensor_shard(const gs_optimizer *o, gs_tensor_shard *t) {
    const gs_model *m = o->model;
    gs_held_shard part;
    int number = t->param ? t->number + 1 : 0;
    for (int in = t->in; part_of(o, in, &part); in++, number = 0)
        for (; number < m->param_count; number++) {
            const gs_param *p = m->param[number];
            const size_t first = p->at > part.first ? p->at : part.first,
                         end = gs_smaller(p->at + p->count, part.first + part.count);
            if (first >= end) continue;
            const size_t skipped = first - part.first;
            *t = (gs_tensor_shard){p,
                                   number,
                                   end - first,
                                   gs_at(part.weights, skipped),
                                   gs_at(part.gradients, skipped),
                                   part.vector_at + skipped,
                                   part.counted,
                                   in};
            return true;
        }
    return false;
}

/* Find each tensor's largest element and, if the parameters are not divided, its sum of squares. If they are, a second
 * call with `sums` adds squares, in units that suit all workers' largest element. Shared parts count once. */
static gs_status add_squares(const gs_optimizer *o, bool of_gradients, bool sums) {
    int64_t *largest = o->squares, *high = largest + o->model->param_count,
            *low = high + o->model->param_count;
    gs_device *d = o->model->device;
    for (gs_tensor_shard t = {0}; gs_next_tensor_shard(o, &t);) {
        gs_squares s;
        if (!gs_is_adapted(t.param) || (sums && !t.counted)) continue;
        const uint32_t top = sums ? (uint32_t)(largest[t.number] >> 23) : 0;
        GS_TRY(d->ops->squares(d, of_gradients ? t.gradients : t.weights, t.count, top, &s));
        if (!sums && s.largest > largest[t.number]) largest[t.number] = s.largest;
        if (!sums && o->divided) continue;
        high[t.number] += (int64_t)s.high;
        low[t.number] += (int64_t)s.low;
    }
    return GS_OK;
}

gs_status gs_tensor_norms(gs_optimizer *o, bool of_gradients, double *norm) {
    const size_t count = (size_t)o->model->param_count;
    int64_t *largest = o->squares, *high = largest + count, *low = high + count;
    memset(o->squares, 0, 3 * count * sizeof *o->squares);
    GS_TRY(add_squares(o, of_gradients, false));
    if (o->divided) {
        GS_TRY(o->divided->reduce(o->divided->context, largest, count, true));
        GS_TRY(add_squares(o, of_gradients, true));
        GS_TRY(o->divided->reduce(o->divided->context, high, 2 * count, false));
    }
    for (size_t i = 0; i < count; i++) {
        const uint32_t top = (uint32_t)(largest[i] >> 23);
        const gs_squares s = {(uint32_t)largest[i], top > 0 ? top : 1, (uint64_t)high[i], (uint64_t)low[i]};
        norm[i] = gs_norm_of(&s);
    }
    return GS_OK;
}
