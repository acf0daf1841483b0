/* run.json. */
#include "log/internal.h"
#include "io/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/version.h"
#include "io/file.h"
#include "model/model_text.h"
#include "train/options/options.h"
#include "train/strategy.h"

/* ---- memory ---- */

static gs_status add_layer(gs_layer *l, void *bytes) {
    *(double *)bytes += (double)l->bytes;
    return GS_OK;
}

static double bytes_of_set(const gs_dataset *set) {
    return set ? (double)set->count * (double)gs_sample_bytes(set) : 0;
}

gs_log_memory gs_log_memory_of(const gs_worker *w) {
    const gs_model *m = w->model;
    double n = (double)m->max_batch * sizeof(float), activations = 0;
    gs_layer_walk(m->net, add_layer, &activations);
    activations += n * (double)gs_shape_size(m->in); /* x */
    if (m->weights_apart && m->max_batch == 0)
        activations = w->device->memory.now[GS_ON_DEVICE].bytes[GS_MEMORY_ACTIVATIONS];
    if (m->probability.base) activations += n * (double)gs_shape_size(m->out);
    if (m->target.base) activations += n * (double)gs_shape_size(m->out);
    if (m->dlogits.base) activations += n * (double)gs_shape_size(m->out);
    const size_t weights = m->weights_apart ? m->weights_apart : m->saved,
                 gradients = m->gradients_apart ? m->gradients_apart : m->saved + GS_STATS,
                 vectors = w->optimizer ? (size_t)w->optimizer->vectors * w->optimizer->held : 0;
    return (gs_log_memory){.weights = (double)weights * sizeof(float),
                           .gradients = (double)gradients * sizeof(float),
                           .optimizer = (double)vectors * sizeof(float),
                           .activations = activations,
                           .data = bytes_of_set(w->train_set) + bytes_of_set(w->test_set),
                           .peak_resident = gs_peak_memory()};
}

/* ---- what was run ---- */

static void add_word(cJSON *array, const char *word) {
    cJSON_AddItemToArray(array, cJSON_CreateString(word));
}

/* As it can be typed again. What started several processes is known by what it has set up for them. */
static void add_command(cJSON *o, const gs_log_run *run) {
    const gs_log_options *log = run->options;
    const gs_rendezvous *p = run->rank0->settings->processes;
    cJSON *command = cJSON_AddArrayToObject(o, "command");
    char size[16];
    if (p && p->size > 1) {
        bool mpi = p->transport && strcmp(p->transport, "mpi") == 0;
        snprintf(size, sizeof size, "%d", p->size);
        if (!mpi) add_word(command, "gradsum");
        add_word(command, mpi ? "mpirun" : "launch");
        add_word(command, "-n");
        add_word(command, size);
        if (!mpi && p->transport) add_word(command, "--transport");
        if (!mpi && p->transport) add_word(command, p->transport);
        if (!mpi) add_word(command, "--");
    }
    if (!p || p->size <= 1 || strcmp(cJSON_GetArrayItem(command, 0)->valuestring, "mpirun") == 0)
        add_word(command, "gradsum");
    for (int i = 0; i < log->argc; i++) add_word(command, log->argv[i]);
}

static void add_devices(cJSON *o, const gs_log_run *run) {
    cJSON *devices = cJSON_AddArrayToObject(o, "devices");
    for (int r = 0; r < run->workers; r++)
        cJSON_AddItemToArray(devices,
                             GS_JSON_OBJECT(GS_FIELD("worker", r), GS_FIELD("device", run->devices[r].device),
                                            GS_FIELD("name", run->devices[r].description),
                                            GS_FIELD("host", run->devices[r].host)));
}

/* Those that share memory have met over Gloo too. */
static bool meet_over_gloo(const gs_rendezvous *p) {
    return p && p->size > 1 && !(p->transport && strcmp(p->transport, "mpi") == 0);
}

/* OpenBLAS's kernels are in the description of the device. */
static void add_versions(cJSON *o, const gs_log_run *run) {
    cJSON *versions = cJSON_AddObjectToObject(o, "versions");
    gs_device_info *list;
    const char *problem;
    int count, r = 0;
    GS_JSON_ADD(versions, GS_FIELD("gradsum", GRADSUM_VERSION), GS_FIELD("compiler", __VERSION__));
    if (meet_over_gloo(run->rank0->settings->processes))
        cJSON_AddStringToObject(versions, "gloo", gs_comm_gloo_version());
    while (r < run->workers && strncmp(run->devices[r].device, "cl", 2) != 0) r++;
    if (r == run->workers || gs_device_list(&list, &count, &problem) != GS_OK) return;
    for (int i = 0; i < count; i++)
        if (strncmp(list[i].name, "cl", 2) == 0 && !cJSON_GetObjectItem(versions, "opencl"))
            cJSON_AddStringToObject(versions, "opencl", list[i].note);
    free(list);
}

static cJSON *describe(const gs_log_run *run) {
    const gs_worker *w = run->rank0;
    const gs_settings *s = w->settings, in_use = gs_settings_in_use(w);
    size_t batch = w->batch, count = w->train_set->count, steps = (count + batch - 1) / batch;
    char sums[GS_SUMS_TEXT];
    cJSON *o = GS_JSON_OBJECT(GS_FIELD("format", "gradsum-run"), GS_FIELD("version", 1),
                              GS_FIELD("program", "gradsum " GRADSUM_VERSION));
    add_command(o, run);
    GS_JSON_ADD(o, GS_FIELD("started", run->started), GS_FIELD("host_cores", run->cores));
    bool named = s->model && gs_model_is_name(s->model);
    GS_JSON_ADD(o, GS_FIELD("model", named ? s->model : w->model->text),
                GS_FIELD("model_text", w->model->text),
                GS_FIELD("parameters", gs_model_whole(w->model)->params), GS_FIELD("train_samples", count),
                GS_FIELD("test_samples", w->test_set->count), GS_FIELD("steps_per_epoch", steps),
                GS_FIELD("workers", run->workers),
                GS_FIELD("processes", s->processes && s->processes->size > 0 ? s->processes->size : 1),
                GS_FIELD("sync_chosen", w->sync->scheme->name), GS_FIELD("sums", gs_sums_text(w, sums)),
                GS_FIELD("transport", w->comm->ops->name),
                GS_FIELD("log_every", run->options->every ? run->options->every : 1));
    gs_run_options_json(&in_use, GS_JSON_LOG, o);
    add_devices(o, run);
    add_versions(o, run);
    return o;
}

/* ---- writing ---- */

static gs_status write_text(const char *path, const char *text) {
    gs_file_writer w;
    if (!text) return gs_fail(GS_E_MEMORY, "no memory for run.json");
    GS_TRY(gs_file_writer_open(path, &w));
    fprintf(w.file, "%s\n", text);
    return gs_file_writer_commit(&w);
}

gs_status gs_log_write_run(const char *path, const gs_log_run *run, char **text) {
    cJSON *o = describe(run);
    *text = gs_json_to_text(o, true);
    cJSON_Delete(o);
    return write_text(path, *text);
}

gs_status gs_log_write_end(const char *path, const char *text, const gs_log_end_of_run *end,
                           const gs_log_memory *memory) {
    cJSON *o = gs_json_parse(text, strlen(text), NULL), *e = cJSON_AddObjectToObject(o, "ended");
    GS_JSON_ADD(e, GS_FIELD("why", end->why), GS_FIELD("seconds", end->seconds),
                GS_FIELD("steps", end->steps));
    if (end->test_accuracy >= 0) cJSON_AddNumberToObject(e, "test_accuracy", end->test_accuracy);
    if (end->busy) cJSON_AddStringToObject(e, "busy", end->busy);
    if (end->problem) cJSON_AddStringToObject(e, "log", end->problem);
    if (end->sent > 0)
        GS_JSON_ADD(e, GS_FIELD("sent_bytes_a_step", end->sent),
                    GS_FIELD("sent_bytes_a_step_most", end->sent_most));
    cJSON *m = cJSON_AddObjectToObject(o, "memory");
    GS_JSON_ADD(m, GS_FIELD("weights", memory->weights), GS_FIELD("gradients", memory->gradients),
                GS_FIELD("optimizer", memory->optimizer), GS_FIELD("activations", memory->activations),
                GS_FIELD("data", memory->data), GS_FIELD("peak_resident", memory->peak_resident));
    char *whole = gs_json_to_text(o, true);
    gs_status status = write_text(path, whole);
    cJSON_free(whole);
    cJSON_Delete(o);
    return status;
}
