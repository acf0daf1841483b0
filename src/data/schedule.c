#include "data/schedule.h"

gs_shard gs_schedule_part(const gs_schedule *s, size_t batch, int part) {
    const int last = s->leaves > 1 ? part + s->leaves - 1 : part;
    const gs_shard end = gs_schedule_cut(batch, last, s->parts, s->together);
    const size_t first = gs_schedule_cut(batch, part, s->parts, s->together).first;
    return (gs_shard){first, end.first + end.count - first};
}

gs_leaves gs_schedule_leaves(const gs_schedule *s, size_t batch, int part) {
    const gs_shard whole = gs_schedule_part(s, batch, part);
    gs_leaves l = {.count = s->leaves > 1 ? s->leaves : 0};
    for (int k = 0; k < l.count; k++)
        l.at[k] = gs_schedule_cut(batch, part + k, s->parts, s->together).first - whole.first;
    l.at[l.count] = whole.count;
    return l;
}

static void next_part(const gs_schedule *s, gs_schedule_position *at) {
    at->pass = 0;
    at->done = 0;
    at->part += s->leaves > 1 ? s->leaves : 1;
    if (at->part < s->mine) return;
    at->part = 0;
    at->step++;
    at->batch_first += s->batch;
    if (at->batch_first < s->count) return;
    at->batch_first = 0;
    at->epoch++;
}

/* True for the last pass with samples: after an empty pass, all later ones are empty too. */
static bool is_last_pass(const gs_schedule *s, int pass, size_t part) {
    return pass + 1 == s->passes || gs_schedule_cut(part, pass + 1, s->passes, s->together).count == 0;
}

gs_schedule_position gs_schedule_begin(const gs_schedule *s) {
    const uint64_t epoch = gs_steps_of_epoch(s->count, s->batch);
    return (gs_schedule_position){
        .epoch = s->done / epoch, .step = s->done, .batch_first = (size_t)(s->done % epoch) * s->batch};
}

bool gs_schedule_next(const gs_schedule *s, gs_schedule_position *at, gs_micro_batch *out) {
    if (at->epoch >= s->epochs || (s->steps > 0 && at->step >= s->steps)) return false;
    size_t batch = gs_smaller(s->batch, s->count - at->batch_first);
    gs_shard part = gs_schedule_part(s, batch, s->first_part + at->part);
    gs_shard pass = gs_schedule_cut(part.count, at->pass, s->passes, s->together);
    size_t n = gs_smaller(s->most, pass.count - at->done), offset = part.first + pass.first + at->done;
    bool pass_ends = at->done + n == pass.count;
    *out = (gs_micro_batch){.epoch = at->epoch + 1,
                            .step = at->step + 1,
                            .first = at->batch_first + offset,
                            .n = n,
                            .offset = offset,
                            .batch = batch,
                            .part = part.count,
                            .leaves = gs_schedule_leaves(s, batch, s->first_part + at->part),
                            .last = pass_ends && is_last_pass(s, at->pass, part.count)};
    at->done += n;
    if (pass_ends) {
        at->pass++;
        at->done = 0;
    }
    if (out->last) next_part(s, at);
    return true;
}

size_t gs_schedule_largest(const gs_schedule *s) {
    const size_t part = gs_schedule_part(s, s->batch, 0).count;
    const size_t pass = gs_schedule_cut(part, 0, s->passes, s->together).count;
    const size_t groups = s->together > 1 ? s->most / s->together : 0; /* whole groups in a micro-batch */
    return gs_smaller(groups > 0 ? groups * s->together : s->most, pass);
}
