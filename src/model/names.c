/* Tensor names of other programs, derived from the positions of the layers. torchvision:
 *
 *     ResNet   conv1, bn1; layer<stage>.<block>.conv<i>, .bn<i>, .downsample.<i>; fc
 *     VGG      features.<i> up to flatten, classifier.<i> after it
 *
 * GPT-2 in Hugging Face's transformers:
 *
 *     wte, wpe; h.<block>.ln_1, .attn.c_attn, .attn.c_proj, .ln_2, .mlp.c_fc, .mlp.c_proj; ln_f; lm_head
 *
 * Each stage of a ResNet begins with a block whose shortcut is a projection, except the first stage, which begins with
 * the first block. */
#include "model/names.h"

#include <stdio.h>
#include <stdlib.h>
#include "core/text.h"
#include "layer/layer.h"

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

/* Name the tensors of one layer: `as` "conv1" gives "conv1.weight". */
static void name_layer(const naming *n, const gs_layer *l, const char *as) {
    for (int i = 0; i < n->model->saved_count; i++)
        for (int p = 0; p < l->params; p++) {
            if (n->model->param[i] != &l->param[p]) continue;
            const char *last = strrchr(l->param[p].name, '.');
            n->name[i].text[0] = '\0';
            gs_append(n->name[i].text, sizeof n->name->text, "%s%s", as, last ? last : ".weight");
        }
}

/* ---- ResNet ---- */

/* Name the convolutions and normalisations of a block such as "layer2.0", each kind numbered from 1. */
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
        name_layer(n, l, as);
    }
    return GS_OK;
}

static gs_status name_shortcut(const naming *n, const gs_layer *shortcut, const char *block) {
    for (int i = 0; i < shortcut->children; i++) {
        const gs_layer *l = shortcut->child[i];
        char as[GS_PARAM_NAME] = "";
        if (l->children > 0) return no_name(l);
        gs_append(as, sizeof as, "%s.downsample.%d", block, i);
        name_layer(n, l, as);
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
            name_layer(n, l, "conv1");
        } else if (is(l, "batch_norm") && stage == 0 && norms++ == 0) {
            name_layer(n, l, "bn1");
        } else if (is(l, "linear") && linears++ == 0) {
            name_layer(n, l, "fc");
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
        name_layer(n, l, as);
    }
    return GS_OK;
}

/* ---- GPT-2 ---- */

static gs_status no_gpt2(const gs_layer *l) {
    return gs_fail(
        GS_E_USAGE,
        "Hugging Face's GPT-2 has no name for layer %s, %s, of this model: wanted what the model gpt has "
        "there (gradsum model gpt)",
        l->name[0] ? l->name : "0", l->ops->name);
}

/* Name a layer of this kind. Hugging Face stores linear layers as (in, out), except lm_head. */
static gs_status name_gpt2_layer(const naming *n, const gs_layer *l, const char *kind, const char *as) {
    if (!is(l, kind)) return no_gpt2(l);
    name_layer(n, l, as);
    for (int i = 0; i < n->model->saved_count; i++)
        if (n->model->param[i] == &l->param[0]) n->name[i].transposed = is(l, "linear") && *as == 'h';
    return GS_OK;
}

/* Name the four layers of "residual (layer_norm, linear, attention causal, linear)" in block `block`. as[i] NULL: layer
 * i has no parameters. */
static gs_status name_half_block(const naming *n, const gs_layer *l, int block, const char *const as[4]) {
    static const char *const kind[] = {"layer_norm", "linear", NULL, "linear"};
    const gs_layer *body = l->child[0];
    if (l->children > 1 || body->children != 4) return no_gpt2(l);
    for (int i = 0; i < 4; i++) {
        char name[GS_PARAM_NAME] = "";
        if (!as[i] && body->child[i]->params + body->child[i]->children > 0) return no_gpt2(body->child[i]);
        if (!as[i]) continue;
        gs_append(name, sizeof name, "h.%d.%s", block, as[i]);
        GS_TRY(name_gpt2_layer(n, body->child[i], kind[i], name));
    }
    return GS_OK;
}

static gs_status name_gpt2(const naming *n) {
    static const char *const attn[] = {"ln_1", "attn.c_attn", NULL, "attn.c_proj"}, *const mlp[] = {
                                                                                        "ln_2", "mlp.c_fc",
                                                                                        NULL, "mlp.c_proj"};
    const gs_layer *net = n->model->net;
    int halves = 0, i = 2;
    if (net->children < 5) return no_gpt2(net);
    GS_TRY(name_gpt2_layer(n, net->child[0], "embedding", "wte"));
    GS_TRY(name_gpt2_layer(n, net->child[1], "positions", "wpe"));
    for (; i < net->children && is(net->child[i], "residual"); i++, halves++)
        GS_TRY(name_half_block(n, net->child[i], halves / 2, halves % 2 == 0 ? attn : mlp));
    if (i + 2 > net->children || halves % 2 != 0) return no_gpt2(net->child[i < net->children ? i : i - 1]);
    GS_TRY(name_gpt2_layer(n, net->child[i++], "layer_norm", "ln_f"));
    if (!is(net->child[i], "tied")) GS_TRY(name_gpt2_layer(n, net->child[i], "linear", "lm_head"));
    while (++i < net->children)
        if (net->child[i]->params + net->child[i]->children > 0) return no_gpt2(net->child[i]);
    return GS_OK;
}

/* Names and shapes match, but GPT-2 would compute a different function with these weights. */
static gs_status not_gpt2(const gs_layer *l, const char *found, const char *wanted) {
    return gs_fail(GS_E_USAGE, "Hugging Face's GPT-2 cannot have layer %s, %s, of this model: wanted %s",
                   l->name, found, wanted);
}

/* GPT-2's config.json has one activation, one width and one number of heads for all blocks. before: the same half of
 * the previous block, or NULL. */
static gs_status check_half_block(const gs_layer *half, const gs_layer *before, bool is_attention) {
    const gs_layer *body = half->child[0], *first = body->child[1], *l = body->child[2];
    static const char *const activations[] = {"gelu", "gelu tanh", "relu", "tanh", "sigmoid", "silu"};
    char text[128], other[128], wanted[200];
    gs_layer_describe(l, text, sizeof text);
    if (is_attention && !(is(l, "attention") && strstr(text, " causal")))
        return not_gpt2(l, text, "attention that is causal");
    if (is_attention && first->out.c != 3 * first->in.c)
        return not_gpt2(first, first->ops->name,
                        "three outputs for each input: q, k and v are as wide as it");
    for (int i = 0; !is_attention && strcmp(text, activations[i]) != 0; i++)
        if (i == 5) return not_gpt2(l, text, "gelu, gelu tanh, relu, tanh, sigmoid or silu");
    for (int i = 1; before && i < 3; i++) {
        gs_layer_describe(body->child[i], text, sizeof text);
        gs_layer_describe(before->child[0]->child[i], other, sizeof other);
        snprintf(wanted, sizeof wanted, "%s, as in the block before", other);
        if (strcmp(text, other) != 0) return not_gpt2(body->child[i], text, wanted);
    }
    return GS_OK;
}

static gs_status check_gpt2(const gs_layer *net) {
    int i = 2;
    for (; is(net->child[i], "residual"); i++)
        GS_TRY(check_half_block(net->child[i], i < 4 ? NULL : net->child[i - 2], i % 2 == 0));
    const gs_layer *head = net->child[++i];
    if (head->params > 1) return not_gpt2(head, "a linear layer with a bias", "no_bias in its text, or tied");
    while (++i < net->children)
        if (!is(net->child[i], "flatten"))
            return not_gpt2(net->child[i], net->child[i]->ops->name, "nothing after the output layer");
    return GS_OK;
}

gs_status gs_names_of(const gs_model *model, gs_names which, gs_name *name) {
    const naming n = {model, name};
    for (int i = 0; i < model->saved_count; i++) {
        snprintf(name[i].text, sizeof name[i].text, "%s", model->param[i]->name);
        name[i].transposed = model->param[i]->transposed;
    }
    if (which == GS_NAMES_OWN) return GS_OK;
    if (which == GS_NAMES_HUGGINGFACE) return name_gpt2(&n);
    for (int i = 0; i < model->net->children; i++)
        if (is(model->net->child[i], "residual")) return name_resnet(&n);
    return name_vgg(&n);
}

gs_status gs_names_rename(gs_model *model, gs_names which) {
    gs_name *name;
    GS_TRY(GS_NEW(name, model->saved_count, "the names of %d tensors", model->saved_count));
    gs_status st = gs_names_of(model, which, name);
    if (st == GS_OK && which == GS_NAMES_HUGGINGFACE) st = check_gpt2(model->net);
    for (int i = 0; st == GS_OK && i < model->saved_count; i++) {
        memcpy(model->param[i]->name, name[i].text, sizeof name[i].text);
        model->param[i]->transposed = name[i].transposed;
    }
    free(name);
    return st;
}
