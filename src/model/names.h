/* Tensor names of other programs: gradsum loads their weights, and they load gradsum's. */
#pragma once

#include "model/model.h"

typedef enum gs_names {
    GS_NAMES_OWN,         /* "3.body.0.weight", as in PyTorch's Sequential */
    GS_NAMES_TORCHVISION, /* "layer1.0.conv1.weight", as in torchvision's ResNet and VGG */
    GS_NAMES_HUGGINGFACE, /* "h.0.attn.c_attn.weight", as in GPT-2 in Hugging Face's transformers */
} gs_names;

typedef struct gs_name {
    char text[GS_PARAM_NAME];
    bool transposed; /* the file's tensor is (in, out), the model's (out, in) */
} gs_name;

/* The names of all parameters and state: name[i] is for model->param[i], i < saved_count. The model may be a plan.
 * GS_E_USAGE: the other program has no such model; the message names the layer. */
gs_status gs_names_of(const gs_model *model, gs_names which, gs_name *name);

/* Rename the tensors that gs_safetensors_save writes. GS_E_USAGE as above, and also if GPT-2 has these names but would
 * compute a different function; the message names the layer. */
gs_status gs_names_rename(gs_model *model, gs_names which);
