/* Lesson 0: the functions that you write in lab.c, and what they must do. */
#pragma once

#include "backend.h"

#include <stddef.h>
#include <stdint.h>

/* Task 0.1. Two workers have each computed a part of one global batch:
 *
 *     dw0[i], dw1[i]        the SUM of the gradients of the worker's own samples, i < count
 *     samples0, samples1    how many samples these are
 *
 * mean[i] = the mean of the gradient over all samples of both. A worker may have no samples (its dw is 0 then). If
 * neither has any, every mean[i] is 0. */
void lab_mean_gradient(size_t count, const float *dw0, double samples0, const float *dw1, double samples1,
                       float *mean);

/* Task 0.2. logits is (n, classes): row i holds the network's output for sample i, and the class with the largest
 * number is its answer (the first, if several are largest). Returns the share of the n samples, 0 .. 1, whose
 * answer is labels[i]; 0 if n is 0. */
double lab_accuracy(const float *logits, const int32_t *labels, size_t n, int classes);

/* Task 0.3. An operator of the backend; its contract is in src/backend.h. given.c puts it into the running framework,
 * so every device "cpu" of build/lessons/00/gradsum uses it. */
gs_status relu_forward(gs_device *d, gs_mem y, gs_mem x, size_t count);
