/* Lab 5: splitting the data. See README.md, and tasks.h for what each function must do. Tasks 5.3 to 5.5 are other
 * people's code, which has run for months and is wrong. */
#include "tasks.h"

#include "lab.h"

gs_shard gs_shard_of(size_t total, int rank, int size) {
    /* task 5.1: part `rank` of `total` things cut into `size` contiguous parts whose counts differ by at most 1; the
     * first total % size parts get one more. Where does a part begin after k longer ones? */
    (void)total, (void)rank, (void)size;
    lab_blank("5.1");
    return (gs_shard){0, 0};
    /* end of task 5.1 */
}

void gs_epoch_order(uint64_t seed, uint64_t epoch, size_t n, uint32_t *order) {
    /* task 5.2: write 0 .. n-1 into order[], then shuffle (Fisher-Yates): from the last element down to the second,
     * swap element i with one of 0 .. i, itself included. lab_draw chooses it. */
    (void)seed, (void)epoch, (void)n, (void)order;
    lab_blank("5.2");
    /* end of task 5.2 */
}

void lab_epochs(uint64_t seed, uint64_t epochs, size_t n, lab_order *order_of, uint32_t *order, lab_use *use,
                void *context) {
    /* task 5.3: find the bug. (The first line marks the task as not done. Remove it when you have fixed the rest.) */
    lab_blank("5.3");
    order_of(seed, 1, n, order);
    for (uint64_t epoch = 1; epoch <= epochs; epoch++)
        for (size_t i = 0; i < n; i++) use(context, epoch, order[i]);
    /* end of task 5.3 */
}

void lab_split(uint64_t seed, uint64_t epoch, size_t n, size_t held_out, lab_order *order_of, uint32_t *order,
               uint32_t *train, uint32_t *validation) {
    /* task 5.4: find the bug. Each single epoch looks right; write down two of them. */
    lab_blank("5.4");
    order_of(seed, epoch, n, order);
    for (size_t i = 0; i < held_out; i++) validation[i] = order[i];
    for (size_t i = held_out; i < n; i++) train[i - held_out] = order[i];
    /* end of task 5.4 */
}

double lab_step(double w, double lr, int workers, const lab_part *parts, double *dw) {
    /* task 5.5: find the bugs: two. One shows in the second step, the other with the second worker. */
    lab_blank("5.5");
    size_t samples = 0;
    for (int r = 0; r < workers; r++) samples += parts[r].count;
    for (int r = 0; r < workers && samples > 0; r++) {
        for (size_t i = 0; i < parts[r].count; i++)
            dw[r] += (w * parts[r].x[i] - parts[r].y[i]) * parts[r].x[i];
        w -= lr * dw[r] / (double)samples;
    }
    return w;
    /* end of task 5.5 */
}
