/* A picture of your schedules, by your own clock: tasks 17.2 to 17.4.
 *
 *     make build/lessons/17/experiment && build/lessons/17/experiment [P [M]]     (LAB=FILE: another file than lab.c)
 *
 * P stages and M micro-batches, 3 and 4 unless you say otherwise. A forward pass takes one place, a backward pass two;
 * a digit is the last one of the micro-batch's number. Beside each stage: how many micro-batches were alive at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab.h"
#include "tasks.h"

/* Blanks call this; here it only fails. */
gs_status lab_blank(const char *task) {
    return gs_fail(GS_E_USAGE, "not written yet: task %s", task);
}

enum { MOST_MICRO_BATCHES = 40, ROOM = 2 * MOST_MICRO_BATCHES, WIDTH = 3 * ROOM + 3 * MOST_STAGES };

static const char *const tasks[] = {"17.2", "17.3"};

static int alive(const passes *l) {
    int now = 0, most = 0;
    for (size_t i = 0; i < l->count; i++) {
        now += l->list[i].backward ? -1 : 1;
        if (now > most) most = now;
    }
    return most;
}

static void draw_stage(const passes *l, int m, int s, const double *end) {
    char row[WIDTH + 1];
    memset(row, '.', WIDTH);
    int last = 0;
    for (size_t i = 0; i < l->count; i++) {
        const pass *x = &l->list[i];
        const int until = (int)end[pass_index(m, s, x->backward, x->micro_batch)],
                  places = x->backward ? 2 : 1;
        for (int at = until - places; at >= 0 && at < until && at < WIDTH; at++)
            row[at] = (char)('0' + x->micro_batch % 10);
        if (until > last && until <= WIDTH) last = until;
    }
    printf("  stage %-2d  %.*s   %d alive\n", s, last, row, alive(l));
}

/* False if a list is empty, too long, or has a micro-batch that does not exist. */
static bool is_a_schedule(const passes *lists, int p, int m) {
    for (int s = 0; s < p; s++) {
        if (lists[s].count == 0 || lists[s].count > lists[s].room) return false;
        for (size_t i = 0; i < lists[s].count; i++)
            if (lists[s].list[i].micro_batch < 0 || lists[s].list[i].micro_batch >= m) return false;
    }
    return true;
}

static void draw(int which, int p, int m) {
    static pass room[MOST_STAGES][ROOM];
    static double end[MOST_STAGES * ROOM];
    passes lists[MOST_STAGES] = {0};
    double forward[MOST_STAGES] = {0}, backward[MOST_STAGES] = {0};
    for (int s = 0; s < p; s++) {
        lists[s] = (passes){room[s], 0, 2 * (size_t)m};
        (which ? one_forward_one_backward : gpipe)(&lists[s], p, m, s);
        forward[s] = 1, backward[s] = 2;
    }
    printf("%s\n", which ? "1f1b" : "gpipe");
    if (!is_a_schedule(lists, p, m)) {
        printf("  no schedule so far: task %s, make lab-17\n", tasks[which]);
        return;
    }
    const double took = pipeline_time(p, m, lists, forward, backward, end);
    if (took <= 0) {
        printf("  %s\n", took < 0 ? "the stages wait for each other forever" : "no clock so far: task 17.4");
        return;
    }
    for (int s = 0; s < p; s++) draw_stage(&lists[s], m, s, end);
    printf("  it takes %g, of which a stage waits %g: a bubble of %.1f %%\n", took, took - 3 * m,
           100 * (1 - 3 * m / took));
}

int main(int argc, char **argv) {
    const int p = argc > 1 ? atoi(argv[1]) : 3, m = argc > 2 ? atoi(argv[2]) : 4;
    if (p < 1 || p > MOST_STAGES || m < 1 || m > MOST_MICRO_BATCHES) {
        fprintf(stderr, "experiment: wanted 1 to %d stages and 1 to %d micro-batches\n", MOST_STAGES,
                MOST_MICRO_BATCHES);
        return 1;
    }
    draw(0, p, m);
    draw(1, p, m);
    return 0;
}
