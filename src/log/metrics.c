/* metrics.jsonl. A line is put together by hand: cJSON would take longer for it than all else that a log does in a
 * step. */
#include "log/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* JSON has no NaN and no infinity: a diverged loss is null. */
static void add_number(FILE *f, const char *name, double value) {
    if (isfinite(value))
        fprintf(f, ",\"%s\":%.9g", name, value);
    else
        fprintf(f, ",\"%s\":null", name);
}

static void add_share(FILE *f, const double share[GS_PHASES]) {
    for (int p = 0; p < GS_PHASES; p++)
        fprintf(f, "%s\"%s\":%.4f", p == 0 ? ",\"share\":{" : ",", gs_phase_names[p], share[p]);
    fprintf(f, "}");
}

/* Each line goes to the system at once, so that a run that is killed leaves it. */
static gs_status end_line(FILE *f) {
    fputs("}\n", f);
    if (fflush(f) == 0 && !ferror(f)) return GS_OK;
    return gs_fail(GS_E_FILE, "cannot write metrics.jsonl: %s", strerror(errno));
}

gs_status gs_metrics_step(FILE *f, const gs_log_step *s) {
    fprintf(f, "{\"kind\":\"step\",\"step\":%" PRIu64 ",\"epoch\":%d", s->step, s->epoch);
    if (s->worker >= 0) fprintf(f, ",\"worker\":%d", s->worker);
    add_number(f, "time", s->time);
    add_number(f, "loss", s->loss);
    add_number(f, "accuracy", s->accuracy);
    add_number(f, "lr", s->lr);
    add_number(f, "samples_per_s", s->samples_per_s);
    if (!(s->gradient_norm < 0)) add_number(f, "gradient_norm", s->gradient_norm);
    if (s->loss_scale > 0) {
        add_number(f, "loss_scale", s->loss_scale);
        fprintf(f, ",\"skipped\":%" PRIu64, s->skipped);
    }
    if (s->has_share) add_share(f, s->share);
    return end_line(f);
}

gs_status gs_metrics_worker(FILE *f, int epoch, int worker, const gs_worker_report *r) {
    fprintf(f, "{\"kind\":\"worker\",\"epoch\":%d,\"worker\":%d", epoch, worker);
    add_number(f, "samples_per_s", r->samples_per_s);
    double sum = 0;
    for (int p = 0; p < GS_PHASES; p++) sum += r->share[p];
    if (sum > 0) add_share(f, r->share);
    return end_line(f);
}

gs_status gs_metrics_epoch(FILE *f, double time, const gs_epoch_report *r) {
    fprintf(f, "{\"kind\":\"epoch\",\"epoch\":%d,\"step\":%" PRIu64, r->epoch, r->steps);
    add_number(f, "time", time);
    add_number(f, "train_loss", r->train_loss);
    add_number(f, "train_accuracy", r->train_accuracy);
    add_number(f, "test_loss", r->test_loss);
    add_number(f, "test_accuracy", r->test_accuracy);
    add_number(f, "samples_per_s", r->samples_per_s);
    if (!isnan(r->gradient_norm)) add_number(f, "gradient_norm", r->gradient_norm);
    return end_line(f);
}

gs_status gs_metrics_open(const char *path, FILE **f) {
    *f = fopen(path, "axe");
    return *f ? GS_OK : gs_fail(GS_E_FILE, "cannot write %s: %s", path, strerror(errno));
}

gs_status gs_metrics_close(FILE *f) {
    gs_status status = GS_OK;
    if (fsync(fileno(f)) != 0) status = gs_fail(GS_E_FILE, "cannot write metrics.jsonl: %s", strerror(errno));
    fclose(f);
    return status;
}
