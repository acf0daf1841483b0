/* Lesson 4: how lab.c starts the kernels of lab.cl, which says what each must do. */
#pragma once

#include "backend.h"
#include "lab.h"

/* A rung of the ladder: a kernel, and its work-items. */
typedef struct lab_rung {
    const char *file;     /* in the folder kernels: lab.cl with the kernels of the other tasks left out */
    const char *kernel;   /* its name */
    size_t rows, columns; /* of C, that one work-item computes */
    size_t group[2];      /* work-items of a work-group in dimensions 0 and 1 */
    int rows_along;       /* dimension 0 counts columns of C; 1: rows */
} lab_rung;

enum { LAB_RUNGS = 4 };

/*  task  kernel              elements of a work-item     work-group  get_global_id(0) counts
 *  4.1   product_element     1 x 1                       16 x 16     columns
 *  4.2   product_local       1 x 1                       16 x 16     columns
 *  4.3   product_register    4 x 4                       8 x 8       columns, by 4
 *  4.4   product_vector      8 rows x 16 columns         1           rows, by 8 */
extern const lab_rung lab_rungs[LAB_RUNGS];

/* Enqueue C = A B, by rung 0 .. LAB_RUNGS - 1, with enough work-groups to cover C; A is (m, k), B (k, n), C (m, n),
 * each a whole allocation. GS_E_OPENCL: it does not compile (the compiler's messages go to standard error). */
gs_status lab_product(gs_device *, int rung, gs_mem c, gs_mem a, gs_mem b, size_t m, size_t n, size_t k);

/* For the checks: a product of arrays of the host, on device "cl". */
typedef struct lab_multiplication {
    int rung;
    size_t m, n, k;
    size_t guard; /* floats after each matrix, in its allocation */
    float *c;
    const float *a, *b;
    bool counts; /* only where lab_small() is true: fill in `loads` */
    lab_loads loads;
} lab_multiplication;

gs_status lab_multiply(lab_multiplication *);
