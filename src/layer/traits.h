/* Traits of a kind of layer, for the code that decides where memory is (layer/memory) and how a tensor group divides
 * layers (parallel/tensor.h). */
#pragma once

/* Where y and dx of a layer are stored. A `sequential` lets element-wise layers work in place (sequential.c). */
typedef enum gs_buffers {
    GS_OWN,          /* in its own buffers; backward does not read y: the next layer may overwrite it */
    GS_READS_Y,      /* in its own buffers; backward reads y: it stays */
    GS_ELEMENT_WISE, /* in its own buffers, or over x and dy that are no longer needed */
    GS_READS_X,      /* as GS_ELEMENT_WISE, but y has its own buffer: backward reads x, and does not read y */
    GS_VIEW,         /* it has none: y is x, or belongs to a layer inside it */
} gs_buffers;

/* What may be stored in 16 bits: x and dx, y and dy (memory/half_storage.h). */
typedef enum gs_storage {
    GS_IN_FLOATS,   /* nothing */
    GS_ALIKE,       /* all four, or none */
    GS_EITHER,      /* x and dx, or neither; y and dy, or neither. Or y alone, if there is no dx */
    GS_X_IN_FLOATS, /* y and dy, or nothing */
    GS_Y_IN_FLOATS, /* x and dx, or nothing */
} gs_storage;

/* The part of a tensor that a rank of a tensor group holds: all, some rows (dims[0]), or some columns (dims[1]). */
typedef enum gs_cut { GS_UNCUT, GS_CUT_ROWS, GS_CUT_COLUMNS } gs_cut;

/* The role of a kind of layer in a divided pair of layers, or with divided sequences (sequence.h). */
typedef enum gs_tensor_kind {
    GS_TENSOR_NOTHING,
    GS_TENSOR_LINEAR,   /* begin or end a pair */
    GS_TENSOR_CONV,     /* begin or end a pair of convolutions */
    GS_TENSOR_CHANNELS, /* between two convolutions: each channel of y follows from that channel of x */
    GS_TENSOR_HEADS,    /* between two linear layers: each head's y follows from its part of q, k and v */
    GS_TENSOR_TIED,     /* not in a pair: the outputs of an embedding's table */
    /* From here on a layer can hold some tokens of each sequence: */
    GS_TENSOR_TABLE,    /* not in a pair: an embedding's vocabulary, whose table `tied` may use too */
    GS_TENSOR_ELEMENTS, /* between two of a pair: each number of y follows from one number of x */
    GS_TENSOR_VECTORS,  /* each token's y follows from its x, and the gradients are sums over tokens */
    GS_TENSOR_PLACES,   /* each token's y follows from its x and its position in the sequence */
    GS_TENSOR_DRAWS, /* each number of y follows from one number of x, and from what is drawn for its index */
    GS_TENSOR_AROUND, /* a container: as the layers in it */
} gs_tensor_kind;
