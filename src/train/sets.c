/* The data of a run: from files or from memory, and whether it suits the model and the loss. */
#include "train/internal.h"

#include "model/model_text.h"

gs_status gs_open_set(const gs_settings *s, gs_split split, gs_dataset **loaded, const gs_dataset **set) {
    if (!s->train_set != !s->test_set)
        return gs_fail(GS_E_USAGE,
                       "data from memory: there is a %s but no %s; wanted both, which may be the same",
                       s->train_set ? "train_set" : "test_set", s->train_set ? "test_set" : "train_set");
    *set = split == GS_TRAIN ? s->train_set : s->test_set;
    if (*set) return GS_OK;
    GS_TRY(gs_dataset_load_labels(s->data, split, s->labels, loaded));
    *set = *loaded;
    return GS_OK;
}

gs_status gs_check_set(const gs_settings *s, const gs_dataset *set) {
    gs_model *plan;
    GS_TRY(gs_model_plan(s->model, set->shape, &plan));
    int outputs = (int)gs_shape_size(plan->out), answers = gs_model_answers(plan);
    int vocabulary = gs_layer_vocabulary(plan->net);
    gs_model_free(plan);
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
    if (!train->inputs != !test->inputs)
        return gs_fail(GS_E_USAGE, "%s holds %s, %s holds %s: both must hold the same", train->name,
                       train->inputs ? "floats" : "bytes", test->name, test->inputs ? "floats" : "bytes");
    return GS_OK;
}

/* ---- weights in a file, and data ---- */

gs_status gs_read_saved(gs_settings *s, gs_saved *saved) {
    GS_TRY(gs_safetensors_about(s->load, saved));
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

gs_status gs_check_saved(const gs_settings *s, const gs_saved *saved, const gs_dataset *set) {
    gs_shape in = saved->in, has = set->shape;
    if (saved->has_in && !gs_shape_same(in, has))
        return gs_fail(GS_E_SHAPE, "%s holds a model for images %s, but %s has %s", s->load,
                       gs_shape_tuple(in).text, set->name, gs_shape_tuple(has).text);
    gs_model *plan;
    gs_status status = gs_model_plan(s->model, has, &plan);
    if (status != GS_OK)
        return s->model == saved->model ? gs_context(status, "%s: metadata", s->load) : status;
    status = gs_safetensors_check(s->load, plan);
    gs_model_free(plan);
    return status;
}
