#include "persist/state_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/text.h"
#include "io/json.h"
#include "train/settings.h"
#include "train/options/options.h"

const char *gs_state_option(const gs_state *s, const char *name) {
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(s->options, name));
}

/* ---- writing ---- */

cJSON *gs_state_json(const gs_state *s) {
    char checksum[16];
    snprintf(checksum, sizeof checksum, "%08" PRIx32, s->data);
    cJSON *o = GS_JSON_OBJECT(GS_FIELD("step", s->step), GS_FIELD("updates", s->updates),
                              GS_FIELD("samples", s->samples), GS_FIELD("data", (const char *)checksum),
                              GS_FIELD("options", cJSON_Duplicate(s->options, true)));
    if (s->loss_scale > 0)
        GS_JSON_ADD(o, GS_FIELD("loss_scale", (double)s->loss_scale), GS_FIELD("loss_scale_steps", s->good));
    return o;
}

/* The optimiser's vectors, in the form of tensors for the file. */
static gs_extra_tensors vectors_of(const gs_state *s, const gs_optimizer_ops *ops) {
    gs_extra_tensors extra = {.count = s->vectors};
    for (int i = 0; i < s->vectors; i++) {
        extra.name[i] = ops->vector[i];
        extra.vector[i] = s->vector[i];
    }
    return extra;
}

gs_status gs_state_save(const char *path, const gs_model *model, const gs_optimizer_ops *ops,
                        const float *weights, const gs_state *s, gs_written *written) {
    cJSON *o = gs_state_json(s);
    char *about = gs_json_to_text(o, false);
    cJSON_Delete(o);
    if (!about) return gs_fail(GS_E_MEMORY, "cannot write %s: no memory for the state of the run", path);
    gs_extra_tensors extra = vectors_of(s, ops);
    extra.about = about;
    extra.written = written;
    gs_status status = gs_safetensors_save_extra(path, model, weights, &extra);
    cJSON_free(about);
    return status;
}

/* ---- reading ---- */

/* Read an integer between 0 and 2^53, the limit of exact integers in JSON. */
static bool read_count(const cJSON *o, const char *name, uint64_t *out) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);
    const double x = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(x >= 0 && x <= 9007199254740992.0) || x < floor(x) || x > floor(x)) return false;
    *out = (uint64_t)x;
    return true;
}

static bool read_checksum(const cJSON *o, uint32_t *out) {
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "data"));
    if (!text || strlen(text) != 8 || strspn(text, "0123456789abcdef") != 8) return false;
    *out = (uint32_t)strtoul(text, NULL, 16);
    return true;
}

/* Only f16 runs store a loss scale. */
static bool read_loss_scale(const cJSON *o, gs_state *s) {
    const cJSON *scale = cJSON_GetObjectItemCaseSensitive(o, "loss_scale");
    if (!scale) return true;
    if (!cJSON_IsNumber(scale) || !read_count(o, "loss_scale_steps", &s->good) ||
        !gs_loss_scale_is_valid(scale->valuedouble, s->good))
        return false;
    s->loss_scale = (float)scale->valuedouble;
    return true;
}

/* Take the "options" object out of o; all its values must be strings. */
static bool read_options(cJSON *o, cJSON **out) {
    const cJSON *option;
    cJSON *options = cJSON_DetachItemFromObjectCaseSensitive(o, "options");
    *out = options;
    if (!cJSON_IsObject(options)) return false;
    cJSON_ArrayForEach(option, options) if (!cJSON_IsString(option)) return false;
    return true;
}

static gs_status parse(const char *path, const char *text, gs_state *s) {
    const char *end = text;
    cJSON *o = gs_json_parse(text, strlen(text), &end);
    const char *wrong = !cJSON_IsObject(o)                       ? "is no JSON object"
                        : !read_count(o, "step", &s->step)       ? "has no valid 'step'"
                        : !read_count(o, "updates", &s->updates) ? "has no valid 'updates'"
                        : !read_count(o, "samples", &s->samples) ? "has no valid 'samples'"
                        : !read_checksum(o, &s->data)            ? "has no valid 'data'"
                        : !read_loss_scale(o, s)                 ? "has no valid 'loss_scale'"
                        : !read_options(o, &s->options)          ? "has no valid 'options'"
                                                                 : NULL;
    cJSON_Delete(o);
    return wrong ? gs_fail(GS_E_FORMAT, "%s is damaged: 'state' in the metadata %s", path, wrong) : GS_OK;
}

gs_status gs_state_read(const char *path, gs_state **out) {
    gs_weights_info saved;
    *out = NULL;
    gs_status status = gs_safetensors_read_info(path, &saved);
    if (status == GS_OK && !saved.state)
        status = gs_fail(GS_E_FORMAT,
                         "%s holds only weights: --save-state keeps the state of a run too; to begin a new "
                         "run with these weights, use --load",
                         path);
    if (status == GS_OK && saved.state) status = GS_NEW(*out, 1, "the state of the run in %s", path);
    if (status == GS_OK && *out) status = parse(path, saved.state, *out);
    gs_weights_info_free(&saved);
    if (status == GS_OK) return GS_OK;
    gs_state_free(*out);
    *out = NULL;
    return status;
}

/* Load the vectors that the settings' optimiser keeps. GS_E_SHAPE: one is missing, superfluous, or of another shape. */
static gs_status load(const char *path, const gs_model *model, const gs_settings *settings, gs_state *s) {
    const gs_optimizer_ops *ops = settings->optimizer;
    const int count = gs_optimizer_vector_count(ops, gs_settings_numbers(settings).momentum);
    GS_TRY(gs_state_make_vectors(s, count, model->params));
    const gs_extra_tensors extra = vectors_of(s, ops);
    return gs_safetensors_load_extra(path, model, &extra);
}

/* ---- comparison with the settings ---- */

gs_status gs_state_check_option(const char *path, const gs_state *state, const gs_run_option *o,
                                const gs_settings *given) {
    const gs_settings usual = gs_settings_default(), s = gs_settings_with_numbers(given, state->samples);
    char room[GS_OPTION_TEXT_MOST], usual_room[GS_OPTION_TEXT_MOST];
    const char *kept = gs_state_option(state, o->name), *now = gs_run_option_text(o, &s, room);
    if (o->resume != GS_RESUME_AGREES) return GS_OK;
    if (!kept) kept = gs_run_option_text(o, &usual, usual_room);
    if (strcmp(kept, now) == 0) return GS_OK;
    if (strcmp(kept, "nan") == 0) GS_TRY(gs_check_optimizer(given)); /* not taken by that run's optimiser */
    return gs_fail(GS_E_USAGE,
                   "--%s %s: the run in %s has --%s %s; leave it out to resume that run, or begin a new one "
                   "with --load",
                   o->name, now, path, o->name, gs_printable(kept));
}

static gs_status check(const char *path, const gs_state *state, const gs_settings *s,
                       const gs_dataset *train_set) {
    for (const gs_run_option *o = gs_run_table; o->name; o++)
        GS_TRY(gs_state_check_option(path, state, o, s));
    if (state->samples != train_set->count)
        return gs_fail(GS_E_USAGE,
                       "--data: %s has %zu samples to train on, but the run in %s had %" PRIu64
                       "; wanted the same data",
                       train_set->name, train_set->count, path, state->samples);
    const uint32_t checksum = gs_data_checksum(train_set);
    if (state->data != checksum)
        return gs_fail(GS_E_USAGE,
                       "--data: the samples of %s are not those of the run in %s (checksum %08" PRIx32
                       " versus %08" PRIx32 "); wanted the same data",
                       train_set->name, path, checksum, state->data);
    return GS_OK;
}

gs_status gs_state_check_model(const gs_settings *s, const gs_weights_info *saved, gs_shape in) {
    gs_model *plan;
    if (!saved->model || s->model == saved->model) return GS_OK;
    GS_TRY(gs_model_create(NULL, &(gs_model_config){.text = s->model, .in = in}, &plan));
    const bool same = strcmp(plan->text, saved->model) == 0;
    gs_model_free(plan);
    if (same) return GS_OK;
    return gs_fail(GS_E_USAGE, "--model: the run in %s uses %s; wanted the same, or no --model", s->resume,
                   gs_printable(saved->model));
}

static gs_status check_same_scaling(const gs_settings *s, const char *name, const gs_by_channel *given,
                                    const gs_by_channel *kept) {
    if (!given->count || gs_by_channel_same(given, kept)) return GS_OK;
    return gs_fail(GS_E_USAGE, "--%s differs from the run in %s; wanted the same, or no --%s", name,
                   s->resume, name);
}

gs_status gs_state_check_run(const gs_settings *s, const gs_weights_info *saved, const gs_dataset *train_set,
                             gs_state *state) {
    gs_model *plan;
    GS_TRY(check_same_scaling(s, "mean", &s->mean, &saved->scaling.mean));
    GS_TRY(check_same_scaling(s, "std", &s->std, &saved->scaling.std));
    GS_TRY(check(s->resume, state, s, train_set));
    GS_TRY(gs_model_create(NULL, &(gs_model_config){.text = s->model, .in = train_set->shape}, &plan));
    gs_status status = load(s->resume, plan, s, state);
    gs_model_free(plan);
    return status;
}
