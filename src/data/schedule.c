#include "data/schedule.h"

#include "data/shard.h"

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* A pass is over: the next one, of this part, or the next part, batch or epoch. */
static void next_pass(const gs_schedule *s, gs_schedule_place *at) {
    at->done = 0;
    if (++at->pass < s->passes) return;
    at->pass = 0;
    if (++at->part < s->mine) return;
    at->part = 0;
    at->step++;
    at->batch_first += s->batch;
    if (at->batch_first < s->count) return;
    at->batch_first = 0;
    at->epoch++;
}

bool gs_schedule_next(const gs_schedule *s, gs_schedule_place *at, gs_piece *out) {
    while (at->epoch < s->epochs && (s->steps == 0 || at->step < s->steps)) {
        size_t batch = smaller(s->batch, s->count - at->batch_first);
        gs_shard part = gs_shard_of(batch, s->first_part + at->part, s->parts);
        gs_shard pass = gs_shard_of(part.count, at->pass, s->passes);
        if (at->done < pass.count) {
            *out = (gs_piece){.epoch = at->epoch + 1,
                              .first = at->batch_first + part.first + pass.first + at->done,
                              .n = smaller(s->most, pass.count - at->done)};
            at->done += out->n;
            return true;
        }
        next_pass(s, at);
    }
    return false;
}
