/* Models as short texts, and the models that have a name.
 *
 *     conv 32 3x3 pad 1, relu, max_pool 2, flatten, linear 10
 *
 *     model    = layer { "," layer }
 *     layer    = "linear" OUT ["no_bias"]
 *              | "conv" OUT SIZE ["stride" SIZE] ["pad" SIZE] ["no_bias"]
 *              | "max_pool" SIZE ["stride" SIZE] ["pad" SIZE]      stride: the window's size if not given
 *              | "avg_pool" SIZE ["stride" SIZE] ["pad" SIZE]
 *              | "global_avg_pool" | "flatten" | "relu" | "tanh" | "sigmoid"
 *              | "dropout" P
 *              | "residual" "(" model [ "|" model ] ")"       body, and the shortcut, else x itself
 *     SIZE     = K or HxW
 */
#ifndef GS_MODEL_MODEL_TEXT_H
#define GS_MODEL_MODEL_TEXT_H

#include "layer/layer.h"

/* A name ("softmax", "mlp", "lenet", "cnn") -> the text it stands for; any other text comes back as it is. */
const char *gs_model_text(const char *name_or_text);

/* The names, ending with NULL. */
const char *const *gs_model_names(void);

/* Build the layers of a name or a text: *net is a `sequential`. GS_E_MODEL: the message says which word,
 * where (its number and column), what was expected, and for a near miss which word may have been meant. */
gs_status gs_model_parse(const char *name_or_text, gs_layer **net);

#endif
