/* The data of a run: from files or from memory, and whether it suits the model and the loss. */
#include "train/internal.h"

#include "core/text.h"
#include "data/folder_set.h"
#include "data/source.h"
#include "data/text_set.h"
#include "model/model_text.h"
#include "train/options/options.h"
#include "train/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* They would have no effect. */
static gs_status check_folder_options(const gs_settings *s, const gs_dataset *set) {
    const char *const names[] = {"size", "loaders", "cache", "skip-broken"};
    for (int i = 0; i < 4 && !set->source; i++)
        if (!gs_run_option_is_default(gs_run_option_named(names[i]), s))
            return gs_fail(GS_E_USAGE, "--%s is for image folders, and %s is none", names[i], set->name);
    return GS_OK;
}

/* A run is resumed elsewhere than it was begun. */
static gs_status not_found_here(const gs_settings *s) {
    const char *kept = s->begin ? gs_state_option(s->begin, "data") : NULL;
    if (!kept || strcmp(kept, s->data) != 0 || !gs_dataset_is_relative(kept)) return GS_E_FILE;
    return gs_fail(
        GS_E_FILE,
        "%s; the run in %s was begun with --data %s, a path from the folder that it ran in: resume it "
        "there, or give --data",
        gs_message(), s->resume, gs_printable(kept));
}

gs_status gs_open_set(const gs_settings *s, gs_split split, gs_dataset **loaded, const gs_dataset **set) {
    if (!s->train_set != !s->test_set)
        return gs_fail(GS_E_USAGE,
                       "data from memory: there is a %s but no %s; wanted both, which may be the same",
                       s->train_set ? "train_set" : "test_set", s->train_set ? "test_set" : "train_set");
    *set = split == GS_TRAIN ? s->train_set : s->test_set;
    if (*set) return GS_OK;
    gs_status status = gs_load_set(s, split, loaded);
    if (status == GS_E_FILE) return not_found_here(s);
    GS_TRY(status);
    *set = *loaded;
    return check_folder_options(s, *set);
}

static bool is_one_file(const char *path) {
    struct stat s;
    return path && stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

gs_status gs_load_set(const gs_settings *s, gs_split split, gs_dataset **set) {
    const gs_text_options text = {s->tokens, s->context, s->vocabulary, s->tokenizer};
    const char *of_text = s->context > 0                  ? "context"
                          : s->tokens != GS_TOKENS_UNSAID ? "tokens"
                          : s->tokenizer                  ? "tokenizer"
                                                          : NULL;
    if (!gs_text_is_at(s->data) && of_text && is_one_file(s->data))
        return gs_fail(GS_E_USAGE, "--%s is for a text, but the data are %s; wanted --data text:%s", of_text,
                       s->data, s->data);
    if (!gs_text_is_at(s->data) && of_text)
        return gs_fail(GS_E_USAGE, "--%s is for a text (--data text:FILE), but the data are %s", of_text,
                       s->data);
    if (split == GS_TRAIN && s->folder.cache && s->augment.resized_crop)
        return gs_fail(GS_E_USAGE,
                       "--cache keeps the middle of each picture, and --augment resized_crop takes another "
                       "part of it each time: choose one of them");
    return gs_dataset_load_with(s->data, split, s->labels, &text, &s->folder, set);
}

/* ---- text ---- */

gs_status gs_settle_model(gs_settings *s, const gs_dataset *set, char **made) {
    *made = NULL;
    const bool bare = gs_model_is_language(s->model) && !strchr(s->model, ' '); /* "gpt", and not "gpt 96" */
    if (!set->text || !bare) return GS_OK;
    if (asprintf(made, "%s %d", s->model, set->text->vocabulary.size) < 0) {
        *made = NULL;
        return gs_fail(GS_E_MEMORY, "no memory for the name of the model %s", s->model);
    }
    s->model = *made;
    return GS_OK;
}

/* The counts of a step travel as floats beside its gradients: up to here they are exact. */
static gs_status check_step(const gs_settings *s, const gs_dataset *set) {
    const size_t most = 1 << 24, batch = s->batch ? s->batch : set->count;
    if (batch <= most / (size_t)set->text->context) return GS_OK;
    return gs_fail(GS_E_USAGE,
                   "--batch %zu has %zu tokens, %d in a window; at most %zu tokens can be counted in a step",
                   batch, batch * (size_t)set->text->context, set->text->context, most);
}

static gs_status check_text(const gs_settings *s, const gs_dataset *set, int vocabulary) {
    if (vocabulary == 0)
        return gs_fail(GS_E_USAGE,
                       "%s is a text, but the model (%s) does not begin with an embedding, which takes the "
                       "numbers of its tokens",
                       set->name, s->model);
    return check_step(s, set);
}

/* ---- the model and the loss ---- */

/* The opposite mistake: the layers would only speak of shapes. */
static gs_status check_images(const gs_settings *s, const gs_dataset *set) {
    if (set->text || set->inputs || !gs_model_is_language(s->model)) return GS_OK;
    return gs_fail(
        GS_E_USAGE,
        "%s has images, but the model (%s) takes a text: wanted --data jargon, or --data text:FILE",
        set->name, s->model);
}

gs_status gs_check_set(const gs_settings *s, const gs_dataset *set) {
    gs_model *plan;
    GS_TRY(check_images(s, set));
    gs_status fits = gs_model_create(NULL, &(gs_model_wishes){.text = s->model, .in = set->shape}, &plan);
    if (fits != GS_OK && set->text && gs_model_is_name(s->model) && !gs_model_is_language(s->model))
        return check_text(s, set, 0); /* the layers would only speak of shapes */
    GS_TRY(fits);
    int outputs = (int)gs_shape_size(plan->out), answers = gs_model_answers(plan);
    int vocabulary = gs_layer_vocabulary(plan->net);
    gs_model_free(plan);
    if (set->text) GS_TRY(check_text(s, set, vocabulary));
    if (vocabulary > 0) GS_TRY(gs_dataset_check_tokens(set, vocabulary));
    bool targets = s->loss == GS_REGRESSION;
    if (targets != (set->targets != NULL))
        return gs_fail(
            GS_E_USAGE, "%s has %s, but this loss needs %s", set->name, set->targets ? "targets" : "labels",
            targets ? "targets: gs_dataset_from_targets" : "labels (of targets it is GS_REGRESSION)");
    int each = gs_dataset_labels_each(set);
    if (!targets && each != answers)
        return gs_fail(GS_E_SHAPE, "%s has %d label%s for each sample, but the model answers %d", set->name,
                       each, gs_s((unsigned)each), answers);
    if (!targets) return gs_dataset_check_labels(set, outputs / answers);
    if (s->confusion)
        return gs_fail(GS_E_USAGE, "%s has targets: a confusion matrix needs classes", set->name);
    if (set->outputs == outputs) return GS_OK;
    return gs_fail(GS_E_SHAPE, "%s has %d target%s for each sample, but the model has %d output%s", set->name,
                   set->outputs, gs_s((unsigned)set->outputs), outputs, gs_s((unsigned)outputs));
}

gs_status gs_check_sets_alike(const gs_settings *s, const gs_dataset *train, const gs_dataset *test) {
    gs_shape a = train->shape, b = test->shape;
    if (!gs_shape_same(a, b))
        return gs_fail(GS_E_FORMAT, "%s: training images are %s, test images %s", s->data,
                       gs_shape_tuple(a).text, gs_shape_tuple(b).text);
    if (gs_dataset_is_numbers(train) != gs_dataset_is_numbers(test))
        return gs_fail(GS_E_USAGE, "%s holds %s, %s holds %s: both must hold the same", train->name,
                       train->inputs ? "floats" : "bytes", test->name, test->inputs ? "floats" : "bytes");
    return GS_OK;
}

gs_status gs_count_skipped(gs_comm *comm, const gs_dataset *set, gs_result *r) {
    if (!set || !set->source || !set->source->is_broken) return GS_OK;
    unsigned char *broken = malloc(set->count);
    if (!broken) return gs_fail(GS_E_MEMORY, "no memory for %zu flags", set->count);
    for (size_t i = 0; i < set->count; i++)
        broken[i] = __atomic_load_n(&set->source->is_broken[i], __ATOMIC_RELAXED);
    gs_status status = gs_comm_all_reduce(comm, broken, set->count, GS_U8, GS_MAX);
    for (size_t i = 0; i < set->count && status == GS_OK; i++)
        if (broken[i] && r->skipped++ == 0)
            snprintf(r->skipped_first, sizeof r->skipped_first, "%s/%s", set->source->folder,
                     set->source->name(set->source, i));
    free(broken);
    return status;
}

/* ---- weights in a file, and data ---- */

enum { FINE_CLASSES = 100 }; /* of CIFAR-100 */

/* Image folders can be read in any size: the model says which. Where its images are not square, none suits. */
static gs_status take_size(gs_settings *s, const gs_saved *saved) {
    const gs_shape in = saved->in;
    int *size = &s->folder.size;
    if (!saved->has_in || saved->vocabulary || in.h != in.w || !s->data ||
        !gs_dataset_is_image_folder(s->data))
        return GS_OK;
    if (*size && *size != in.h)
        return gs_fail(GS_E_USAGE, "--size %d: %s holds a model for images %s; leave --size out, or give %d",
                       *size, s->load, gs_shape_tuple(in).text, in.h);
    if (in.h <= GS_FOLDER_MOST) *size = in.h;
    return GS_OK;
}

gs_status gs_read_saved(gs_settings *s, gs_saved *saved) {
    GS_TRY(gs_safetensors_about(s->load, saved));
    GS_TRY(take_size(s, saved));
    if (!s->vocabulary) s->vocabulary = saved->vocabulary;
    const bool text = s->data && gs_text_is_at(s->data);
    if (text && saved->vocabulary && saved->has_in && !s->context) s->context = gs_shape_tokens(saved->in);
    if (s->model) return GS_OK;
    if (!saved->model)
        return gs_fail(
            GS_E_FORMAT,
            "%s: no 'model' in the metadata: gradsum did not save this file; name its model with --model",
            s->load);
    gs_layer *net;
    gs_status status = gs_model_parse(saved->model, &net);
    gs_layer_free(net);
    if (status == GS_E_MODEL) status = GS_E_FORMAT; /* the file has it wrong, not the user */
    s->model = saved->model;
    return gs_context(status, "%s: metadata", s->load);
}

/* A model of text with a text, of images with images; and the text in the model's own tokens. */
static gs_status check_saved_text(const gs_settings *s, const gs_saved *saved, const gs_dataset *set) {
    const gs_vocabulary *v = saved->vocabulary;
    if (!v) return GS_OK;
    if (!set->text)
        return gs_fail(GS_E_USAGE,
                       "%s holds a model of text, but %s holds none; wanted --data text:FILE, or jargon",
                       s->load, set->name);
    if (!gs_vocabulary_same(v, &set->text->vocabulary))
        return gs_fail(GS_E_FORMAT, "%s: the model was trained with another vocabulary than that of %s",
                       s->load, set->name);
    if (saved->has_in && gs_shape_tokens(saved->in) != set->text->context)
        return gs_fail(GS_E_SHAPE,
                       "%s holds a model for windows of %d %s, but %s has windows of %d (--context)", s->load,
                       gs_shape_tokens(saved->in), gs_tokens_word(v->kind, 2), set->name, set->text->context);
    return GS_OK;
}

/* The user has named another model than the file does. text: of the user's, with its blocks written out. */
static gs_status not_of_this_model(const gs_settings *s, const gs_saved *saved, const char *text,
                                   gs_status status) {
    if (!saved->model || s->model == saved->model || strcmp(text, saved->model) == 0) return status;
    return gs_fail(status, "%s; --model is %s, but these are weights of %s, and are read so without --model",
                   gs_message(), gs_printable(s->model), gs_printable(saved->model));
}

gs_status gs_check_saved(const gs_settings *s, const gs_saved *saved, const gs_dataset *set) {
    gs_shape in = saved->in, has = set->shape;
    GS_TRY(check_saved_text(s, saved, set));
    if (saved->has_in && !gs_shape_same(in, has))
        return gs_fail(GS_E_SHAPE, "%s holds a model for images %s, but %s has %s%s", s->load,
                       gs_shape_tuple(in).text, set->name, gs_shape_tuple(has).text,
                       set->text ? ": it is a text; wanted such images, or weights of a model of text" : "");
    gs_model *plan;
    gs_status status = gs_model_create(NULL, &(gs_model_wishes){.text = s->model, .in = has}, &plan);
    if (status != GS_OK)
        return s->model == saved->model ? gs_context(status, "%s: metadata", s->load)
                                        : not_of_this_model(s, saved, s->model, status);
    status = gs_safetensors_check(s->load, plan);
    if (status == GS_E_SHAPE) status = not_of_this_model(s, saved, plan->text, status);
    const int outputs = (int)gs_shape_size(plan->out);
    gs_model_free(plan);
    if (status == GS_OK && s->labels == GS_LABELS_COARSE && outputs == FINE_CLASSES)
        return gs_fail(GS_E_USAGE,
                       "--labels coarse: %s holds a model of the %d fine classes; leave --labels out",
                       s->load, outputs);
    return status;
}
