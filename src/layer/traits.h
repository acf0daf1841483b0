/* Traits of a kind of layer, for the code that decides where its memory is (layer/memory) and how a tensor group
 * divides it (parallel/tensor.h). */
#pragma once

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
