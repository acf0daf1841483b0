/* Samples and their targets. They come from:
 *
 *     the MNIST family's IDX files, gzipped or not     images with labels, kept as bytes
 *     CIFAR-10's and CIFAR-100's files                 cifar.h
 *     NumPy's files                                    npy_set.h
 *     tables of numbers as text                        csv_set.h
 *     grey images, made colourful                      colour.h
 *     a text, whose samples are windows                text_set.h
 *     image folders                                    folder_set.h. They are not in memory: gs_dataset_gather
 *                                                      decodes them
 *     the caller: numbers with labels or targets       gs_dataset_from_...
 *
 * IDX, as LeCun, Cortes, Burges, "The MNIST database of handwritten digits", define it
 * (http://yann.lecun.com/exdb/mnist/): big-endian int32 magic (0x803 images, 0x801 labels), the sizes, bytes. A folder
 * holds train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte, each with or
 * without ".gz".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include "core/scaling.h"
#include "data/vocabulary.h"
#include "gradsum.h"

/* What the classes of a set are called, for a person to read: nothing is computed from it. */

typedef struct gs_class_names {
    int count; /* 0: they have only numbers */
    char **name;
} gs_class_names;

/* Of a text with a name on each line; one of fewer than `classes` lines gives none. */
gs_class_names gs_class_names_of_lines(const char *text, size_t bytes, int classes);

/* The characters of a text, a space as "' '"; of bytes and byte pairs none. */
gs_class_names gs_class_names_of_tokens(const gs_vocabulary *);
void gs_class_names_free(gs_class_names *);

/* Class k's name as a terminal may show it, cut after some 40 bytes; its number if it has none. `room` is for it. */
enum { GS_CLASS_NAME = 48 };
const char *gs_class_name(const gs_class_names *, int k, char room[GS_CLASS_NAME]);

/* Which labels, where images have two: CIFAR-100's. */
typedef enum gs_labels { GS_LABELS_FINE, GS_LABELS_COARSE } gs_labels;

/* How an image folder is read. All zero: as usual. */
typedef struct gs_folder_options {
    int size;         /* of a sample, which is (3, size, size); 0: GS_FOLDER_SIZE */
    int loaders;      /* threads that decode; 0: 1 */
    bool skip_broken; /* another file takes the place of one that cannot be decoded */
    bool cache;       /* keep decoded pictures in memory */
} gs_folder_options;

struct gs_folder_set;

struct gs_dataset {
    char name[256]; /* "fashion-mnist (train)" */
    char kind[64];  /* "CIFAR-10's format"; empty where the name says it all */
    size_t count;
    gs_shape shape;        /* (1, 28, 28) */
    int classes;           /* largest label + 1; 0 where there are targets */
    gs_class_names names;  /* of the classes; may be more than those in use */
    int labels_each;       /* labels of a sample: one for each token; 0 says the same as 1 */
    unsigned char *images; /* count x shape bytes; NULL where there are ... */
    float *inputs;         /* ... count x shape numbers, which a model gets as they are */
    unsigned char *labels; /* count x labels_each; NULL where there are ... */
    float *targets;        /* ... count x outputs numbers */
    int outputs;
    /* Where it is there, inputs and labels are windows of it (text_set.h), and none of the others is there. */
    struct gs_text *text;
    struct gs_folder_set *folder; /* reads inputs and labels when they are wanted; NULL: they are above */
};

/* How to read a text. All 0, with GS_TOKENS_UNSAID: as usual. */
typedef struct gs_text_options {
    gs_tokens tokens;                /* UNSAID: those of the vocabulary, else characters */
    int context;                     /* tokens of a window; 0: GS_CONTEXT */
    const gs_vocabulary *vocabulary; /* of a loaded model; NULL: that of the tokenizer, else the text's own */
    const char *tokenizer;           /* a folder with byte pairs (bpe.h); NULL: none */
} gs_text_options;

/* gs_dataset_load with coarse labels too, GS_E_USAGE where the images have only one; with options for a text and an
 * image folder. NULL: as usual. */
gs_status gs_dataset_load_with(const char *where, gs_split split, gs_labels labels, const gs_text_options *,
                               const gs_folder_options *, gs_dataset **out);
/* Is it a path that begins in the folder where the program runs? */
bool gs_dataset_is_relative(const char *where);

/* Does it take `where` for an image folder? */
bool gs_dataset_is_image_folder(const char *where);

/* Formats whose files lie in a folder: X(NAME, what the files are, before the word "files"). A new one is a row here
 * and its file; --data, its help and its messages follow from that. gs_NAME_is_at: does `where` hold such files?
 * gs_NAME_load: one split of them, into an empty data set, with the errors of gs_dataset_load. */
#define GS_DATA_FORMATS(X) X(npy_set, ".npy") X(cifar, "CIFAR's") X(mnist, "MNIST's") X(csv_set, ".csv")
#define GS_DECLARE(name, files)                                                                              \
    bool gs_##name##_is_at(const char *where);                                                               \
    gs_status gs_##name##_load(const char *where, gs_split, gs_labels, gs_dataset *);
GS_DATA_FORMATS(GS_DECLARE)
#undef GS_DECLARE
#define GS_COMMA_FILES(name, files) ", " files
#define GS_DATA_FILES GS_DATA_FORMATS(GS_COMMA_FILES) /* ", .npy, CIFAR's" and so on */

static inline int gs_dataset_labels_each(const gs_dataset *d) {
    return d->labels_each > 1 ? d->labels_each : 1;
}

/* Does a model get the inputs as they are? If not, they are bytes of images, which are scaled. */
static inline bool gs_dataset_is_numbers(const gs_dataset *d) {
    return d->inputs || d->text;
}

/* Checksum of all samples and targets. */
uint32_t gs_data_checksum(const gs_dataset *);

/* Bytes of one sample and of its targets, as gs_dataset_gather writes them. */
static inline size_t gs_dataset_input_bytes(const gs_dataset *d) {
    return gs_shape_size(d->shape) * (gs_dataset_is_numbers(d) ? sizeof(float) : 1);
}

static inline size_t gs_dataset_target_bytes(const gs_dataset *d) {
    return d->targets ? (size_t)d->outputs * sizeof(float)
                      : (size_t)gs_dataset_labels_each(d) * sizeof(int32_t);
}

/* GS_E_FORMAT names the first sample whose label is not below `classes`. Not for a set with targets. */
gs_status gs_dataset_check_labels(const gs_dataset *, int classes);

/* Are the inputs token numbers, whole numbers from 0 to vocabulary - 1? GS_E_FORMAT names the first that is not;
 * GS_E_USAGE: they are bytes, which are scaled before a model gets them. */
gs_status gs_dataset_check_tokens(const gs_dataset *, int vocabulary);

/* Mean and standard deviation of the pixels of each channel, as x = byte / 255 (std 1 if all are equal); images of more
 * than GS_CHANNELS channels have one of each for all. With them the inputs have mean 0 and variance 1, which training
 * with one learning rate for all layers wants (LeCun et al., "Efficient BackProp", 1998, section 4.3). For a set from
 * memory it is GS_NOT_SCALED: scaling is up to the caller. */
gs_scaling gs_dataset_scaling(const gs_dataset *);
