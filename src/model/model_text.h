/* Models as short texts, and named models.
 *
 *     conv 32 3x3 pad 1, relu, max_pool 2, flatten, linear 10
 *
 *     text     = NAME [ CLASSES ]                        a named model; `gradsum model --help` lists them
 *              | { "block" NAME { PARAM } "=" model ";" } model
 *     model    = item { "," item }
 *     item     = layer
 *              | N "x" item | N "x" "(" model ")"             N times
 *              | NAME { WORD }                                a block's layers, each PARAM replaced by its WORD
 *     layer    = "linear" OUT ["no_bias"] [std]
 *              | "conv" OUT SIZE ["stride" SIZE] ["pad" SIZE] ["groups" G] ["dilation" SIZE] ["no_bias"] [std]
 *              | ("max_pool" | "avg_pool") SIZE ["stride" SIZE] ["pad" SIZE]      the default stride is SIZE
 *              | "embedding" V D [std]                        V vectors of D numbers
 *              | "positions" [std] | "tied"
 *              | "attention" HEADS ["causal"] | "gelu" ["tanh"]
 *              | "dropout" P | ...                            one number each: GS_NUMBER_LAYERS in layer/make.h
 *              | "residual" "(" model [ "|" model ] ")"       body and shortcut; without a shortcut, x itself
 *              | "flatten" | "relu" | ...                     one word each: GS_WORD_LAYERS in layer/make.h
 *     std      = "std" S                                     initial weights drawn from N(0, S^2), bias 0
 *     SIZE     = K or HxW
 *
 * Blocks and repetitions only abbreviate the text: the net has the same layers with the same names as without them.
 *
 *     block twice C = 2 x (conv C 3x3 pad 1, relu);
 *     twice 16, max_pool 2, twice 32, global_avg_pool, flatten, linear 10
 */
#pragma once

#include "layer/pass.h"

/* A named model, used as "resnet20", or as "resnet20 100" with another number of classes. */
typedef struct gs_named_model {
    const char *name, *text;
    const char *what; /* a line for --help instead of a long text; NULL: show the text */
    gs_shape in;      /* the usual images, or the tokens of the context; all 0: images of any size */
    bool torchvision; /* torchvision has the same model under this name */
} gs_named_model;

/* A row without a name ends the table. */
extern const gs_named_model gs_models[];

/* The model whose name begins the text; NULL: the text consists of layers. */
const gs_named_model *gs_model_named(const char *name_or_text);

/* True for a named language model: "gpt", "gpt2", or "gpt 96" with another vocabulary size. Its inputs are token
 * numbers; for each of them it outputs one logit per token of the vocabulary. False for texts of layers. */
bool gs_model_is_language(const char *name_or_text);

/* The full text, to be freed with free(). For "resnet20 100" this is resnet20's text with 100 outputs; for a text, a
 * copy. GS_E_MODEL: a name is followed by anything except one number. GS_E_MEMORY. */
gs_status gs_model_full_text(const char *name_or_text, char **text);

/* Layer i of the grammar, for --help: its usage, "linear OUT [no_bias]", and its description. False: i is too large. */
bool gs_model_layer_help(int i, const char **usage, const char **what);

/* Build the layers of a name or a text: *net is a `sequential`. GS_E_MODEL: the message gives the word, its number and
 * column, what was expected, and for a misspelt word a suggestion. */
gs_status gs_model_parse(const char *name_or_text, gs_layer **net);

/* The text of a net built by constructors, to be freed with free(); NULL: out of memory. Parsing it gives the same net,
 * except for parts outside the grammar: the caller's own layers, which describe themselves, and sequences within
 * sequences, written in parentheses. */
char *gs_model_text_of(const gs_layer *net);
