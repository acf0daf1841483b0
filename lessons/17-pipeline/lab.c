/* Lab 17: pipelines. See README.md, and tasks.h for what each function must do. */
#include "tasks.h"

#include <math.h>
#include "lab.h"

/* ---- one pass ---- */

void stage_forward(gs_instructions *l, int p, int s, int k) {
    /* task 17.1: where does the input come from, and where does the output go? */
    (void)l, (void)p, (void)s, (void)k;
    lab_blank("17.1 (stage_forward)");
    /* end of task 17.1 */
}

void stage_backward(gs_instructions *l, int p, int s, int k) {
    /* task 17.1: backward takes the opposite way. */
    (void)l, (void)p, (void)s, (void)k;
    lab_blank("17.1 (stage_backward)");
    /* end of task 17.1 */
}

/* ---- their order ---- */

void gpipe(passes *l, int p, int m, int s) {
    (void)p, (void)s;
    /* task 17.2: all forward, then all backward. */
    (void)l, (void)m;
    lab_blank("17.2");
    /* end of task 17.2 */
}

void one_forward_one_backward(passes *l, int p, int m, int s) {
    /* task 17.3: how many micro-batches go forward in stage s before the first comes back to it? After those, one
     * goes forward for each that goes backward; what is left at the end goes backward. */
    (void)l, (void)p, (void)m, (void)s;
    lab_blank("17.3");
    /* end of task 17.3 */
}

/* ---- what they cost ---- */

double pipeline_time(int p, int m, const passes *lists, const double *forward, const double *backward,
                     double *end) {
    double clock[MOST_STAGES] = {0}; /* the end of each stage's last pass */
    size_t next[MOST_STAGES] = {0};  /* each stage's next pass */
    for (int i = 0; i < 2 * p * m; i++) end[i] = -1;
    /* task 17.4: go round the stages as long as one of them can run its next pass. When can it? */
    (void)lists, (void)forward, (void)backward, (void)clock, (void)next;
    lab_blank("17.4");
    return 0;
    /* end of task 17.4 */
}

int fewest_micro_batches(bool is_1f1b, int p, int batch, double bubble, int samples) {
    /* task 17.5: try every m. What share of a step is the bubble, and how many micro-batches are alive? */
    (void)is_1f1b, (void)p, (void)batch, (void)bubble, (void)samples;
    lab_blank("17.5");
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
    (void)seconds, (void)first, (void)best, (void)begin;
    lab_blank("17.6");
    /* end of task 17.6 */
}
