/* One operator on one device with given sizes: its tensors, its forward and its backward. */
#pragma once

#include "backend.h"

/* Every tensor that some operator has. */
typedef enum tensor { X, W, B, LABELS, DY, Y, INDEX, STATS, DX, DW, DB, TENSORS } tensor;
enum { INPUTS = Y };                       /* the tensors before Y are inputs */
enum { LOSS_STATS = GS_STAT_SAMPLES + 1 }; /* a loss adds to these and leaves the others alone */

extern const char *const tensor_names[TENSORS]; /* as in the golden files */

/* The operators with cases. A new one is a name here, a row of `operators` (operator_table.c) and cases; those of
 * GS_ELEMENT_WISE have all that already. */
#define TESTED_ELEMENT_WISE(of, name, ...) of(name)
#define TESTED_OPERATORS(of)                                                                                 \
    of(linear) of(conv2d) of(conv2d_groups) of(max_pool2d) of(avg_pool2d) of(batch_norm) of(layer_norm)      \
        of(embedding) of(positions) of(attention) of(attention_cached) of(softmax_cross_entropy)             \
            of(mean_squared_error) GS_ELEMENT_WISE(TESTED_ELEMENT_WISE, TESTED_ELEMENT_WISE, of)

typedef struct operator_case {
    const char *op;
    bool small;
    int arg[15];
} operator_case;

typedef struct instance instance;

typedef struct operator_test {
    const char *name;
    int args; /* how many numbers a case has */
    /* The count of each tensor; 0: the operator has no such tensor. */
    void (*counts)(const int *arg, size_t *count);
    gs_status (*forward)(const instance *);
    gs_status (*backward)(const instance *); /* NULL: there is none */
    /* What x must avoid, so that results and finite differences are well defined. */
    enum { ANYWHERE, WIDE, AWAY_FROM_0, DISTINCT, TOKENS } x;
    float step;        /* of finite differences, see test_operators.c */
    bool element_wise; /* y may be x, dx may be dy */
    bool is_loss;      /* the scalar to differentiate is the loss itself, and there is no dy */
    /* An element of this output is a sum of this many numbers. */
    int (*summands)(const int *arg, tensor output);
    bool reads_x; /* element-wise, and backward reads x instead of y */
} operator_test;

struct instance {
    const operator_test *op;
    const operator_case *c;
    gs_device *device;
    bool relu;     /* linear, conv2d: with the relu that follows, as one operator */
    bool add;      /* backward adds to dw and db */
    size_t offset; /* elements before and after each tensor that nobody may touch */
    size_t count[TENSORS];
    float *host[TENSORS];  /* inputs, and what instance_read got; INDEX and LABELS are int32_t in truth */
    gs_mem base[TENSORS];  /* allocations */
    gs_mem place[TENSORS]; /* what the operator is called with; a test may change it */
    gs_mem kept[TENSORS];  /* what backward reads instead of x, or y; GS_NONE: place */
};

static inline gs_mem instance_kept(const instance *t, tensor which) {
    return t->kept[which].base ? t->kept[which] : t->place[which];
}

/* A copy in 16 bits, on a device that can (backend.h); which the test owns. */
gs_mem test_narrowed(gs_device *, gs_mem x, size_t count, bool relu);

/* The end of that table, in operator_sequences.c; a row without a name ends it. */
extern const operator_test sequence_operators[];

/* Its row of the table in operator_table.c; a name that is not there is a bug. */
const operator_test *operator_of_name(const char *);

/* The operator of case `i` of operator_cases.h; NULL after the last case. */
const char *operator_of_case(size_t i);

/* The next case of operator `op` that is to be run, after `c` (NULL: the first); NULL at the end. What the test has got
 * to own for `c` is freed. */
const operator_case *next_case(const char *op, const operator_case *c);

/* "conv2d 7 1 28 28 6 5 5 1 1 2 2 1", as in the golden files. Static buffer. */
const char *operator_case_name(const operator_case *);

/* Allocate all tensors `offset` elements into allocations of their own, write the inputs; outputs begin
 * as garbage, but stats, which are added to, as zeros. The test owns them. */
void instance_open(instance *, gs_device *, const operator_case *, size_t offset);

void instance_forward(const instance *);
void instance_backward(const instance *);

/* Forward, backward, and all outputs to host. */
void instance_run(instance *);

double root_mean_square(const float *v, size_t count);

/* Copy a tensor to host[which], and see that nothing around it was touched. */
void instance_read(instance *, tensor which);
/* Write one element of an input. */
void instance_poke(instance *, tensor which, size_t i, float value);

/* The inputs' formula, which golden/make.py has in Python: a hash of (i, salt); a multiple of 2^-15 in [-1,
 * 1). */
uint32_t test_hash(size_t i, uint32_t salt);
float test_value(size_t i, uint32_t salt);

enum {
    SALT_X = 1,
    SALT_W = 2,
    SALT_B = 3,
    SALT_DY = 4,
    SALT_LABELS = 5,
    SALT_TARGET = 6,
    SALT_MEAN = 8,
    SALT_VAR = 9,
    SALT_CHECK = 99
};
