/* What a group sends where sequences are divided (parallel/sequence.h): a rank's tokens lie among those of the others
 * in each sample, but a message is one piece. So they are put in the order of ranks before, or after:
 *
 *     whole     sample 0: rank 0, rank 1     sample 1: rank 0, rank 1
 *     in order  rank 0: sample 0, sample 1   rank 1: sample 0, sample 1
 */
#include "comm/device.h"
#include "train/tensor/tensor.h"

static void to_order(const gs_token_parts *t, const gs_device *d, const float *whole) {
    const size_t ranks = (size_t)t->group->size;
    for (size_t r = 0; r < ranks; r++)
        for (size_t i = 0; i < t->n; i++)
            gs_host_copy(d, t->ordered + (r * t->n + i) * t->each, whole + (i * ranks + r) * t->each,
                         t->each * sizeof *whole);
}

static void from_order(const gs_token_parts *t, const gs_device *d, float *whole) {
    const size_t ranks = (size_t)t->group->size;
    for (size_t r = 0; r < ranks; r++)
        for (size_t i = 0; i < t->n; i++)
            gs_host_copy(d, whole + (i * ranks + r) * t->each, t->ordered + (r * t->n + i) * t->each,
                         t->each * sizeof *whole);
}

static size_t whole_bytes(const gs_token_parts *t) {
    return (size_t)t->group->size * t->n * t->each * sizeof(float);
}

/* Of one piece the parts are in order already, and this rank's may be its place in the whole. */
static gs_status gather_here(const gs_token_parts *t, const gs_device *d, const float *part, float *whole) {
    const size_t count = t->n * t->each;
    if (t->n == 1) return gs_comm_all_gather(t->group, part, whole, count, GS_F32);
    GS_TRY(gs_comm_all_gather(t->group, part, t->ordered, count, GS_F32));
    from_order(t, d, whole);
    return GS_OK;
}

gs_status gs_token_parts_gather(const gs_token_parts *t, gs_device *d, gs_mem whole, gs_mem part) {
    void *all, *own = NULL;
    const bool inside = part.base == whole.base;
    GS_TRY(d->ops->map(d, whole, whole_bytes(t), &all));
    gs_status status = inside ? GS_OK : d->ops->map(d, part, t->n * t->each * sizeof(float), &own);
    if (inside) own = (float *)all + (size_t)t->group->rank * t->each;
    if (status == GS_OK) status = gather_here(t, d, own, all);
    if (!inside) status = gs_device_unmap_after(d, part, own, status);
    return gs_device_unmap_after(d, whole, all, status);
}

static gs_status reduce_here(const gs_token_parts *t, const gs_device *d, const float *whole, float *part,
                             bool summed) {
    const size_t ranks = (size_t)t->group->size, rank = (size_t)t->group->rank;
    for (size_t i = 0; i < t->n && summed; i++)
        gs_host_copy(d, part + i * t->each, whole + (i * ranks + rank) * t->each, t->each * sizeof *part);
    if (summed) return GS_OK;
    to_order(t, d, whole);
    return gs_comm_reduce_scatter(t->group, t->ordered, part, ranks * t->n * t->each, GS_F32, GS_SUM);
}

gs_status gs_token_parts_reduce(const gs_token_parts *t, gs_device *d, gs_mem part, gs_mem whole,
                                bool summed) {
    void *all, *own = NULL;
    GS_TRY(d->ops->map(d, whole, whole_bytes(t), &all));
    gs_status status = d->ops->map(d, part, t->n * t->each * sizeof(float), &own);
    if (status == GS_OK) status = reduce_here(t, d, all, own, summed);
    status = gs_device_unmap_after(d, part, own, status);
    return gs_device_unmap_after(d, whole, all, status);
}
