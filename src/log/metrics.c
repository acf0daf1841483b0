/* metrics.jsonl. A line is put together by hand: cJSON would take longer for it than all else that a log does in a
 * step. */
#include "log/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <inttypes.h>

#include <math.h>
#include <string.h>
#include <unistd.h>

typedef struct line {
    char text[1024];
    size_t used;
} line;

static void add(line *l, const char *format, ...) GS_PRINTF(2, 3);
static void add(line *l, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(l->text + l->used, sizeof l->text - l->used, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof l->text - l->used) gs_bug("metrics.jsonl: a line of %zu bytes", l->used);
    l->used += (size_t)n;
}

/* JSON has no NaN and no infinity: a diverged loss is null. */
static void add_number(line *l, const char *name, double value) {
    if (isfinite(value))
        add(l, ",\"%s\":%.9g", name, value);
    else
        add(l, ",\"%s\":null", name);
}

static void add_share(line *l, const double share[GS_PHASES]) {
    for (int p = 0; p < GS_PHASES; p++)
        add(l, "%s\"%s\":%.4f", p == 0 ? ",\"share\":{" : ",", gs_phase_names[p], share[p]);
    add(l, "}");
}

static gs_status write_line(int fd, line *l) {
    add(l, "}\n");
    for (size_t done = 0; done < l->used;) {
        ssize_t n = write(fd, l->text + done, l->used - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return gs_fail(GS_E_FILE, "cannot write metrics.jsonl: %s", strerror(n < 0 ? errno : EIO));
        done += (size_t)n;
    }
    return GS_OK;
}

gs_status gs_metrics_step(int fd, const gs_log_step *s) {
    line l = {.used = 0};
    add(&l, "{\"kind\":\"step\",\"step\":%" PRIu64 ",\"epoch\":%d", s->step, s->epoch);
    if (s->worker >= 0) add(&l, ",\"worker\":%d", s->worker);
    add_number(&l, "time", s->time);
    add_number(&l, "loss", s->loss);
    add_number(&l, "accuracy", s->accuracy);
    add_number(&l, "lr", s->lr);
    add_number(&l, "samples_per_s", s->samples_per_s);
    if (s->has_share) add_share(&l, s->share);
    return write_line(fd, &l);
}

gs_status gs_metrics_worker(int fd, int epoch, int worker, const gs_worker_report *r) {
    line l = {.used = 0};
    add(&l, "{\"kind\":\"worker\",\"epoch\":%d,\"worker\":%d", epoch, worker);
    add_number(&l, "samples_per_s", r->samples_per_s);
    double sum = 0;
    for (int p = 0; p < GS_PHASES; p++) sum += r->share[p];
    if (sum > 0) add_share(&l, r->share);
    return write_line(fd, &l);
}

gs_status gs_metrics_epoch(int fd, const gs_log_epoch *e) {
    const gs_epoch_report *r = e->report;
    line l = {.used = 0};
    add(&l, "{\"kind\":\"epoch\",\"epoch\":%d,\"step\":%" PRIu64, r->epoch, r->steps);
    add_number(&l, "time", e->time);
    add_number(&l, "train_loss", r->train_loss);
    add_number(&l, "train_accuracy", r->train_accuracy);
    add_number(&l, "test_loss", r->test_loss);
    add_number(&l, "test_accuracy", r->test_accuracy);
    add_number(&l, "samples_per_s", r->samples_per_s);
    return write_line(fd, &l);
}

gs_status gs_metrics_open(const char *path, int *fd) {
    *fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    return *fd >= 0 ? GS_OK : gs_fail(GS_E_FILE, "cannot write %s: %s", path, strerror(errno));
}

gs_status gs_metrics_close(int fd) {
    if (fd < 0) return GS_OK;
    gs_status status = GS_OK;
    if (fsync(fd) != 0) status = gs_fail(GS_E_FILE, "cannot write metrics.jsonl: %s", strerror(errno));
    close(fd);
    return status;
}
