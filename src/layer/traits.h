/* What layers of a kind say of themselves, for those who decide where memory lies (layer/memory) and how layers are
 * divided among the workers of a tensor group (parallel/tensor.h). */
#pragma once

/* Where a layer's y and dx lie. A `sequential` lets element-wise layers work in place (sequential.c). */
typedef enum gs_buffers {
    GS_OWN,          /* in buffers of its own; backward does not read y: the next layer may overwrite it */
    GS_READS_Y,      /* in buffers of its own; backward reads y: it stays */
    GS_ELEMENT_WISE, /* in buffers of its own, or over x and dy where nobody needs these any more */
    GS_READS_X,      /* the same, but y is in a buffer of its own: backward reads x, and does not read y */
    GS_VIEW,         /* it has none: y is x, or belongs to a layer inside it */
} gs_buffers;

/* In 16 bits, what may lie so in memory of x and dx, and of y and dy (memory/half_storage.h). */
typedef enum gs_storage {
    GS_IN_FLOATS,   /* nothing */
    GS_ALIKE,       /* all four, or none */
    GS_EITHER,      /* x and dx, or neither; y and dy, or neither. Or y alone, if there is no dx */
    GS_X_IN_FLOATS, /* y and dy, or nothing */
    GS_Y_IN_FLOATS, /* x and dx, or nothing */
} gs_storage;

/* What of a tensor a rank of a tensor group has: all of it, some of its rows (dims[0]), or some columns (dims[1]). */
typedef enum gs_cut { GS_UNCUT, GS_CUT_ROWS, GS_CUT_COLUMNS } gs_cut;

/* What layers of a kind can do in a pair of layers that is divided, or where sequences are (sequence.h). */
typedef enum gs_tensor_kind {
    GS_TENSOR_NOTHING,
    GS_TENSOR_LINEAR,   /* begin or end a pair */
    GS_TENSOR_CONV,     /* begin or end a pair of convolutions */
    GS_TENSOR_CHANNELS, /* between two convolutions: each channel of y follows from that channel of x */
    GS_TENSOR_HEADS,    /* between two linear layers: each head's y follows from its part of q, k and v */
    GS_TENSOR_TIED,     /* not in a pair: the outputs of an embedding's table */
    /* From here on a layer can have some tokens of each sequence: */
    GS_TENSOR_TABLE,    /* not in a pair: an embedding's vocabulary */
    GS_TENSOR_ELEMENTS, /* between two of a pair: each number of y follows from one number of x */
    GS_TENSOR_VECTORS,  /* each token's y follows from its x, and the gradients are sums over tokens */
    GS_TENSOR_PLACES,   /* each token's y follows from its x and its place in the sequence */
    GS_TENSOR_DRAWS, /* each number of y follows from one number of x, and from what is drawn for its place */
    GS_TENSOR_AROUND, /* a container: as the layers in it */
} gs_tensor_kind;
