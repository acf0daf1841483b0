/* The page of `gradsum step -o`. For every scheme that can be watched it shows whose gradients each sum contains, and
 * when; the values shown are sums of those workers' gradients in a real step.
 *
 * The data for the page's scripts (src/page/step_record.js), abbreviated because there is a lot of it:
 *
 *     rows      [norm, min, max, [some values], [bars]]             the contents of a chunk; cells give row numbers
 *     schemes   bounds    chunk c is bounds[c] .. bounds[c + 1] - 1
 *               start     [worker][chunk] = [workers in it, as bits; row]
 *               messages  [round, from, to, first chunk, [row of each chunk]], in the order of sending
 *               changes   [round, worker, chunk, workers in it, row]: cells that differ after a round
 *               counted, formula   [rounds, messages, bytes] of each worker
 */
#include "cli/step/step.h"
#include "comm/ranks.h"
#include "core/memory.h"
#include "io/json.h"
#include "page/page.h"
#include "train/run.h"

#include <math.h>
#include <stdlib.h>

/* Each worker's gradient, before it is summed, in the first step of `gradsum train` with these settings. */
typedef struct gradients {
    const gs_settings *settings;
    gs_dataset *set; /* only while the gradients are computed */
    gs_model *model; /* its elements: the parameters, then the state and GS_STATS floats */
    int workers;
    size_t size;                      /* floats per gradient */
    float *gradient[GS_STEP_WORKERS]; /* indexed by worker */
} gradients;

static gs_status check_sizes(gradients *g) {
    const gs_settings *s = g->settings;
    if (g->set->text)
        return gs_fail(GS_E_USAGE, "%s is a text: step shows the gradients of images", g->set->name);
    GS_TRY(gs_check_set(s, g->set));
    GS_TRY(gs_run_check_sizes(&(gs_run){.train_set = g->set}, s, g->workers));
    GS_TRY(gs_model_create(NULL, &(gs_model_config){.text = s->model, .in = g->set->shape}, &g->model));
    g->size = g->model->saved + GS_STATS;
    if (g->size > GS_STEP_PAGE_FLOATS)
        return gs_fail(GS_E_USAGE, "--model %s has %zu floats to sum; a page takes at most %d", s->model,
                       g->size, GS_STEP_PAGE_FLOATS);
    return gs_dataset_check_labels(g->set, (int)gs_shape_size(g->model->out));
}

/* Does what a worker does in a run, up to the sum (train/step.c). */
static gs_status of_worker(void *context, int rank, gs_comm **comm) {
    gradients *g = context;
    const size_t bytes = g->size * sizeof(float);
    float *host = g->gradient[rank] = malloc(bytes);
    gs_worker w;
    if (!host) return gs_fail(GS_E_MEMORY, "no memory for the gradient of worker %d", rank);
    GS_TRY(gs_worker_create(&w, g->settings, "cpu", *comm, gs_worker_threads(g->settings, g->workers),
                            gs_dataset_scaling(g->set), g->set, NULL));
    gs_status status = gs_gradient(&w);
    if (status == GS_OK) status = w.device->ops->read(w.device, host, w.model->gradients, bytes);
    gs_worker_free(&w);
    return status;
}

static void free_gradients(gradients *g) {
    gs_model_free(g->model);
    for (int r = 0; r < g->workers; r++) free(g->gradient[r]);
    *g = (gradients){0};
}

/* After a failure *out is empty. */
static gs_status make_gradients(const gs_settings *settings, int workers, gradients *out) {
    *out = (gradients){.settings = settings, .workers = workers};
    gs_status status = gs_load_set(settings, GS_TRAIN, &out->set);
    if (status == GS_OK) status = check_sizes(out);
    if (status == GS_OK) status = gs_ranks_run(workers, settings->timeout, of_worker, out);
    gs_dataset_free(out->set);
    out->set = NULL;
    if (status != GS_OK) free_gradients(out);
    return status;
}

/* ---- the page ---- */

typedef struct page {
    const gradients *gradients;
    gs_step_part *row; /* a row: the values that the sum of these workers' gradients has in these elements */
    int rows;
    size_t room;
} page;

enum { BARS = 48, LEAST_BARS = 3, SOME = 5 }; /* bars per gradient; minimum per chunk; values shown */

#define NUMBER(x) gs_json_rounded(x, 4)
#define INTEGERS(...)                                                                                        \
    cJSON_CreateDoubleArray((const double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double))

/* ---- rows ---- */

/* The number of the row with these values, which is added if it is new. -1: no memory. */
static int row_of(page *p, const gs_step_part *x) {
    for (int i = 0; i < p->rows; i++)
        if (p->row[i].first == x->first && p->row[i].count == x->count && p->row[i].workers == x->workers)
            return i;
    if (!gs_grow(&p->row, (size_t)p->rows, &p->room, sizeof *p->row)) return -1;
    p->row[p->rows] = *x;
    return p->rows++;
}

/* [norm, min, max, [the first value, some between, and the last], [bars]] of x[0 .. count - 1]. Each bar is the mean of
 * one of `bars` equal parts, so bars add up as gradients do. */
static cJSON *values_of(const float *x, size_t count, int bars) {
    const size_t shown = count < SOME ? count : SOME;
    cJSON *some = cJSON_CreateArray(), *means = cJSON_CreateArray();
    double squares = 0;
    float min = x[0], max = x[0];
    for (size_t i = 0; i < count; i++) {
        if (x[i] < min) min = x[i];
        if (x[i] > max) max = x[i];
        squares += (double)x[i] * x[i];
    }
    for (size_t i = 0; i < shown; i++)
        cJSON_AddItemToArray(some, NUMBER(x[shown > 1 ? (count - 1) * i / (shown - 1) : 0]));
    for (int b = 0; b < bars; b++) {
        const gs_shard part = gs_shard_of(count, b, bars);
        double sum = 0;
        for (size_t i = part.first; i < part.first + part.count; i++) sum += x[i];
        cJSON_AddItemToArray(means, NUMBER(sum / (double)part.count));
    }
    return GS_JSON_ARRAY(NUMBER(sqrt(squares)), NUMBER(min), NUMBER(max), some, means);
}

static gs_status json_rows(const page *p, cJSON *rows) {
    const gradients *g = p->gradients;
    float *sum;
    GS_TRY(GS_NEW(sum, g->size, "a sum of gradients"));
    for (int i = 0; i < p->rows; i++) {
        const gs_step_part *x = &p->row[i];
        const int usual = (int)(BARS * x->count / g->size), bars = usual > LEAST_BARS ? usual : LEAST_BARS;
        memset(sum, 0, x->count * sizeof *sum);
        for (int r = 0; r < g->workers; r++)
            for (size_t k = 0; k < x->count && x->workers >> r & 1; k++)
                sum[k] += g->gradient[r][x->first + k];
        cJSON_AddItemToArray(rows, values_of(sum, x->count, x->count < (size_t)bars ? (int)x->count : bars));
    }
    free(sum);
    return GS_OK;
}

/* ---- one scheme ---- */

static gs_status record(const page *p, const gs_sync_scheme *scheme, gs_step_record *step) {
    *step = (gs_step_record){.asked = scheme, .workers = p->gradients->workers, .size = p->gradients->size};
    GS_TRY(gs_step_run(step));
    if (step->correct) return GS_OK;
    return gs_fail(GS_E_SHAPE, "%s is wrong: not every worker has the sum of all", scheme->name);
}

/* The part of an event that holds one chunk. */
static gs_step_part chunk_of(const gs_step_record *t, const gs_step_event *e, int chunk) {
    const size_t first = t->bounds[chunk];
    return (gs_step_part){first, t->bounds[chunk + 1] - first, gs_step_part_at(e, first)->workers};
}

static void add_message(page *p, cJSON *messages, const gs_step_record *t, const gs_step_event *e) {
    const gs_step_part *last = &e->parts[e->count - 1];
    const int from = gs_step_chunk_at(t, e->parts[0].first),
              to = gs_step_chunk_at(t, last->first + last->count);
    cJSON *m = INTEGERS(e->round, e->from, e->to, from), *rows = cJSON_CreateArray();
    for (int c = from; c < to; c++) {
        const gs_step_part chunk = chunk_of(t, e, c);
        cJSON_AddItemToArray(rows, cJSON_CreateNumber(row_of(p, &chunk)));
    }
    cJSON_AddItemToArray(m, rows);
    cJSON_AddItemToArray(messages, m);
}

/* Add all senders' first messages, then all their second ones, and so on: each such set could travel at once. */
static void add_messages(page *p, cJSON *messages, const gs_step_record *t) {
    int left = 0;
    for (int i = 0; i < t->count; i++) left += t->events[i].to >= 0;
    for (int place = 0; left > 0; place++)
        for (int i = 0; i < t->count; i++) {
            const gs_step_event *e = &t->events[i];
            if (e->to < 0 || e->place != place) continue;
            add_message(p, messages, t, e);
            left--;
        }
}

static void add_cells(page *p, cJSON *start, cJSON *changes, const gs_step_record *t) {
    const gs_step_event *held[GS_STEP_WORKERS] = {0};
    for (int r = 0; r < t->workers; r++) cJSON_AddItemToArray(start, cJSON_CreateArray());
    for (int i = 0; i < t->count; i++) {
        const gs_step_event *e = &t->events[i];
        const int r = e->from;
        if (e->to >= 0) continue;
        for (int c = 0; c < t->chunks; c++) {
            const gs_step_part chunk = chunk_of(t, e, c);
            if (held[r] && chunk_of(t, held[r], c).workers == chunk.workers) continue;
            const int row = row_of(p, &chunk);
            if (e->round == 0)
                cJSON_AddItemToArray(cJSON_GetArrayItem(start, r), INTEGERS(chunk.workers, row));
            else
                cJSON_AddItemToArray(changes, INTEGERS(e->round, r, c, chunk.workers, row));
        }
        held[r] = e;
    }
}

static void add_costs(cJSON *o, const gs_step_record *t) {
    cJSON *counted = cJSON_AddArrayToObject(o, "counted"), *formula = cJSON_AddArrayToObject(o, "formula");
    for (int r = 0; r < t->workers; r++) {
        gs_sync_cost f;
        const gs_sync_cost *c = &t->counted[r];
        gs_sync_cost_of(t->scheme, t->workers, r, gs_step_array(t), &f);
        cJSON_AddItemToArray(counted, INTEGERS((double)c->rounds, (double)c->messages, (double)c->bytes));
        cJSON_AddItemToArray(formula, INTEGERS((double)f.rounds, (double)f.messages, (double)f.bytes));
    }
}

static void add_scheme(page *p, cJSON *schemes, const gs_step_record *t) {
    cJSON *o = cJSON_CreateObject(), *bounds = cJSON_CreateArray();
    cJSON_AddItemToArray(schemes, o);
    GS_JSON_ADD(o, GS_FIELD("name", t->scheme->name), GS_FIELD("what", t->scheme->what),
                GS_FIELD("rounds", t->rounds));
    for (int c = 0; c <= t->chunks; c++)
        cJSON_AddItemToArray(bounds, cJSON_CreateNumber((double)t->bounds[c]));
    cJSON_AddItemToObject(o, "bounds", bounds);
    cJSON *start = cJSON_AddArrayToObject(o, "start"), *changes = cJSON_AddArrayToObject(o, "changes");
    add_cells(p, start, changes, t);
    add_messages(p, cJSON_AddArrayToObject(o, "messages"), t);
    add_costs(o, t);
}

/* ---- all ---- */

/* Only schemes built from our own messages can be watched. */
static bool can_be_watched(const gs_sync_scheme *s) {
    return s->cost != NULL;
}

static gs_status add_schemes(page *p, cJSON *schemes) {
    for (const gs_sync_scheme *const *s = gs_sync_schemes(); *s; s++) {
        gs_step_record step;
        if (!can_be_watched(*s)) continue;
        gs_status status = record(p, *s, &step);
        if (status == GS_OK) add_scheme(p, schemes, &step);
        gs_step_record_free(&step);
        GS_TRY(status);
    }
    return GS_OK;
}

static void add_step(const page *p, cJSON *o) {
    const gradients *g = p->gradients;
    const gs_settings *s = g->settings;
    cJSON *params = cJSON_CreateArray(), *workers = cJSON_CreateArray();
    GS_JSON_ADD(o, GS_FIELD("version", GRADSUM_VERSION), GS_FIELD("model", s->model),
                GS_FIELD("data", s->data), GS_FIELD("batch", s->batch), GS_FIELD("seed", s->seed),
                GS_FIELD("floats", g->size));
    for (int i = 0; i < g->model->param_count; i++) {
        const gs_param *q = g->model->param[i];
        cJSON_AddItemToArray(params, GS_JSON_ARRAY(GS_JSON(q->name), GS_JSON(q->at), GS_JSON(q->count)));
    }
    cJSON_AddItemToObject(o, "params", params);
    for (int r = 0; r < g->workers; r++) { /* [samples, sum of their losses] */
        const float *stats = g->gradient[r] + g->model->saved;
        cJSON_AddItemToArray(workers,
                             GS_JSON_ARRAY(NUMBER(stats[GS_STAT_SAMPLES]), NUMBER(stats[GS_STAT_LOSS])));
    }
    cJSON_AddItemToObject(o, "workers", workers);
}

static gs_status write_page(const char *path, page *p, const gs_sync_scheme *first, cJSON *data) {
    char title[200];
    GS_TRY(add_schemes(p, cJSON_AddArrayToObject(data, "schemes")));
    add_step(p, data);
    GS_JSON_ADD(data, GS_FIELD("show", first->name));
    GS_TRY(json_rows(p, cJSON_AddArrayToObject(data, "rows")));
    snprintf(title, sizeof title, "gradsum: %s over %d workers", first->name, p->gradients->workers);
    const gs_page shown = {.title = title,
                           .style = {gs_page_step_css},
                           .body = gs_page_step_html,
                           .script = {gs_page_step_record_js, gs_page_step_draw_js, gs_page_step_js}};
    return gs_page_write(path, &shown, data);
}

static gs_status check(const gs_sync_scheme *first, int workers) {
    char names[200] = "";
    if (workers < 2)
        return gs_fail(GS_E_USAGE, "--workers %d: one worker has nothing to sum; -o needs 2", workers);
    if (can_be_watched(first)) return GS_OK;
    for (const gs_sync_scheme *const *s = gs_sync_schemes(); *s; s++)
        if (can_be_watched(*s)) gs_append(names, sizeof names, "%s%s", *names ? ", " : "", (*s)->name);
    return gs_fail(GS_E_USAGE, "--sync %s sends no messages that gradsum can show; -o shows: %s", first->name,
                   names);
}

gs_status gs_step_page(const char *path, const gs_sync_scheme *first, const gs_settings *settings,
                       int workers) {
    gradients gradients;
    GS_TRY(check(first, workers));
    GS_TRY(gs_file_check_target(path, GS_FILE_PAGE));
    GS_TRY(make_gradients(settings, workers, &gradients));
    page p = {.gradients = &gradients};
    cJSON *data = cJSON_CreateObject();
    gs_status status = write_page(path, &p, first, data);
    cJSON_Delete(data);
    free(p.row);
    free_gradients(&gradients);
    return status;
}
