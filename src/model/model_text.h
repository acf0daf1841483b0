/* Models as short texts, and the models that have a name.
 *
 *     conv 32 3x3 pad 1, relu, max_pool 2, flatten, linear 10
 *
 *     text     = NAME [ CLASSES ]                        a model that has a name; `gradsum model --help` lists them
 *              | { "block" NAME { PARAM } "=" model ";" } model
 *     model    = item { "," item }
 *     item     = layer
 *              | N "x" item | N "x" "(" model ")"             N times
 *              | NAME { WORD }                                the layers of that block, each PARAM replaced by its WORD
 *     layer    = "linear" OUT ["no_bias"] [std]
 *              | "conv" OUT SIZE ["stride" SIZE] ["pad" SIZE] ["groups" G] ["dilation" SIZE] ["no_bias"] [std]
 *              | "max_pool" SIZE ["stride" SIZE] ["pad" SIZE]      stride: the window's size if not given
 *              | "avg_pool" SIZE ["stride" SIZE] ["pad" SIZE]
 *              | "embedding" V D [std]                        V vectors of D numbers
 *              | "positions" [std] | "tied"
 *              | "attention" HEADS ["causal"]
 *              | "gelu" ["tanh"]
 *              | "group_norm" GROUPS | "dropout" P | "softplus" BETA
 *              | "residual" "(" model [ "|" model ] ")"       body, and the shortcut, else x itself
 *              | "flatten" | "relu" | ...                     one word; the table in model_text.c has them all
 *     std      = "std" S                                     normal initial weights with this deviation, bias 0
 *     SIZE     = K or HxW
 *
 * Blocks and repetitions are short for text: a net that is written with them has the same layers, with the same names,
 * as one that is written without.
 *
 *     block twice C = 2 x (conv C 3x3 pad 1, relu);
 *     twice 16, max_pool 2, twice 32, global_avg_pool, flatten, linear 10
 */
#pragma once

#include "core/shape.h"
#include "layer/pass.h"

/* A model that has a name: "resnet20", or "resnet20 100" with another number of classes. */
typedef struct gs_named_model {
    const char *name, *text;
    const char *what; /* a line of --help, where the text would take a page; NULL: the text is shown */
    gs_shape in;      /* the images that it is meant for, or the tokens of its context; all 0: any images */
    bool torchvision; /* which has a model of this name with these layers */
} gs_named_model;

/* All of them; the last row has no name. */
extern const gs_named_model gs_models[];

/* The model with whose name this begins; NULL: it is a text. */
const gs_named_model *gs_model_named(const char *name_or_text);

/* Is it a language model's, "gpt", "gpt2" or "gpt 96" with another vocabulary? It takes token numbers and gives one
 * number for each word of its vocabulary, for each token. False for all texts. */
bool gs_model_is_language(const char *name_or_text);

/* The input that a language model is known for: as many tokens as its context has. False: it is none, and *in stays. */
bool gs_model_usual_input(const char *name_or_text, gs_shape *in);

/* What it stands for, to be freed with free(): of "resnet20 100" resnet20's text with 100 outputs, of a text a copy.
 * GS_E_MODEL: behind a name stands something else than one number. GS_E_MEMORY. */
gs_status gs_model_full_text(const char *name_or_text, char **text);

/* Layer i of the grammar, as --help shows it: "linear OUT [no_bias]" and what it does. False: there are fewer. */
bool gs_model_layer_help(int i, const char **usage, const char **what);

/* Build the layers of a name or a text: *net is a `sequential`. GS_E_MODEL: the message says which word,
 * where (its number and column), what was expected, and for a near miss which word may have been meant. */
gs_status gs_model_parse(const char *name_or_text, gs_layer **net);

/* The text of a net that was built by constructors, to be freed with free(); NULL: no memory. Parsed, it gives the same
 * net again, except for what the grammar has no words for: a layer of your own is written as it describes itself, and a
 * sequence within a sequence stands in parentheses. */
char *gs_model_text_of(const gs_layer *net);
