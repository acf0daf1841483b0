/* The file of a rank: see digest.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "train/digest/record.h"
#include "train/options/options.h"

static const char *const names[] = {
#define GS_NAME(name, title) #name,
    GS_DIGEST_KINDS(GS_NAME)
#undef GS_NAME
};

static gs_status begin_text(gs_digest *d) {
    d->text = open_memstream(&d->bytes, &d->size);
    return d->text ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for the text of --digest");
}

/* What text holds goes to the file. */
static gs_status end_text(gs_digest *d) {
    const bool whole = fclose(d->text) == 0;
    d->text = NULL;
    if (whole) {
        d->check = (uint32_t)crc32_z(d->check, (const void *)d->bytes, d->size);
        if (d->file) fwrite(d->bytes, 1, d->size, d->file);
    }
    free(d->bytes);
    d->bytes = NULL;
    return whole ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for the text of --digest");
}

/* What was written is there, also if the process is killed next. */
static gs_status flush(gs_digest *d) {
    struct stat s;
    GS_TRY(end_text(d));
    if (!d->file) return GS_OK; /* it has stopped */
    if (fflush(d->file) != 0 || ferror(d->file))
        return gs_fail(GS_E_FILE, "--digest: cannot write %s: %s", d->path, strerror(errno));
    const bool nameless = fstat(fileno(d->file), &s) == 0 && s.st_nlink == 0;
    if (!nameless || access(d->path, F_OK) == 0) return GS_OK;
    return gs_fail(GS_E_FILE, "--digest: %s was removed while the run wrote it", d->path);
}

static gs_status open_new(gs_digest *d) {
    const char *folder = d->worker->settings->digest;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return gs_fail(GS_E_FILE, "--digest: cannot make the folder %s: %s", folder, strerror(errno));
    const int length = snprintf(d->path, sizeof d->path, "%s/rank-%d.digest", folder, d->worker->comm->rank);
    if (length >= (int)sizeof d->path)
        return gs_fail(GS_E_USAGE, "--digest: the name of the folder is too long");
    d->file = fopen(d->path, "wx");
    if (d->file) return GS_OK;
    if (errno == EEXIST)
        return gs_fail(GS_E_FILE, "--digest: %s is there already; wanted a new folder for each run", d->path);
    return gs_fail(GS_E_FILE, "--digest: cannot write %s: %s", d->path, strerror(errno));
}

static gs_status write_layer(gs_layer *l, void *context) {
    const gs_digest *d = context;
    fprintf(d->text, "layer %d %s %s\n", l->number, l->ops->name, l->name[0] ? l->name : "-");
    return GS_OK;
}

/* Of the settings that decide what is computed, or how it is divided. */
static void write_options(const gs_digest *d) {
    const gs_settings s = gs_settings_in_use(d->worker);
    char room[GS_OPTION_TEXT_MOST];
    fprintf(d->text, "option model %s\n", d->worker->model->text);
    for (const gs_run_option *o = gs_run_table; o->name; o++) {
        const bool decides = o->resume != GS_RESUME_FREE || o->json[GS_JSON_START] || o->json[GS_JSON_LOG];
        if (strcmp(o->name, "model") == 0 || !decides) continue;
        const char *text = gs_option_text(o->kind, (const char *)&s + o->at, room, sizeof room);
        fprintf(d->text, "option %s %s\n", o->name, text ? text : "");
    }
}

gs_status gs_digest_write_start(gs_digest *d) {
    const gs_worker *w = d->worker;
    const gs_model *m = w->model, *whole = gs_model_whole(m);
    GS_TRY(open_new(d));
    GS_TRY(begin_text(d));
    d->check = 0;
    fprintf(d->text, "gradsum digest %d rank %d of %d\n", GS_DIGEST_VERSION, w->comm->rank, w->comm->size);
    write_options(d);
    fprintf(d->text, "set %zu\n", w->train_set->count);
    GS_TRY(gs_layer_walk(m->net, write_layer, d));
    for (int p = 0; p < m->saved_count; p++)
        fprintf(d->text, "param %d %zu %zu %d %d %s\n", p, whole->param[p]->at, whole->param[p]->count,
                m->param[p]->state, d->layer_of[p], m->param[p]->name);
    fprintf(d->text, "start\n");
    return flush(d);
}

static void write_numbers(FILE *file, const gs_numbers *x) {
    fprintf(file, "%.0f %.10g %.10g", x->n, x->sum, x->squares);
    for (int k = 0; k < GS_ALONG; k++) fprintf(file, " %.10g", x->along[k]);
    fprintf(file, " %" PRIx64 "\n", x->bits);
}

static gs_status write_step(gs_digest *d, uint64_t step, const gs_digest_score *s) {
    GS_TRY(begin_text(d));
    for (size_t i = 0; i < gs_digest_cells(d); i++) {
        const size_t number = i / GS_DIGEST_PARTS;
        if (!(d->table[i].n > 0)) continue;
        fprintf(d->text, "%s %" PRIu64 " %zu %zu ", names[number / (size_t)d->numbers], step,
                number % (size_t)d->numbers, i % GS_DIGEST_PARTS);
        write_numbers(d->text, &d->table[i]);
    }
    fprintf(d->text, "score %" PRIu64 " %.10g %.10g %.10g %.10g %.10g %.10g %.10g %.10g %.10g %.10g\n", step,
            s->loss, s->correct, s->samples, s->lr, s->scale, s->norm, s->updates, s->loss_scale, s->skipped,
            s->held);
    GS_TRY(end_text(d));
    GS_TRY(begin_text(d));
    fprintf(d->text, "end %" PRIu64 " %08" PRIx32 "\n", step, d->check);
    return flush(d);
}

gs_status gs_digest_write_step(gs_digest *d, uint64_t step, const gs_digest_score *s) {
    const gs_status status = write_step(d, step, s);
    if (status != GS_E_FILE) return status;
    snprintf(d->stopped, sizeof d->stopped,
             "%.900s; this record stops before step %" PRIu64 ", training continues", gs_message(), step);
    fclose(d->file);
    d->file = NULL;
    return GS_OK;
}

void gs_digest_close(gs_digest *d) {
    if (d->file) fclose(d->file);
    if (d->text) fclose(d->text); /* an error came in between */
    free(d->bytes);
}
