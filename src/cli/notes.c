/* Notes on standard error: assumptions, omissions, and settings that are valid but probably not intended. */
#include "cli/cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include "data/text_set.h"
#include "layer/layer.h"
#include "model/model_text.h"
#include "data/folder_set.h"

void gs_tell(const char *command, const char *format, ...) {
    char text[6000]; /* may contain a path */
    const int used = snprintf(text, sizeof text, "gradsum%s%s: ", *command ? " " : "", command);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, sizeof text - (size_t)used, format, args);
    va_end(args);
    gs_show_activity(NULL, 0, NULL);
    gs_print_sentence(stderr, text);
}

void gs_tell_sentence(const char *sentence) {
    gs_tell("", "%s", sentence);
}

static bool is_constant(const gs_dataset *set) {
    const size_t bytes = set->count * gs_shape_size(set->shape);
    return !set->folder && bytes > 0 && memcmp(set->images, set->images + 1, bytes - 1) == 0;
}

/* Print the config.json entries that cannot be read off a GPT-2's weights. gs_names_rename has accepted the model. */
static void tell_config(const gs_layer *net) {
    const gs_layer *const *c = (const gs_layer *const *)net->child;
    const int *table = c[0]->param[0].dims;
    int halves = 0;
    char of_blocks[300] = "", attention[128], what[128];
    while (strcmp(c[2 + halves]->ops->name, "residual") == 0) halves++;
    if (halves > 0) {
        gs_layer_describe(c[2]->child[0]->child[2], attention, sizeof attention);
        gs_layer_describe(c[3]->child[0]->child[2], what, sizeof what);
        snprintf(of_blocks, sizeof of_blocks,
                 "\"n_head\": %d, \"n_inner\": %d, \"activation_function\": \"%s\", ",
                 atoi(attention + strlen("attention ")), c[3]->child[0]->child[1]->out.c,
                 strcmp(what, "gelu tanh") == 0 ? "gelu_new" : what);
    }
    gs_tell("train",
            "note: --names huggingface: the file has only weights; transformers reads the rest from a "
            "config.json beside it: \"model_type\": \"gpt2\", \"vocab_size\": %d, \"n_positions\": %d, "
            "\"n_embd\": %d, \"n_layer\": %d, %s\"tie_word_embeddings\": %s",
            table[0], c[1]->param[0].dims[0], table[1], halves / 2, of_blocks,
            strcmp(c[3 + halves]->ops->name, "tied") == 0 ? "true" : "false");
}

/* If torchvision lacks the model, the names are borrowed from torchvision's ResNets and VGGs. */
static void tell_names(const gs_settings *s) {
    const gs_named_model *m = gs_model_named(s->model);
    if (!m || m->torchvision) return;
    gs_tell(
        "train",
        "note: --names torchvision: torchvision has no model %s; the names are those of such layers in its "
        "ResNet and VGG",
        s->model);
}

void gs_tell_usual_images(const char *command, const char *model, gs_shape in) {
    const gs_named_model *m = model ? gs_model_named(model) : NULL;
    if (!m || !gs_shape_size(m->in) || m->in.t || in.c != 1 || in.h != 28 || in.w != 28) return;
    const gs_shape_text wanted = gs_shape_product(m->in);
    const bool is_model = strcmp(command, "model") == 0;
    gs_tell(command, "note: this is for images of 1x28x28, and %s is meant for %s%s%s%s", m->name,
            wanted.text, is_model ? " (--input " : " (--data)", is_model ? wanted.text : "",
            is_model ? ")" : "");
}

static void tell_left_out(const char *command, const char *set, const gs_folder_list *list) {
    if (*list->left_out)
        gs_tell(command,
                "note: %s leaves out pictures that gradsum cannot read: %s; convert them to JPEG or PNG", set,
                list->left_out);
    if (*list->absent)
        gs_tell(command, "note: %s has no pictures of %s: its accuracy is that of the other classes", set,
                list->absent);
}

void gs_tell_test_set(const char *command, const gs_settings *s) {
    gs_folder_list list;
    if ((s->processes && s->processes->rank != 0) || !gs_dataset_is_image_folder(s->data)) return;
    if (gs_folder_list_read(s->data, GS_TEST, &list) != GS_OK) return;
    tell_left_out(command, list.folder, &list);
    gs_folder_list_free(&list);
}

void gs_tell_of_data(const gs_worker *w) {
    const gs_dataset *set = w->train_set;
    if (set->folder) tell_left_out("train", set->name, &set->folder->list);
    if (w->test_set && w->test_set->folder)
        tell_left_out("train", w->test_set->name, &w->test_set->folder->list);
    int outputs = w->model->out.c;
    if (!set->targets && !set->text && set->classes < outputs && set->classes > 0)
        gs_tell(
            "train",
            "note: %s has labels 0 to %d, but the model has %d outputs: it learns that the rest are never "
            "right",
            set->name, set->classes - 1, outputs);
    char norm[32];
    const gs_batch_norm_groups *over = &w->settings->batch_norm;
    if (over->over != GS_BATCH_NORM_GLOBAL && !gs_layer_depends_on_batch(w->model->net) && !gs_has_stages(w))
        gs_tell("train", "note: --batch-norm %s changes nothing: the model has no batch_norm",
                gs_batch_norm_text(over, norm, sizeof norm));
    if (w->settings->names == GS_NAMES_TORCHVISION && w->settings->save) tell_names(w->settings);
    if (w->settings->names == GS_NAMES_HUGGINGFACE && w->settings->save)
        tell_config(gs_model_whole(w->model)->net);
    gs_tell_usual_images("train", w->settings->model, set->shape);
    if (w->input.scales && is_constant(set))
        gs_tell("train", "note: all bytes of %s are %d: nothing can be learned from these images", set->name,
                set->images[0]);
}

void gs_tell_skipped(const char *command, const gs_result *r) {
    if (r->skipped == 0 || r->rank != 0) return;
    gs_tell(command, "note: %zu file%s could not be decoded, and %s: %s%s", r->skipped, gs_s(r->skipped),
            r->skipped == 1 ? "another took its place" : "others took their place",
            r->skipped == 1 ? "" : "first ", gs_printable(r->skipped_first));
}

void gs_tell_scaling(const char *command, const gs_settings *s) {
    gs_weights_info saved;
    if (!s->load || (s->processes && s->processes->rank != 0)) return;
    if (gs_safetensors_read_info(s->load, &saved) == GS_OK && !saved.vocabulary && !gs_text_is_at(s->data)) {
        bool mean = saved.has_mean || s->mean.count, std = saved.has_std || s->std.count;
        if (!mean || !std)
            gs_tell(command,
                    "%s does not say how its training images were scaled (no %s%s%s); assuming%s%s, in "
                    "(byte / 255 - mean) / std",
                    gs_printable(s->load), mean ? "" : "mean", mean || std ? "" : ", no ", std ? "" : "std",
                    mean ? "" : " --mean 0", std ? "" : " --std 1");
    }
    gs_weights_info_free(&saved);
}
