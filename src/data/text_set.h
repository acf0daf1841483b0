/* A text as a data set: a model learns to say the next token.
 *
 *     text        t o   b e   o r   n o t   t o   b e
 *     inputs      t o   b | e   o r |   n o t |          windows of N tokens (here 4), side by side
 *     labels      o   b e |   o r   | n o t   |          the same, one token later
 *
 * The last tenth of the tokens is for testing, all before it for training; the vocabulary is that of the whole file. In
 * each epoch the windows of training begin `shift` tokens later than in the drawing, 0 .. N - 1, so that in time every
 * token is seen in every place of a window:
 *
 *     shift = N w / 2^32 (rounded down)     w: the first word of philox(seed, (GS_STREAM_WINDOWS, epoch), 0)
 *
 * So all workers have the same shift. The order of the windows is drawn as that of images is (order.h). The windows of
 * testing stay where they are. What is left at the end, less than a window, is not used.
 *
 * Only the text is in memory, as 16-bit tokens. gs_text_gather turns it into what a model takes: floats that hold token
 * numbers, and int32 labels.
 */
#pragma once

#include "data/dataset.h"
#include "data/vocabulary.h"

enum {
    GS_CONTEXT = 64, /* tokens of a window, where nothing else is said */
    GS_CONTEXT_MOST = 1 << 20,
    GS_TEXT_MOST = 1 << 30 /* bytes of a file, unzipped */
};

/* One part of a text. */
typedef struct gs_text {
    gs_vocabulary vocabulary;
    uint16_t *token;
    size_t count; /* of these */
    int context;  /* N */
} gs_text;

/* Is it "text:FILE" or "jargon"? */
bool gs_text_is_at(const char *where);

/* Load one part of "text:FILE" or "jargon": d->text, count, shape (1,1,1) with N tokens, labels_each, classes. Where
 * options->vocabulary is a loaded model's, the text is written in it. GS_E_FILE: cannot be read, is a folder, has more
 * than GS_TEXT_MOST bytes, or jargon is not installed: the message names the package. GS_E_USAGE: tokens of another
 * kind than the vocabulary's, or another tokenizer. GS_E_FORMAT: as vocabulary.h has it, a damaged gzip stream, or a
 * last tenth that is shorter than a window and its last label. */
gs_status gs_text_load(const char *where, gs_split split, const gs_text_options *options, gs_dataset *d);
void gs_text_free(gs_text *);

/* The byte pairs of a folder, as options->tokenizer has it. GS_E_USAGE: a model's vocabulary (NULL: there is none) is
 * another. Else as gs_bpe_load. */
gs_status gs_text_tokenizer(const char *folder, const gs_vocabulary *of_model, gs_vocabulary *out);

/* How many tokens later the windows of training begin in this epoch (from 1). */
int gs_text_shift(const gs_text *, uint64_t seed, uint64_t epoch);

/* Windows order[0 .. n-1] (order NULL: first .. first + n-1), all `shift` tokens later, to inputs and labels, (n, N)
 * each. Either may be NULL. */
void gs_text_gather(const gs_text *, int shift, const uint32_t *order, size_t first, size_t n, float *inputs,
                    int32_t *labels);
