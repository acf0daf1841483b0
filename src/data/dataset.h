/* Samples and their targets. Sources:
 *
 *     the MNIST family's IDX files, gzipped or not     images with labels, kept as bytes (idx.h)
 *     CIFAR-10's and CIFAR-100's files                 cifar.h
 *     NumPy's files                                    npy_set.h
 *     tables of numbers as text                        csv_set.h
 *     grey images turned into colour images            colour.h
 *     a text, whose samples are windows                text_set.h
 *     image folders, decoded on demand, not in memory  folder_set.h
 *     the caller: numbers with labels or targets       gs_dataset_from_...
 *
 * MNIST: LeCun, Cortes, Burges, "The MNIST database of handwritten digits" (http://yann.lecun.com/exdb/mnist/). A
 * folder holds train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte, each
 * with or without ".gz".
 */
#pragma once

#include "core/scaling.h"
#include "data/vocabulary.h"
#include "gradsum.h"

/* Class names, only for display. */
typedef struct gs_class_names {
    int count; /* 0: the classes have no names */
    char **name;
} gs_class_names;

/* Names from a text with one name per line; no names if it has fewer than `classes` lines. */
gs_class_names gs_class_names_of_lines(const char *text, size_t bytes, int classes);

/* Names for the characters of a vocabulary (a space is "' '"); no names for bytes and byte pairs. */
gs_class_names gs_class_names_of_tokens(const gs_vocabulary *);
void gs_class_names_free(gs_class_names *);

/* Class k's name, printable and cut after about 40 bytes, or its number if it has none. May be stored in `room`. */
enum { GS_CLASS_NAME = 48 };
const char *gs_class_name(const gs_class_names *, int k, char room[GS_CLASS_NAME]);

/* One of CIFAR-100's two labels. */
typedef enum gs_labels { GS_LABELS_FINE, GS_LABELS_COARSE } gs_labels;

/* How to read an image folder. All zero: the defaults. */
typedef struct gs_folder_options {
    int size;         /* a sample is (3, size, size); 0: GS_FOLDER_SIZE */
    int loaders;      /* decoding threads; 0: 1 */
    bool skip_broken; /* replace a file that cannot be decoded */
} gs_folder_options;

struct gs_folder_set;

struct gs_dataset {
    char name[256]; /* "fashion-mnist (train)" */
    char kind[64];  /* "CIFAR-10's format"; may be empty */
    size_t count;
    gs_shape shape;        /* (1, 28, 28) */
    int classes;           /* largest label + 1; 0 if there are targets */
    gs_class_names names;  /* may include names of unused classes */
    int labels_each;       /* labels per sample: one for each token; 0 means 1 */
    unsigned char *images; /* count x shape bytes; NULL if there are ... */
    float *inputs;         /* ... count x shape floats, which are not scaled */
    unsigned char *labels; /* count x labels_each; NULL if there are ... */
    float *targets;        /* ... count x outputs floats */
    int outputs;
    struct gs_text *text; /* inputs and labels are windows of it (text_set.h); replaces the arrays above */
    struct gs_folder_set *folder; /* reads inputs and labels on demand; replaces the arrays above */
};

/* How to read a text. The defaults: GS_TOKENS_UNSAID, and 0 in all other members. */
typedef struct gs_text_options {
    gs_tokens tokens;                /* UNSAID: the kind of `vocabulary`, else characters */
    int context;                     /* tokens per window; 0: GS_CONTEXT */
    const gs_vocabulary *vocabulary; /* a loaded model's; NULL: `tokenizer`'s, else one made from the text */
    const char *tokenizer;           /* a folder with byte pairs (bpe.h), or NULL */
} gs_text_options;

/* Like gs_dataset_load, but with a choice of labels, and options for texts and image folders (NULL: the defaults).
 * GS_E_USAGE: coarse labels of images that have one label. */
gs_status gs_dataset_load_with(const char *where, gs_split split, gs_labels labels, const gs_text_options *,
                               const gs_folder_options *, gs_dataset **out);
/* True if `where` is a path relative to the working directory. */
bool gs_dataset_is_relative(const char *where);

/* True if gs_dataset_load would read `where` as an image folder. */
bool gs_dataset_is_image_folder(const char *where);

/* Formats of files in a folder: X(NAME, the word before "files"). For a new format, add a row here and a source file;
 * --data, its help and its messages follow from this table. gs_NAME_is_at tells whether `where` holds such files.
 * gs_NAME_load loads one split into an empty data set; errors as in gs_dataset_load. */
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

/* True if the inputs are floats. Otherwise they are bytes of images, which are scaled. */
static inline bool gs_dataset_is_numbers(const gs_dataset *d) {
    return d->inputs || d->text;
}

/* The checksum of all samples and targets. */
uint32_t gs_data_checksum(const gs_dataset *);

/* Bytes of one sample, and of its targets, as gs_dataset_gather writes them. */
static inline size_t gs_dataset_input_bytes(const gs_dataset *d) {
    return gs_shape_size(d->shape) * (gs_dataset_is_numbers(d) ? sizeof(float) : 1);
}

static inline size_t gs_dataset_target_bytes(const gs_dataset *d) {
    return d->targets ? (size_t)d->outputs * sizeof(float)
                      : (size_t)gs_dataset_labels_each(d) * sizeof(int32_t);
}

/* GS_E_FORMAT names the first sample whose label is not below `classes`. Only for sets that have labels. */
gs_status gs_dataset_check_labels(const gs_dataset *, int classes);

/* Check that the inputs are token numbers: integers from 0 to vocabulary - 1. GS_E_FORMAT names the first that is not;
 * GS_E_USAGE: the inputs are bytes, which are scaled before a model sees them. */
gs_status gs_dataset_check_tokens(const gs_dataset *, int vocabulary);

/* Mean and standard deviation of the pixels x = byte / 255 in each channel (std 1 if all pixels are equal); images with
 * more than GS_CHANNELS channels have one pair for all channels. Scaled inputs have mean 0 and variance 1, as training
 * with one learning rate for all layers requires (LeCun et al., "Efficient BackProp", 1998, section 4.3). Float inputs
 * are GS_NOT_SCALED: scaling is up to the caller. */
gs_scaling gs_dataset_scaling(const gs_dataset *);

/* The same from the sums of bytes and of their squares, which are integers, so the order of adding does not matter.
 * gs_scaling_add adds `count` bytes: the channels' planes in order. gs_scaling_of_sums: each sum has `pixels` terms. */
void gs_scaling_add(const unsigned char *bytes, size_t count, size_t plane, size_t channels, uint64_t *sum,
                    uint64_t *squares);
gs_scaling gs_scaling_of_sums(int channels, double pixels, const uint64_t *sum, const uint64_t *squares);
