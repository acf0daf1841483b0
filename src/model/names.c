/* The names of torchvision's models, found from the places of the layers:
 *
 *     ResNet   conv1, bn1; layer<stage>.<block>.conv<i>, .bn<i>, .downsample.<i>; fc
 *     VGG      features.<i> up to flatten, classifier.<i> from there on
 *
 * A stage of a ResNet begins with a block that has a projecting shortcut, and the first one with the first block.
 */
#include "model/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/text.h"

typedef struct naming {
    const gs_model *model;
    gs_name *name;
} naming;

static bool is(const gs_layer *l, const char *operator_name) {
    return strcmp(l->ops->name, operator_name) == 0;
}

static gs_status no_name(const gs_layer *l) {
    return gs_fail(GS_E_USAGE,
                   "torchvision has no name for layer %s, %s, of this model: it has names for ResNet (conv, "
                   "batch_norm, residual blocks, linear) and VGG (convolutions, flatten, linear layers)",
                   l->name, l->ops->name);
}

/* The tensors of one layer: "conv1" -> "conv1.weight". */
static gs_status name_layer(const naming *n, const gs_layer *l, const char *as) {
    for (int i = 0; i < n->model->saved_count; i++)
        for (int p = 0; p < l->params; p++) {
            if (n->model->param[i] != &l->param[p]) continue;
            const char *last = strrchr(l->param[p].name, '.');
            n->name[i].text[0] = '\0';
            gs_append(n->name[i].text, sizeof n->name->text, "%s%s", as, last ? last : ".weight");
        }
    return GS_OK;
}

/* ---- ResNet ---- */

/* "layer2.0": the convolutions and normalisations of the body, each kind counted from 1. */
static gs_status name_body(const naming *n, const gs_layer *body, const char *block) {
    int convs = 0, norms = 0;
    for (int i = 0; i < body->children; i++) {
        const gs_layer *l = body->child[i];
        char as[GS_PARAM_NAME] = "";
        if (is(l, "conv2d"))
            gs_append(as, sizeof as, "%s.conv%d", block, ++convs);
        else if (is(l, "batch_norm"))
            gs_append(as, sizeof as, "%s.bn%d", block, ++norms);
        else if (l->params > 0 || l->children > 0)
            return no_name(l);
        else
            continue;
        GS_TRY(name_layer(n, l, as));
    }
    return GS_OK;
}

static gs_status name_shortcut(const naming *n, const gs_layer *shortcut, const char *block) {
    for (int i = 0; i < shortcut->children; i++) {
        const gs_layer *l = shortcut->child[i];
        char as[GS_PARAM_NAME] = "";
        if (l->children > 0) return no_name(l);
        gs_append(as, sizeof as, "%s.downsample.%d", block, i);
        GS_TRY(name_layer(n, l, as));
    }
    return GS_OK;
}

static gs_status name_resnet(const naming *n) {
    const gs_layer *net = n->model->net;
    int stage = 0, block = 0, convs = 0, norms = 0, linears = 0;
    for (int i = 0; i < net->children; i++) {
        const gs_layer *l = net->child[i];
        if (is(l, "residual")) {
            const bool begins = stage == 0 || (l->children > 1 && block > 0);
            char as[GS_PARAM_NAME] = "";
            block = begins ? 0 : block;
            stage += begins;
            gs_append(as, sizeof as, "layer%d.%d", stage, block++);
            GS_TRY(name_body(n, l->child[0], as));
            if (l->children > 1) GS_TRY(name_shortcut(n, l->child[1], as));
        } else if (is(l, "conv2d") && stage == 0 && convs++ == 0) {
            GS_TRY(name_layer(n, l, "conv1"));
        } else if (is(l, "batch_norm") && stage == 0 && norms++ == 0) {
            GS_TRY(name_layer(n, l, "bn1"));
        } else if (is(l, "linear") && linears++ == 0) {
            GS_TRY(name_layer(n, l, "fc"));
        } else if (l->params > 0 || l->children > 0) {
            return no_name(l);
        }
    }
    return GS_OK;
}

/* ---- VGG ---- */

static gs_status name_vgg(const naming *n) {
    const gs_layer *net = n->model->net;
    int flat = -1;
    for (int i = 0; i < net->children; i++) {
        const gs_layer *l = net->child[i];
        char as[GS_PARAM_NAME] = "";
        if (is(l, "flatten")) flat = i;
        const bool fits = flat < 0 ? is(l, "conv2d") || is(l, "batch_norm") : is(l, "linear");
        if (l->children > 0 || (l->params > 0 && !fits)) return no_name(l);
        gs_append(as, sizeof as, flat < 0 ? "features.%d" : "classifier.%d", i - flat - 1);
        GS_TRY(name_layer(n, l, as));
    }
    return GS_OK;
}

gs_status gs_names_of(const gs_model *model, gs_names which, gs_name *name) {
    const naming n = {model, name};
    for (int i = 0; i < model->saved_count; i++)
        snprintf(name[i].text, sizeof name[i].text, "%s", model->param[i]->name);
    if (which == GS_NAMES_OWN) return GS_OK;
    for (int i = 0; i < model->net->children; i++)
        if (is(model->net->child[i], "residual")) return name_resnet(&n);
    return name_vgg(&n);
}

gs_status gs_names_rename(gs_model *model, gs_names which) {
    gs_name *name = calloc((size_t)model->saved_count + 1, sizeof *name);
    if (!name) return gs_fail(GS_E_MEMORY, "no memory for the names of %d tensors", model->saved_count);
    gs_status st = gs_names_of(model, which, name);
    for (int i = 0; st == GS_OK && i < model->saved_count; i++)
        memcpy(model->param[i]->name, name[i].text, sizeof name[i].text);
    free(name);
    return st;
}
