/* A text as a data set: a model learns to predict the next token.
 *
 *     text        t o   b e   o r   n o t   t o   b e
 *     inputs      t o   b | e   o r |   n o t |          windows of N tokens (here 4), side by side
 *     labels      o   b e |   o r   | n o t   |          the same, one token later
 *
 * The last tenth of the tokens is for testing, the rest for training; the vocabulary covers the whole file. In each
 * epoch the training windows start `shift` tokens (0 .. N - 1) later than shown above, so that every token eventually
 * appears at every position in a window:
 *
 *     shift = N w / 2^32 (rounded down)     w: the first word of philox(seed, (GS_STREAM_WINDOWS, epoch), 0)
 *
 * All workers use the same shift. The windows are shuffled like images (order.h). Test windows are not shifted. A
 * remainder shorter than a window is not used.
 *
 * The text is stored as 16-bit tokens. gs_text_gather converts them to a model's inputs and labels: token numbers as
 * floats, and int32 labels. */
#pragma once

#include "data/dataset.h"

enum {
    GS_CONTEXT = 64, /* default tokens per window */
    GS_CONTEXT_MOST = 1 << 20,
    GS_TEXT_MOST = 1 << 30 /* bytes in a file, unzipped */
};

/* One split of a text. */
typedef struct gs_text {
    gs_vocabulary vocabulary;
    uint16_t *token;
    size_t count;
    int context; /* N */
} gs_text;

/* True if `where` is "text:FILE" or "jargon". */
bool gs_text_is_at(const char *where);

/* Load one split of "text:FILE" or "jargon": sets d->text, count, shape (1,1,1) with N tokens, labels_each, classes.
 * options->vocabulary, unless NULL, encodes the text. GS_E_FILE: cannot be read, is a folder, exceeds GS_TEXT_MOST
 * bytes, or jargon is not installed (the message names the package). GS_E_USAGE: the kind of tokens or the tokenizer is
 * not the vocabulary's. GS_E_FORMAT: as in vocabulary.h, a damaged gzip stream, or a last tenth that is shorter than
 * one window plus its last label. */
gs_status gs_text_load(const char *where, gs_split split, const gs_text_options *options, gs_dataset *d);
void gs_text_free(gs_text *);

/* Load the byte pairs from a folder. GS_E_USAGE: it differs from of_model (unless NULL). Else as in gs_bpe_load. */
gs_status gs_text_tokenizer(const char *folder, const gs_vocabulary *of_model, gs_vocabulary *out);

/* The shift of the training windows in this epoch (from 1). */
int gs_text_shift(const gs_text *, uint64_t seed, uint64_t epoch);

/* Write windows order[0 .. n-1] (order NULL: first .. first + n-1), shifted, to inputs and labels, (n, N) each. Either
 * may be NULL. */
void gs_text_gather(const gs_text *, int shift, const uint32_t *order, size_t first, size_t n, float *inputs,
                    int32_t *labels);
