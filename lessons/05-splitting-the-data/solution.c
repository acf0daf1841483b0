/* Lab 5: splitting the data. See README.md, and tasks.h for what each function must do. Tasks 5.3 to 5.5 are other
 * people's code, which has run for months and is wrong. */
#include "tasks.h"

#include "lab.h"

gs_shard gs_shard_of(size_t total, int rank, int size) {
    /* task 5.1: part `rank` of `total` things cut into `size` contiguous parts whose counts differ by at most 1; the
     * first total % size parts get one more. Where does a part begin after k longer ones? */
    size_t parts = (size_t)size, part = (size_t)rank;
    size_t least = total / parts, longer = total % parts;
    return (gs_shard){.first = part * least + (part < longer ? part : longer),
                      .count = least + (part < longer ? 1 : 0)};
    /* end of task 5.1 */
}

void gs_epoch_order(uint64_t seed, uint64_t epoch, size_t n, uint32_t *order) {
    /* task 5.2: write 0 .. n-1 into order[], then shuffle (Fisher-Yates): from the last element down to the second,
     * swap element i with one of 0 .. i, itself included. lab_draw chooses it. */
    for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;
    for (size_t i = n; i-- > 1;) {
        size_t j = lab_draw(seed, epoch, i, i + 1);
        uint32_t kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    /* end of task 5.2 */
}

void lab_epochs(uint64_t seed, uint64_t epochs, size_t n, lab_order *order_of, uint32_t *order, lab_use *use,
                void *context) {
    /* task 5.3: find the bug. (The first line marks the task as not done. Remove it when you have fixed the rest.) */
    for (uint64_t epoch = 1; epoch <= epochs; epoch++) {
        order_of(seed, epoch, n, order);
        for (size_t i = 0; i < n; i++) use(context, epoch, order[i]);
    }
    /* end of task 5.3 */
}

void lab_split(uint64_t seed, uint64_t epoch, size_t n, size_t held_out, lab_order *order_of, uint32_t *order,
               uint32_t *train, uint32_t *validation) {
    /* task 5.4: find the bug. Each single epoch looks right; write down two of them. */
    order_of(seed, 0, n, order); /* no epoch has this number */
    for (size_t i = 0; i < held_out; i++) validation[i] = order[i];
    order_of(seed, epoch, n - held_out, train);
    for (size_t i = 0; i < n - held_out; i++) train[i] = order[held_out + train[i]];
    /* end of task 5.4 */
}

double lab_step(double w, double lr, int workers, const lab_part *parts, double *dw) {
    /* task 5.5: find the bugs: two. One shows in the second step, the other with the second worker. */
    double sum = 0;
    size_t samples = 0;
    for (int r = 0; r < workers; r++) {
        dw[r] = 0;
        for (size_t i = 0; i < parts[r].count; i++)
            dw[r] += (w * parts[r].x[i] - parts[r].y[i]) * parts[r].x[i];
        sum += dw[r];
        samples += parts[r].count;
    }
    return samples == 0 ? w : w - lr * sum / (double)samples;
    /* end of task 5.5 */
}
