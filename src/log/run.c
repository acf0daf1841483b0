/* run.json. */
#include "log/parts.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "io/file.h"

#ifndef GRADSUM_VERSION
#define GRADSUM_VERSION "0.1.0"
#endif

/* ---- memory ---- */

typedef struct activations {
    size_t batch;
    double bytes;
} activations;

static gs_status add_layer(gs_layer *l, void *context) {
    activations *a = context;
    double n = (double)a->batch * sizeof(float);
    if (l->y.base) a->bytes += n * (double)gs_shape_size(l->out);
    if (l->dx.base) a->bytes += n * (double)gs_shape_size(l->in);
    if (strcmp(l->ops->name, "max_pool2d") == 0)
        a->bytes += n * (double)gs_shape_size(l->out); /* its index */
    return GS_OK;
}

static double bytes_of_set(const gs_dataset *set) {
    return set ? (double)set->count * (double)gs_sample_bytes(set) : 0;
}

double gs_log_peak_resident(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss * 1024;
}

gs_log_memory gs_log_memory_of(const gs_worker *w) {
    const gs_model *m = w->model;
    activations a = {.batch = m->max_batch};
    double params = (double)m->params * sizeof(float), n = (double)m->max_batch * sizeof(float);
    gs_layer_walk(m->net, add_layer, &a);
    a.bytes += n * (double)gs_shape_size(m->in); /* x */
    if (m->probability.base) a.bytes += n * (double)gs_shape_size(m->out);
    if (m->target.base) a.bytes += n * (double)gs_shape_size(m->out);
    if (m->dlogits.base) a.bytes += n * (double)gs_shape_size(m->out);
    return (gs_log_memory){.weights = params,
                           .gradients = params + GS_STATS * sizeof(float),
                           .optimizer = w->sgd && w->sgd->velocity.base ? params : 0,
                           .activations = a.bytes,
                           .data = bytes_of_set(w->train_set) + bytes_of_set(w->test_set),
                           .peak_resident = gs_log_peak_resident()};
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

/* 0.05f as 0.05, and not as 0.0500000007. */
double gs_log_float(float x) {
    char text[32];
    snprintf(text, sizeof text, "%.7g", (double)x);
    return strtod(text, NULL);
}

static void add_optimizer(cJSON *o, const gs_settings *s) {
    cJSON *optimizer = cJSON_AddObjectToObject(o, "optimizer");
    cJSON_AddNumberToObject(optimizer, "lr", gs_log_float(s->lr));
    cJSON_AddNumberToObject(optimizer, "momentum", gs_log_float(s->momentum));
    cJSON_AddNumberToObject(optimizer, "weight_decay", gs_log_float(s->weight_decay));
    cJSON_AddStringToObject(optimizer, "lr_rule", gs_lr_rule_name(s->lr_rule));
    if (s->lr_rule == GS_LR_NONE) return;
    cJSON_AddNumberToObject(optimizer, "base_batch", (double)(s->base_batch ? s->base_batch : GS_BASE_BATCH));
    cJSON_AddNumberToObject(optimizer, "warmup", s->warmup);
}

static void add_devices(cJSON *o, const gs_log_run *run) {
    cJSON *devices = cJSON_AddArrayToObject(o, "devices");
    for (int r = 0; r < run->workers; r++) {
        cJSON *d = cJSON_CreateObject();
        cJSON_AddNumberToObject(d, "worker", r);
        cJSON_AddStringToObject(d, "device", run->devices[r].device);
        cJSON_AddStringToObject(d, "name", run->devices[r].description);
        cJSON_AddStringToObject(d, "host", run->devices[r].host);
        cJSON_AddItemToArray(devices, d);
    }
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
    cJSON_AddStringToObject(versions, "gradsum", GRADSUM_VERSION);
    cJSON_AddStringToObject(versions, "compiler", __VERSION__);
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
    const gs_settings *s = w->settings;
    size_t batch = w->batch, count = w->train_set->count, steps = (count + batch - 1) / batch;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "format", "gradsum-run");
    cJSON_AddNumberToObject(o, "version", 1);
    cJSON_AddStringToObject(o, "program", "gradsum " GRADSUM_VERSION);
    add_command(o, run);
    cJSON_AddStringToObject(o, "started", run->started);
    cJSON_AddNumberToObject(o, "host_cores", gs_cpu_cores());
    cJSON_AddStringToObject(o, "model", s->model ? s->model : w->model->text);
    cJSON_AddStringToObject(o, "model_text", w->model->text);
    cJSON_AddNumberToObject(o, "parameters", (double)w->model->params);
    cJSON_AddStringToObject(o, "data", s->data);
    cJSON_AddNumberToObject(o, "train_samples", (double)count);
    cJSON_AddNumberToObject(o, "test_samples", (double)w->test_set->count);
    cJSON_AddNumberToObject(o, "global_batch", (double)batch);
    cJSON_AddNumberToObject(o, "epochs", s->epochs);
    cJSON_AddNumberToObject(o, "steps", (double)s->steps); /* 0: no limit */
    cJSON_AddNumberToObject(o, "steps_per_epoch", (double)steps);
    cJSON_AddNumberToObject(o, "workers", run->workers);
    cJSON_AddNumberToObject(o, "processes", s->processes && s->processes->size > 0 ? s->processes->size : 1);
    cJSON_AddStringToObject(o, "sync", s->sync);
    cJSON_AddStringToObject(o, "sync_chosen", w->sync->scheme->name);
    cJSON_AddStringToObject(o, "transport", w->comm->ops->name);
    cJSON_AddStringToObject(o, "wire", gs_wire_name(s->wire));
    cJSON_AddNumberToObject(o, "bucket_kb", s->bucket);
    cJSON_AddBoolToObject(o, "exact", s->exact);
    cJSON_AddNumberToObject(o, "log_every", (double)(run->options->every ? run->options->every : 1));
    if (s->trace_first) {
        const double steps[] = {(double)s->trace_first, (double)s->trace_last};
        cJSON_AddItemToObject(o, "trace_steps", cJSON_CreateDoubleArray(steps, 2));
    }
    add_optimizer(o, s);
    cJSON_AddNumberToObject(o, "seed", (double)s->seed);
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
    *text = cJSON_Print(o);
    cJSON_Delete(o);
    return write_text(path, *text);
}

gs_status gs_log_write_end(const char *path, const char *text, const gs_log_end_of_run *end,
                           const gs_log_memory *memory) {
    cJSON *o = cJSON_Parse(text), *e = cJSON_AddObjectToObject(o, "ended");
    cJSON_AddStringToObject(e, "why", end->why);
    cJSON_AddNumberToObject(e, "seconds", end->seconds);
    cJSON_AddNumberToObject(e, "steps", (double)end->steps);
    if (end->test_accuracy >= 0) cJSON_AddNumberToObject(e, "test_accuracy", end->test_accuracy);
    if (end->sent > 0) {
        cJSON_AddNumberToObject(e, "sent_bytes_a_step", end->sent);
        cJSON_AddNumberToObject(e, "sent_bytes_a_step_most", end->sent_most);
    }
    cJSON *m = cJSON_AddObjectToObject(o, "memory");
    cJSON_AddNumberToObject(m, "weights", memory->weights);
    cJSON_AddNumberToObject(m, "gradients", memory->gradients);
    cJSON_AddNumberToObject(m, "optimizer", memory->optimizer);
    cJSON_AddNumberToObject(m, "activations", memory->activations);
    cJSON_AddNumberToObject(m, "data", memory->data);
    cJSON_AddNumberToObject(m, "peak_resident", memory->peak_resident);
    char *whole = cJSON_Print(o);
    gs_status status = write_text(path, whole);
    cJSON_free(whole);
    cJSON_Delete(o);
    return status;
}
