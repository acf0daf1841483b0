/* Lab 17: pipelines. See README.md, and tasks.h for what each function must do. */
#include "tasks.h"

#include <math.h>
#include "lab.h"

/* ---- one pass ---- */

void stage_forward(gs_instructions *l, int p, int s, int k) {
    /* task 17.1: where does the input come from, and where does the output go? */
    if (s > 0) then(l, GS_DO_RECV_ACTIVATION, k, s - 1);
    then(l, GS_DO_FORWARD, k, 0);
    if (s < p - 1) then(l, GS_DO_SEND_ACTIVATION, k, s + 1);
    /* end of task 17.1 */
}

void stage_backward(gs_instructions *l, int p, int s, int k) {
    /* task 17.1: backward takes the opposite way. */
    if (s < p - 1) then(l, GS_DO_RECV_GRADIENT, k, s + 1);
    then(l, GS_DO_BACKWARD, k, 0);
    if (s > 0) then(l, GS_DO_SEND_GRADIENT, k, s - 1);
    /* end of task 17.1 */
}

/* ---- their order ---- */

void gpipe(passes *l, int p, int m, int s) {
    (void)p, (void)s;
    /* task 17.2: all forward, then all backward. */
    for (int k = 0; k < m; k++) then_forward(l, k);
    for (int k = 0; k < m; k++) then_backward(l, k);
    /* end of task 17.2 */
}

void one_forward_one_backward(passes *l, int p, int m, int s) {
    /* task 17.3: how many micro-batches go forward in stage s before the first comes back to it? After those, one
     * goes forward for each that goes backward; what is left at the end goes backward. */
    int ahead = p - s < m ? p - s : m;
    for (int k = 0; k < ahead; k++) then_forward(l, k);
    for (int k = 0; k < m; k++) {
        then_backward(l, k);
        if (k + ahead < m) then_forward(l, k + ahead);
    }
    /* end of task 17.3 */
}

/* ---- what they cost ---- */

double pipeline_time(int p, int m, const passes *lists, const double *forward, const double *backward,
                     double *end) {
    double clock[MOST_STAGES] = {0}; /* the end of each stage's last pass */
    size_t next[MOST_STAGES] = {0};  /* each stage's next pass */
    for (int i = 0; i < 2 * p * m; i++) end[i] = -1;
    /* task 17.4: go round the stages as long as one of them can run its next pass. When can it? */
    double last = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int s = 0; s < p; s++) {
            if (next[s] == lists[s].count) continue;
            const pass x = lists[s].list[next[s]];
            double ready = 0;
            if (x.backward)
                ready = end[pass_index(m, s < p - 1 ? s + 1 : s, s < p - 1, x.micro_batch)];
            else if (s > 0)
                ready = end[pass_index(m, s - 1, false, x.micro_batch)];
            if (ready < 0) continue;
            clock[s] = fmax(clock[s], ready) + (x.backward ? backward[s] : forward[s]);
            end[pass_index(m, s, x.backward, x.micro_batch)] = clock[s];
            last = fmax(last, clock[s]);
            next[s]++;
            moved = true;
        }
    }
    for (int s = 0; s < p; s++)
        if (next[s] < lists[s].count) return -1;
    return last;
    /* end of task 17.4 */
}

int fewest_micro_batches(bool is_1f1b, int p, int batch, double bubble, int samples) {
    /* task 17.5: try every m. What share of a step is the bubble, and how many micro-batches are alive? */
    for (int m = 1; m <= batch; m++) {
        if (batch % m != 0) continue;
        int alive = is_1f1b && p < m ? p : m;
        if ((p - 1.0) / (m + p - 1) <= bubble && alive * (batch / m) <= samples) return m;
    }
    return 0;
    /* end of task 17.5 */
}

/* ---- where the stages begin ---- */

void cut_layers(int layers, const double *seconds, int p, int *first) {
    /* best[s][n]: the slowest stage of the best cut of the first n layers into s stages; begin[s][n]: the layer at
     * which the last of these stages begins. */
    double best[MOST_LAYERS + 1][MOST_LAYERS + 1];
    int begin[MOST_LAYERS + 1][MOST_LAYERS + 1];
    for (int s = 0; s <= p; s++)
        for (int n = 0; n <= layers; n++) best[s][n] = s == 0 && n == 0 ? 0 : INFINITY;
    /* task 17.6: fill in both tables, for s = 1, 2, ..., p. Which layers can be the last stage, and how slow is the
     * slowest stage then? At the end walk back through begin, from begin[p][layers]. */
    for (int s = 1; s <= p; s++)
        for (int n = s; n <= layers; n++) {
            double last = 0;
            for (int b = n - 1; b >= s - 1; b--) {
                last += seconds[b];
                double slowest = fmax(last, best[s - 1][b]);
                if (slowest >= best[s][n]) continue;
                best[s][n] = slowest;
                begin[s][n] = b;
            }
        }
    first[p] = layers;
    for (int s = p; s > 0; s--) first[s - 1] = begin[s][first[s]];
    /* end of task 17.6 */
}
