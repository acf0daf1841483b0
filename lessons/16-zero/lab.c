/* Lab 16: ZeRO. See README.md, and tasks.h for what each function must do. */
#include "tasks.h"

#include "lab.h"

double bytes_held(int stage, int ranks, double params, const parameter_bytes *b) {
    /* task 16.1: what does this rank hold whole, and what does it hold one part of `ranks` of? */
    (void)stage, (void)ranks, (void)params, (void)b;
    lab_blank("16.1 (bytes_held)");
    return 0;
    /* end of task 16.1 */
}

int fewest_ranks(int stage, double params, const parameter_bytes *b, double memory) {
    /* task 16.1: more ranks make the sharded parts smaller, and leave the rest whole. */
    (void)stage, (void)params, (void)b, (void)memory;
    lab_blank("16.1 (fewest_ranks)");
    return 0;
    /* end of task 16.1 */
}

gs_status zero1_step(gs_comm *c, float *weights, float *gradients, float *velocity, size_t count, float rate,
                     float momentum, float scale) {
    const gs_shard own = gs_shard_of(count, c->rank, c->size);
    /* task 16.2: reduce-scatter, update of the own part, all-gather. */
    (void)own, (void)weights, (void)gradients, (void)velocity, (void)rate, (void)momentum, (void)scale;
    return lab_blank("16.2");
    /* end of task 16.2 */
}

double bytes_sent(int stage, int ranks, double bytes, int passes) {
    /* task 16.3: how often are gradients reduced, how often are weights gathered? */
    (void)stage, (void)ranks, (void)bytes, (void)passes;
    lab_blank("16.3");
    return 0;
    /* end of task 16.3 */
}

void zero3_pass(plan *p, int units) {
    /* task 16.4: what must start before unit u computes? When is its window free? */
    (void)p, (void)units;
    lab_blank("16.4");
    /* end of task 16.4 */
}
