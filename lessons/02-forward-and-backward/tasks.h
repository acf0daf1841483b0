/* Lesson 2: the functions that you write in lab.c, and what they must do. All arrays are stored row by row: element (o,
 * k) of an (out, in) array is a[o * in + k].
 *
 * The first two are the backward of  y[i][o] = b[o] + sum_k x[i][k] w[o][k],
 * where x is (n, in), w (out, in), b (out), y (n, out); dy (n, out) is the gradient of the loss by y. n may be 0.
 */
#pragma once

#include "backend.h"
#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

/* Task 2.1. dx[i][k] = sum_o dy[i][o] w[o][k]. dx is WRITTEN: its old contents do not matter. If dx is NULL, do
 * nothing. Returns GS_OK. */
gs_status linear_dx(float *dx, const float *dy, const float *w, size_t n, size_t in, size_t out);

/* Task 2.2. dw[o][k] += sum_i dy[i][o] x[i][k], and db[o] += sum_i dy[i][o]. Add to both: they hold the sum of this
 * step's passes so far. Clear nothing: given.c fills both with 0 before the first pass of a step. db is NULL for a
 * layer without bias. Returns GS_OK. */
gs_status linear_dw_db(float *dw, float *db, const float *dy, const float *x, size_t n, size_t in,
                       size_t out);

/* Task 2.3. The loss of a batch is the sum over i of -log p[i][labels[i]], where p = softmax(x), both (n, classes).
 * dx[i][k] = the derivative of the loss by x[i][k]; written, like all dx. p comes from forward. Returns GS_OK. */
gs_status softmax_cross_entropy_dx(float *dx, const float *p, const int32_t *labels, size_t n,
                                   size_t classes);

/* Task 2.4. The derivative of f by x[0], from two calls of f:
 *
 *     (f at x[0] + h  -  f at x[0] - h) / the distance of these two points
 *
 * f(context) computes a number from an array that x points into: change x[0], and call it. A float has 24 bits, so
 * x[0] + h is rounded, and the distance is not always 2 h: take the distance of the points as stored. Restore x[0] to
 * its old bits before you return. h > 0. */
double lab_difference(double (*f)(void *context), void *context, float *x, float h);

/* Task 2.5. Two operators of the backend, made of the functions above; the layers of the whole program call them. A
 * gs_mem is an address in a device's memory; GS_NONE becomes NULL for the functions above. (In src/backend.h they take
 * a device too, and linear_backward an `add`, false where dw and db hold nothing yet. In that case given.c fills both
 * with 0 before it calls you: so always add, and clear nothing.) */
gs_status linear_backward(gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x, gs_mem w, size_t n, int in,
                          int out);
gs_status softmax_cross_entropy_backward(gs_mem dx, gs_mem p, gs_mem labels, size_t n, int classes);
