/* What other programs call the tensors of the same network: their weights load, and ours load there. */
#pragma once

#include "model/model.h"

typedef enum gs_names {
    GS_NAMES_OWN,         /* "3.body.0.weight": those of PyTorch's Sequential */
    GS_NAMES_TORCHVISION, /* "layer1.0.conv1.weight": those of torchvision's ResNet and VGG */
    GS_NAMES_HUGGINGFACE, /* "h.0.attn.c_attn.weight": those of GPT-2 in Hugging Face's transformers */
} gs_names;

typedef struct gs_name {
    char text[GS_PARAM_NAME];
    bool transposed; /* the tensor of a file is (in, out), where the model's is (out, in) */
} gs_name;

/* The names of all parameters and state: name[i] is that of model->param[i], saved_count of them. The model may be a
 * plan. GS_E_USAGE: the model is none that has such names; the message names the layer. */
gs_status gs_names_of(const gs_model *model, gs_names which, gs_name *name);

/* What gs_safetensors_save writes from now on. Also GS_E_USAGE: the names are there, but GPT-2 computes something else
 * with such weights; the message names the layer. */
gs_status gs_names_rename(gs_model *model, gs_names which);
