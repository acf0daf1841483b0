/* The tasks of lesson 9, for lab.c.
 *
 * Task 9.1 is two functions of src/optim/lr_rule.h, which states the formulas: gs_lr_scaled, the rate that a rule gives
 * a batch, and gs_lr_at, the rate of one step. The other tasks, below, evaluate a sweep with several seeds. */
#pragma once

#include "lab.h"
#include <stdbool.h>
#include "optim/lr_rule.h"

/* One batch of a sweep, with all its seeds: a line that `sweep --seeds` prints. */
typedef struct lab_line {
    double batch;
    int reached;        /* seeds that reached the target */
    double least, most; /* their fewest and most steps to the target; 0 and 0 if no seed reached it */
    double median;      /* of all seeds; INFINITY: never */
} lab_line;

/* Task 9.2. The line of a batch. steps[0 .. seeds-1], in no order: the steps that each seed needed to reach the target;
 * 0: it never did. For the median, such a seed needed more steps than any other. The median of an even number of seeds
 * is half-way between the two in the middle; it is INFINITY if either of them is. 1 <= seeds <= LAB_SEEDS. */
enum { LAB_SEEDS = 64 };
lab_line lab_line_of(double batch, const double *steps, int seeds);

/* Task 9.3. Up to which batch does a rule scale? line[0] is the base; the others follow with growing batches, all with
 * the rates of one rule. With perfect scaling every batch needs as many samples (batch times steps) as the base. But
 * seeds differ too. So a batch still scales if its median is not INFINITY and its FASTEST seed needed no more samples
 * than the SLOWEST seed of the base that reached the target: then the two ranges meet, or the batch is better. Returns
 * the largest batch that scales and whose smaller batches all scale; 0 if the base's own median is INFINITY.
 * lines >= 1. */
double lab_scales_until(const lab_line *line, int lines);

/* The law of a sweep: steps(B) = least + samples / B. */
typedef struct lab_law {
    bool found;
    double least;    /* steps that the largest batch needs too */
    double samples;  /* that the smallest batch needs too */
    double critical; /* samples / least: the batch that needs twice the least steps */
} lab_law;

/* Task 9.4. The law that minimises the sum of the squares of the relative errors,
 *
 *     sum over lines of ((least + samples / batch - median) / median)^2
 *
 * Lines whose median is INFINITY are left out. `found` is false if fewer than two lines remain. No two lines have the
 * same batch. */
lab_law lab_fit(const lab_line *line, int lines);

/* Task 9.5. Does the next batch follow the law of the smaller ones? line[0 .. known-1] are known; line[known] is the
 * batch to judge. Fit the law without it.
 *
 *     LAB_NO_LAW         task 9.4 finds no law in the known lines; `steps` is 0
 *     LAB_FAILED         there is a law, but the median of the batch is INFINITY
 *     LAB_FASTER         all its seeds that reached the target needed fewer steps than predicted
 *     LAB_SLOWER         all its seeds that reached the target needed more
 *     LAB_AS_PREDICTED   the prediction lies between the least and the most steps */
typedef enum lab_verdict { LAB_NO_LAW, LAB_FAILED, LAB_FASTER, LAB_SLOWER, LAB_AS_PREDICTED } lab_verdict;

typedef struct lab_judgement {
    double steps; /* predicted */
    lab_verdict verdict;
} lab_judgement;

lab_judgement lab_judge(const lab_line *line, int known);
