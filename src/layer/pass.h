/* Definitions shared by a model and its layers: traits of a kind of layer, tensors, and a pass through the layers. */
#pragma once

#include "backend.h"

typedef struct gs_layer gs_layer; /* layer.h */

/* Where y and dx of a layer are stored. A `sequential` lets element-wise layers work in place (sequential.c). */
typedef enum gs_buffers {
    GS_OWN,          /* in its own buffers; backward does not read y, so the next layer may overwrite it */
    GS_READS_Y,      /* in its own buffers; backward reads y, so nothing may overwrite it */
    GS_ELEMENT_WISE, /* in its own buffers, or over x and dy that are no longer needed */
    GS_READS_X,      /* like GS_ELEMENT_WISE, but y has its own buffer: backward reads x, not y */
    GS_VIEW,         /* nowhere: y is x, or belongs to a layer inside it */
} gs_buffers;

/* Which of x and dx, y and dy may be stored in 16 bits (memory/half_storage.h). */
typedef enum gs_storage {
    GS_IN_FLOATS,   /* none */
    GS_ALIKE,       /* all four, or none */
    GS_EITHER,      /* x with dx, and y with dy, each pair by itself; y alone if there is no dx */
    GS_X_IN_FLOATS, /* y and dy, or none */
    GS_Y_IN_FLOATS, /* x and dx, or none */
} gs_storage;

/* The part of a tensor that a rank of a tensor group holds: all, some rows (dims[0]), or some columns (dims[1]). */
typedef enum gs_cut { GS_UNCUT, GS_CUT_ROWS, GS_CUT_COLUMNS } gs_cut;

/* The role of a kind of layer in a divided pair of layers, or with divided sequences (sequence.h). */
typedef enum gs_tensor_kind {
    GS_TENSOR_NOTHING,
    GS_TENSOR_LINEAR,   /* begins or ends a pair */
    GS_TENSOR_CONV,     /* begins or ends a pair of convolutions */
    GS_TENSOR_CHANNELS, /* between two convolutions: each channel of y depends on the same channel of x */
    GS_TENSOR_HEADS,    /* between two linear layers: each head's y depends only on its part of q, k and v */
    GS_TENSOR_TIED,     /* not in a pair: computes outputs with an embedding's table */
    /* From here on, layers that can process only some tokens of each sequence: */
    GS_TENSOR_TABLE,    /* not in a pair: an embedding, whose table `tied` may also use */
    GS_TENSOR_ELEMENTS, /* between the two layers of a pair: each element of y depends on one element of x */
    GS_TENSOR_VECTORS,  /* each token's y depends only on its x, and the gradients are sums over tokens */
    GS_TENSOR_PLACES,   /* each token's y depends on its x and its position in the sequence */
    GS_TENSOR_DRAWS, /* each element of y depends on one element of x, and on the random word for its index */
    GS_TENSOR_AROUND, /* a container: behaves like the layers in it */
} gs_tensor_kind;

enum { GS_PARAM_NAME = 64 }; /* maximum bytes of a tensor's name, with its final 0 */

/* One tensor of a layer, with PyTorch's name and shape: a parameter, which is trained, or state (running statistics),
 * which is not trained but is saved with the parameters. In training, forward adds to the state's dw, or writes it if
 * the pass is fresh:
 *
 *     dw += n s        s: the new state according to these n samples;  after the sum over all workers: w = dw / samples
 *
 * So the state is the same on all workers: a mean over the samples, as the gradient is. A `recomputing` pass (gs_pass)
 * does not change it. */
typedef struct gs_param {
    char name[GS_PARAM_NAME]; /* "3.weight", "5.body.0.bias" */
    int ndim, dims[4];
    size_t at, count; /* its offset and length in the model's flat arrays */
    float std;        /* standard deviation of normally distributed initial values; 0: not normal */
    int fan_in;    /* inputs that feed one output: sets the range of initial values; 0: all values are ... */
    float initial; /* ... this */
    bool state;
    gs_cut cut;      /* which part a rank of a tensor group holds; dims and count describe that part */
    int cut_blocks;  /* if cut: this many equal parts of dims[0] are each cut: 3 for q, k and v */
    int cut_whole;   /* if cut: the number of such rows or columns in the whole tensor */
    bool longer;     /* a file may hold more rows than dims[0]: the first dims[0] are loaded */
    bool transposed; /* it has two dimensions, and a file stores its transpose (names.h) */
    gs_mem w, dw;    /* bound: addresses on the device; GS_NONE: the layer has no such tensor */
} gs_param;

/* Common to all layers during one forward and backward pass over one micro-batch. */
typedef struct gs_pass {
    size_t n;      /* samples; at most the max_batch given to bind */
    bool training; /* dropout is active */
    bool fresh;    /* the gradients are still empty: backward writes dw and db instead of adding to them */
    /* Backward runs this forward again (recompute.h): y must become the same again. Nothing is added to the state a
     * second time, and nothing is summed over workers. */
    bool recomputing;
    uint64_t seed, step; /* the user's seed and the index of the step, from 0, for dropout */
    size_t first;        /* index of the first of these samples in the global batch, for dropout */
    /* The gradients are those of the loss times this factor (optim/loss_scale.h); 0: of the unscaled loss. */
    float loss_scale;
    size_t group; /* for batch_norm: this many samples share statistics; 0: all of them */
    /* --exact: everything that is summed over samples is summed for each of these leaves, then over them in the order
     * of a tree (leaves.h). */
    gs_leaves leaves;
    size_t from; /* in a call for one leaf: how many samples of the pass come before its own */
    /* Inference after gs_model_cache: x and y are (n, tokens, ...), and these tokens follow `past` earlier ones. tokens
     * 0: whole samples. */
    size_t tokens, past;
    /* numbers[i] = the sum of numbers[i] over all workers, i < count. All workers make the same calls. If the pass has
     * leaves, `numbers` holds the numbers of each, and has room for GS_LEAVES x count. NULL: nothing is shared. */
    gs_status (*sum_over_workers)(void *context, double *numbers, size_t count);
    void *sum_context;
    /* Called during backward: the gradients from element `first` of the flat array on are final for this pass. `first`
     * never grows from call to call; in the last call it is 0. May be NULL. */
    gs_status (*final)(void *context, size_t first);
    void *final_context;
} gs_pass;
