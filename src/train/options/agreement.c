#include "data/text_set.h"
#include "train/options/options.h"
#include "train/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

/* A text of any length, represented by its beginning (for messages) and its checksum. Another program may have sent
 * anything, so `begins` may be unterminated. */
typedef struct gs_shown {
    char begins[64];
    uint32_t checksum;
} gs_shown;

/* Workers started with different options would sum gradients of different models, and their weights would silently
 * drift apart. Therefore every rank sends its settings before the first step. */
typedef struct gs_agreement {
    uint64_t params, samples, context, step; /* step: the one at which the run begins */
    uint32_t data, weights, state;
    gs_shown model, option[GS_RUN_OPTIONS]; /* in the order of gs_run_table */
} gs_agreement;

static uint32_t checksum(const void *data, size_t bytes) {
    return (uint32_t)crc32_z(0, data, bytes);
}

static gs_shown show(const char *text) {
    gs_shown shown = {.checksum = checksum(text, strlen(text))};
    snprintf(shown.begins, sizeof shown.begins, "%s", text);
    return shown;
}

static bool differ(const gs_shown *a, const gs_shown *b) {
    return a->checksum != b->checksum || strncmp(a->begins, b->begins, sizeof a->begins) != 0;
}

/* *sum: the checksum of the whole model's weights, even if this worker holds only a part of them. */
static gs_status checksum_of_weights(gs_worker *w, uint32_t *sum) {
    *sum = w->model->written;
    if (w->model->undivided) return GS_OK;
    float *host;
    GS_TRY(gs_model_map_weights(w->model, &host));
    *sum = checksum(host, w->model->saved * sizeof(float));
    return gs_model_unmap_weights(w->model, host);
}

/* True for an option that messages describe as "with" or "without", not by its value. */
static bool is_switch(const gs_run_option *o) {
    return o->kind == GS_OPTION_FLAG || o->kind == GS_OPTION_KEEP || o->agreement == GS_ALL_OR_NONE;
}

static gs_shown show_option(const gs_run_option *o, const gs_settings *s) {
    char text[GS_OPTION_TEXT_MOST];
    bool usual = gs_run_option_is_default(o, s);
    if (o->agreement == GS_MAY_DIFFER) return show("");
    if (is_switch(o)) return show(usual ? "without" : "with");
    if (usual && o->off) return show(o->off);
    return show(gs_run_option_text(o, s, text));
}

static gs_status agreement_of(gs_worker *w, gs_agreement *a) {
    const gs_settings s = gs_settings_in_use(w);
    const gs_dataset *data = w->train_set ? w->train_set : w->test_set;
    memset(a, 0, sizeof *a); /* including padding: the whole struct is sent */
    a->params = gs_model_whole(w->model)->params;
    a->context = data->text ? (uint64_t)data->text->context : 0;
    a->samples = data->count;
    a->data = gs_data_checksum(data);
    a->model = show(w->model->text);
    for (size_t i = 0; gs_run_table[i].name; i++) a->option[i] = show_option(&gs_run_table[i], &s);
    const gs_state *begin = w->train_set ? s.begin : NULL;
    if (begin) a->step = begin->step;
    for (int i = 0; begin && i < begin->vectors; i++)
        a->state ^= checksum(begin->vector[i], begin->params * sizeof(float)) + (uint32_t)i;
    return checksum_of_weights(w, &a->weights);
}

#define THE_SAME ": start all with the same options"
#define DIFFER(rank, what, values, theirs, first)                                                            \
    gs_fail(GS_E_USAGE, "rank %d and rank 0 differ in %s (" values ")" THE_SAME, rank, what, theirs, first)
#define TEXTS "%.63s versus %.63s"
#define COUNTS "%" PRIu64 " versus %" PRIu64
#define CHECKSUMS "checksum %08x versus %08x"

static gs_status fail_in_option(int rank, const gs_run_option *o, const char *theirs, const char *first) {
    char name[64];
    snprintf(name, sizeof name, "--%s%s", o->name, o->kind == GS_OPTION_KEEP ? " best" : "");
    if (is_switch(o))
        return gs_fail(GS_E_USAGE, "rank %d runs %.63s %s, rank 0 %.63s it" THE_SAME, rank, theirs, name,
                       first);
    return DIFFER(rank, name, TEXTS, theirs, first);
}

/* Compare model and data first: if one of them differs, some options differ too. */
static gs_status compare(int rank, const gs_agreement *a, const gs_agreement *first) {
    if (differ(&a->model, &first->model))
        return DIFFER(rank, "--model", TEXTS, a->model.begins, first->model.begins);
    if (a->context != first->context) return DIFFER(rank, "--context", COUNTS, a->context, first->context);
    if (a->samples != first->samples)
        return DIFFER(rank, "the number of samples (--data)", COUNTS, a->samples, first->samples);
    if (a->data != first->data) return DIFFER(rank, "the content of --data", CHECKSUMS, a->data, first->data);
    if (a->params != first->params)
        return DIFFER(rank, "the number of parameters", COUNTS, a->params, first->params);
    for (size_t i = 0; gs_run_table[i].name; i++)
        if (differ(&a->option[i], &first->option[i]))
            return fail_in_option(rank, &gs_run_table[i], a->option[i].begins, first->option[i].begins);
    if (a->weights != first->weights)
        return DIFFER(rank, "the initial weights (--load)", CHECKSUMS, a->weights, first->weights);
    if (a->step != first->step)
        return DIFFER(rank, "the number of steps done (--resume)", COUNTS, a->step, first->step);
    if (a->state != first->state)
        return DIFFER(rank, "the optimiser's state (--resume)", CHECKSUMS, a->state, first->state);
    return GS_OK;
}

gs_status gs_agree(gs_worker *w, bool *found_by_all) {
    *found_by_all = false;
    if (w->comm->size == 1) return GS_OK;
    gs_agreement mine, *all;
    GS_TRY(GS_NEW(all, w->comm->size, "the settings of %d ranks", w->comm->size));
    gs_status status = agreement_of(w, &mine);
    if (status == GS_OK) status = gs_comm_all_gather(w->comm, &mine, all, sizeof mine, GS_U8);
    *found_by_all = status == GS_OK;
    for (int rank = 1; rank < w->comm->size && status == GS_OK; rank++)
        status = compare(rank, &all[rank], &all[0]);
    free(all);
    return status;
}
