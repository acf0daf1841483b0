/* What lesson 9 asks for, in lab.c.
 *
 * Task 9.1 is two functions of src/optim/lr_rule.h, where the formulas are: gs_lr_scaled, the rate that a rule makes
 * for a batch, and gs_lr_at, the rate of one step. The other tasks are below: they read a sweep with several seeds,
 * and find out what it says. */
#pragma once

#include "lab.h"
#include <stdbool.h>
#include "optim/lr_rule.h"

/* One batch of a sweep, with all its seeds: a line that `sweep --seeds` prints. */
typedef struct lab_line {
    double batch;
    int reached;        /* seeds that reached the target */
    double least, most; /* steps to the target, of those; 0 and 0 if there is none */
    double median;      /* of all seeds; INFINITY: never */
} lab_line;

/* Task 9.2. The line of a batch. steps[0 .. seeds-1], in no order: the steps that each seed needed to the target; 0: it
 * never got there. For the median, such a seed needed more steps than any other. The median of an even number of
 * seeds lies half-way between the two in the middle; it is INFINITY if either of them is. 1 <= seeds <= LAB_SEEDS. */
enum { LAB_SEEDS = 64 };
lab_line lab_line_of(double batch, const double *steps, int seeds);

/* Task 9.3. Up to which batch does a rule scale? line[0] is the base, the others follow with growing batches, all
 * with the rates of one rule. With perfect scaling every batch needs as many samples (batch times steps) as the base.
 * But seeds differ, and a difference that is smaller than theirs is none. So a batch still scales if its median is
 * not INFINITY and its FASTEST seed needed no more samples than the SLOWEST seed of the base that reached the target:
 * then the two ranges meet, or the batch is better. Returns the largest batch for which this holds, for it and for
 * all smaller ones; 0 if the base's own median is INFINITY. lines >= 1. */
double lab_scales_until(const lab_line *line, int lines);

/* The law of a sweep: steps(B) = least + samples / B. */
typedef struct lab_law {
    bool found;
    double least;    /* steps that no batch, however large, can do without */
    double samples;  /* that no batch, however small, can do without */
    double critical; /* samples / least: the batch at which twice the least steps are needed */
} lab_law;

/* Task 9.4. The law that fits the medians best, for which the sum of the squares of the relative errors,
 *
 *     sum over lines of ((least + samples / batch - median) / median)^2
 *
 * is smallest. Lines whose median is INFINITY say nothing about it and are left out. `found` is false where fewer than
 * two lines remain, so that there is no such law. The batches of two lines differ. */
lab_law lab_fit(const lab_line *line, int lines);

/* Task 9.5. Does the next batch follow the law of the smaller ones? line[0 .. known-1] are known; line[known] is the
 * batch to judge, which the law must not have seen.
 *
 *     LAB_NO_LAW         task 9.4 finds no law in the known lines; `steps` is 0
 *     LAB_FAILED         there is a law, but the median of the batch is INFINITY
 *     LAB_FASTER         all its seeds that reached the target needed fewer steps than predicted
 *     LAB_SLOWER         they all needed more
 *     LAB_AS_PREDICTED   the prediction lies between the least and the most steps */
typedef enum lab_verdict { LAB_NO_LAW, LAB_FAILED, LAB_FASTER, LAB_SLOWER, LAB_AS_PREDICTED } lab_verdict;

typedef struct lab_judgement {
    double steps; /* predicted */
    lab_verdict verdict;
} lab_judgement;

lab_judgement lab_judge(const lab_line *line, int known);
