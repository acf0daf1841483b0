/* Lab 16: ZeRO. See README.md, and tasks.h for what each function must do. */
#include "tasks.h"

#include "lab.h"

double bytes_held(int stage, int ranks, double params, const parameter_bytes *b) {
    /* task 16.1: what does this rank hold whole, and what does it hold one part of `ranks` of? */
    double weights = stage >= 3 ? b->weight / ranks : b->weight;
    double gradients = stage >= 2 ? b->gradient / ranks : b->gradient;
    double optimizer = stage >= 1 ? b->optimizer / ranks : b->optimizer;
    return params * (weights + gradients + optimizer);
    /* end of task 16.1 */
}

int fewest_ranks(int stage, double params, const parameter_bytes *b, double memory) {
    /* task 16.1: more ranks make the sharded parts smaller, and leave the rest whole. */
    for (int n = 1; n <= MOST_RANKS; n++)
        if (bytes_held(stage, n, params, b) <= memory) return n;
    return 0;
    /* end of task 16.1 */
}

gs_status zero1_step(gs_comm *c, float *weights, float *gradients, float *velocity, size_t count, float rate,
                     float momentum, float scale) {
    const gs_shard own = gs_shard_of(count, c->rank, c->size);
    /* task 16.2: reduce-scatter, update of the own part, all-gather. */
    float *sum = gradients + own.first, *mine = weights + own.first;
    GS_TRY(gs_comm_reduce_scatter(c, gradients, sum, count, GS_F32, GS_SUM));
    for (size_t i = 0; i < own.count; i++) {
        velocity[i] = momentum * velocity[i] + scale * sum[i];
        mine[i] -= rate * velocity[i];
    }
    return gs_comm_all_gather(c, mine, weights, own.count, GS_F32);
    /* end of task 16.2 */
}

double bytes_sent(int stage, int ranks, double bytes, int passes) {
    /* task 16.3: how often are gradients reduced, how often are weights gathered? */
    int reduced = stage >= 2 ? passes : 1, gathered = stage >= 3 ? 2 * passes : 1;
    return (reduced + gathered) * bytes * (ranks - 1) / ranks;
    /* end of task 16.3 */
}

void zero3_pass(plan *p, int units) {
    /* task 16.4: what must start before unit u computes? When is its window free? */
    then(p, GATHER, 0);
    for (int u = 0; u < units; u++) {
        if (u + 1 < units) then(p, GATHER, u + 1);
        then(p, FORWARD, u);
        if (u + 1 < units) then(p, DROP, u);
    }
    for (int u = units - 1; u >= 0; u--) {
        if (u > 0) then(p, GATHER, u - 1);
        then(p, BACKWARD, u);
        then(p, REDUCE, u);
        then(p, DROP, u);
    }
    /* end of task 16.4 */
}
