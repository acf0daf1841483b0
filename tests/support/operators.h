/* One operator on one device with given sizes: its tensors, forward and backward. */
#pragma once

#include "backend.h"

/* All tensors that an operator may use. */
typedef enum tensor { X, W, B, LABELS, DY, Y, INDEX, STATS, DX, DW, DB, TENSORS } tensor;
enum { INPUTS = Y };                       /* the tensors before Y are inputs */
enum { LOSS_STATS = GS_STAT_SAMPLES + 1 }; /* losses add to these stats only */

extern const char *const tensor_names[TENSORS]; /* as in the golden files */

/* The operators with cases. A new one needs a name here, a row of `operators` (operator_table.c) and cases. The
 * operators of GS_ELEMENT_WISE need none of these. */
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
    int args; /* how many numbers describe a case */
    /* The count of each tensor; 0: the operator has no such tensor. */
    void (*counts)(const int *arg, size_t *count);
    gs_status (*forward)(const instance *);
    gs_status (*backward)(const instance *); /* NULL: there is none */
    /* Values that x must avoid, so that results and finite differences are well defined. */
    enum { ANYWHERE, WIDE, AWAY_FROM_0, DISTINCT, TOKENS } x;
    float step;        /* for finite differences, see test_operators.c */
    bool element_wise; /* y may be in x's memory, and dx in dy's */
    bool is_loss;      /* differentiates the loss itself; there is no dy */
    /* How many numbers are summed for an element of this output. */
    int (*summands)(const int *arg, tensor output);
    bool reads_x; /* element-wise; backward reads x instead of y */
} operator_test;

struct instance {
    const operator_test *op;
    const operator_case *c;
    gs_device *device;
    bool relu;     /* linear, conv2d: fused with the following relu */
    bool add;      /* backward adds to dw and db */
    size_t offset; /* guard elements before and after each tensor */
    size_t count[TENSORS];
    float *host[TENSORS];  /* inputs, and what instance_read read; INDEX and LABELS hold int32_t */
    gs_mem base[TENSORS];  /* allocations */
    gs_mem place[TENSORS]; /* the operator's arguments; a test may change them */
    gs_mem kept[TENSORS];  /* what backward reads instead of x or y; GS_NONE: `place` */
};

static inline gs_mem instance_kept(const instance *t, tensor which) {
    return t->kept[which].base ? t->kept[which] : t->place[which];
}

/* A 16-bit copy, on a device that stores such numbers (backend.h). The test owns it. */
gs_mem test_narrowed(gs_device *, gs_mem x, size_t count, bool relu);

/* The rest of operator_table.c's table, in operator_sequences.c; a row without a name ends it. */
extern const operator_test sequence_operators[];

/* The operator's row in the table of operator_table.c; an unknown name is a bug. */
const operator_test *operator_of_name(const char *);

/* The operator of case `i` of operator_cases.h; NULL after the last case. */
const char *operator_of_case(size_t i);

/* The case of operator `op` to run after `c`, or the first one if `c` is NULL; NULL at the end. Frees everything that
 * the test came to own since `c` began. */
const operator_case *next_case(const char *op, const operator_case *c);

/* "conv2d 7 1 28 28 6 5 5 1 1 2 2 1", as in the golden files. Static buffer. */
const char *operator_case_name(const operator_case *);

/* Allocates all tensors, each `offset` elements into its own allocation, and writes the inputs. Outputs start as
 * garbage, except for stats, which are added to and start as zeros. The test owns them. */
void instance_open(instance *, gs_device *, const operator_case *, size_t offset);

void instance_forward(const instance *);
void instance_backward(const instance *);

/* Runs forward and backward, then copies all outputs to host. */
void instance_run(instance *);

double root_mean_square(const float *v, size_t count);

/* Copies a tensor to host[which] and checks that nothing around it changed. */
void instance_read(instance *, tensor which);
/* Write one element of an input. */
void instance_poke(instance *, tensor which, size_t i, float value);

/* The inputs, by the same formulas as in golden/make.py: a hash of (i, salt); a multiple of 2^-15 in [-1, 1). */
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
