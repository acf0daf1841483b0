#include "train/state.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "train/options/options.h"

void gs_state_free(gs_state *s) {
    if (!s) return;
    for (int i = 0; i < s->vectors; i++) free(s->vector[i]);
    free(s->weights);
    cJSON_Delete(s->options);
    free(s);
}

gs_status gs_state_make_vectors(gs_state *s, int count, size_t params) {
    s->params = params;
    for (s->vectors = 0; s->vectors < count; s->vectors++)
        GS_TRY(GS_NEW(s->vector[s->vectors], params, "the optimiser's state of %zu weights", params));
    return GS_OK;
}

static cJSON *options_of(const gs_settings *s) {
    char text[GS_OPTION_TEXT_MOST];
    cJSON *options = cJSON_CreateObject();
    for (const gs_run_option *o = gs_run_table; o->name; o++) {
        if (o->resume == GS_RESUME_FREE || gs_run_option_is_default(o, s)) continue;
        if (strcmp(o->name, "epochs") == 0 && s->epochs == o->max && !s->steps)
            continue; /* a trainer's run never ends (trainer.c) */
        cJSON_AddStringToObject(options, o->name, gs_run_option_text(o, s, text));
    }
    return options;
}

gs_status gs_state_book(gs_worker *w, gs_state **place) {
    const size_t floats = (size_t)w->optimizer->vectors * gs_model_whole(w->model)->params;
    if (w->comm->rank != 0) return GS_OK;
    return gs_book_host(w, GS_MEMORY_OPTIMIZER, place, floats * sizeof(float));
}

gs_status gs_state_create(gs_worker *w, gs_state **out) {
    *out = NULL;
    GS_TRY(gs_state_book(w, out));
    if (w->comm->rank != 0) return GS_OK;
    const gs_settings settings = gs_settings_with_numbers(w->settings, w->train_set->count);
    GS_TRY(GS_NEW(*out, 1, "the state of a run"));
    gs_state *s = *out;
    s->samples = w->train_set->count;
    s->data = gs_data_checksum(w->train_set);
    s->options = options_of(&settings);
    return gs_state_make_vectors(s, w->optimizer->vectors, gs_model_whole(w->model)->params);
}

gs_status gs_state_fill(gs_worker *w, gs_state *s) {
    const gs_optimizer *o = w->optimizer;
    for (int i = 0; i < o->vectors; i++) GS_TRY(gs_partition_gather(w, i, s ? s->vector[i] : NULL));
    if (!s) return GS_OK;
    s->step = w->step;
    s->updates = o->updates;
    s->loss_scale = o->loss_scale.scale;
    s->good = o->loss_scale.good;
    return GS_OK;
}

bool gs_state_has_ended(const gs_state *state, const gs_settings *s, char *text, size_t size) {
    const uint64_t batch = s->batch ? s->batch : state->samples;
    const uint64_t epoch = batch ? gs_steps_of_epoch(state->samples, batch) : 0,
                   all = (uint64_t)s->epochs * epoch;
    const bool by_steps = s->steps && state->step >= s->steps, by_epochs = state->step >= all;
    char asked[32], more[32];
    if (!by_steps && !by_epochs) return false;
    if (by_steps && (s->steps < all || !by_epochs))
        snprintf(asked, sizeof asked, "--steps %" PRIu64, s->steps);
    else
        snprintf(asked, sizeof asked, "--epochs %d", s->epochs);
    if (by_epochs && epoch)
        snprintf(more, sizeof more, "--epochs %" PRIu64, state->step / epoch + 1);
    else
        snprintf(more, sizeof more, "--steps %" PRIu64, state->step + 1);
    snprintf(text, size,
             "the run in %s has done %" PRIu64
             " step%s, and %s asks for no more, so nothing is trained; to go on, "
             "give a larger total: %s",
             s->resume ? s->resume : "memory", state->step, gs_s(state->step), asked, more);
    return true;
}

/* ---- a worker resumes ---- */

void gs_state_begin(gs_worker *w) {
    const gs_state *s = w->settings->begin;
    w->step = w->begun_at = w->schedule.done = s->step;
    w->optimizer->updates = s->updates;
    if (s->loss_scale > 0 && w->optimizer->loss_scale.scale > 0) {
        w->optimizer->loss_scale.scale = s->loss_scale;
        w->optimizer->loss_scale.good = (uint32_t)s->good;
    }
}

gs_status gs_state_restore(gs_worker *w) {
    const gs_state *s = w->settings->begin;
    for (int i = 0; i < w->optimizer->vectors; i++) GS_TRY(gs_partition_scatter(w, i, s->vector[i]));
    return GS_OK;
}
