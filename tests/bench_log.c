/* What train --log costs. Runs with a log and without take turns in this one process, so that both see the same
 * machine. A run's time is that from its first step to the end of its last epoch: steps, looks at the test set, and
 * whatever the log does there. The cost is the time that the log adds, as a share of the training: of the fastest run
 * with a log beside the fastest without, which other things on the machine have disturbed least, and the median over
 * the pairs of runs.
 *
 *     bench-log [PAIRS]      make bench-log
 *
 * A machine that does something else at the same time shows more or less than there is: compare the spread.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/median.h"
#include "gradsum.h"

enum { MOST_PAIRS = 1000 };

static double started, ended;

static void on_start(void *context, const gs_worker *w) {
    (void)context, (void)w;
    started = gs_seconds();
}

static void on_epoch(void *context, const gs_epoch_report *r) {
    (void)context, (void)r;
    ended = gs_seconds();
}

static void remove_log(const char *folder) {
    DIR *d = opendir(folder);
    char path[1024];
    for (const struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.') unlink(path);
    }
    if (d) closedir(d);
    rmdir(folder);
}

static void stop(void) {
    fprintf(stderr, "bench-log: %s\n", gs_message());
    exit(1);
}

static void tell(void *context, const char *problem) {
    (void)context;
    fprintf(stderr, "bench-log: %s\n", problem);
    exit(1);
}

/* Seconds of a run; *training: of its steps alone. */
static double run(gs_settings s, const char *folder, double *training) {
    gs_observer observer = {.start = on_start, .epoch = on_epoch};
    gs_log *log = NULL;
    gs_result result;
    if (folder) {
        char *command[] = {"train"};
        gs_log_options options = {
            .folder = folder, .argc = 1, .argv = command, .next = &observer, .tell = tell};
        s.record = s.measure = true;
        s.trace.first = 4, s.trace.last = 7;
        if (gs_log_open(&options, &log) != GS_OK) stop();
    }
    gs_observer all = folder ? gs_log_observer(log) : observer;
    gs_status status = gs_train(&s, &all, &result);
    if (status != GS_OK) stop();
    if (log) gs_log_end(log, status, &result);
    gs_log_free(log);
    if (folder) remove_log(folder);
    *training = (double)result.steps * (double)s.batch / result.samples_per_s;
    gs_result_free(&result);
    return ended - started;
}

static void measure(const char *model, const char *devices, int epochs, int pairs, const char *folder) {
    static double share[MOST_PAIRS], step[MOST_PAIRS];
    double training, unused, least_plain = 1e30, least_logged = 1e30, least_training = 1e30;
    gs_settings s = gs_settings_default();
    s.model = model;
    s.devices = devices;
    s.threads = 1;
    s.epochs = epochs;
    s.measure = gs_devices_count(devices) > 1; /* as train does without a log */
    run(s, NULL, &unused);                     /* warm */
    for (int i = 0; i < pairs; i++) {
        double plain, logged;
        if (i % 2) logged = run(s, folder, &unused);
        plain = run(s, NULL, &training);
        if (i % 2 == 0) logged = run(s, folder, &unused);
        share[i] = (logged - plain) / training;
        step[i] = training / (47.0 * epochs);
        if (plain < least_plain) least_plain = plain, least_training = training;
        if (logged < least_logged) least_logged = logged;
    }
    gs_sort_doubles(share, pairs);
    gs_sort_doubles(step, pairs);
    printf("%-6s %-8s %9.0f us %8.2f %% %9.0f us %8.2f %%   %6.2f to %.2f %%\n", model, devices,
           1e6 * least_training / (47.0 * epochs), 100 * (least_logged - least_plain) / least_training,
           1e6 * step[pairs / 2], 100 * share[pairs / 2], 100 * share[pairs / 4], 100 * share[3 * pairs / 4]);
    fflush(stdout);
}

int main(int argc, char **argv) {
    char folder[] = "/tmp/gradsum-bench-log-XXXXXX", log[sizeof folder + 8];
    int pairs = argc > 1 ? atoi(argv[1]) : 31;
    if (pairs < 1 || pairs > MOST_PAIRS || !mkdtemp(folder)) return 2;
    gs_cpu_choose_kernels(argv);
    gs_cl_choose_settings(true);
    snprintf(log, sizeof log, "%s/log", folder);
    printf("%-15s %23s  %23s   middle half of\n", "", "fastest runs", "median of pairs");
    printf("model  devices        a step       cost       a step       cost   %d pairs\n", pairs);
    measure("mlp", "cpu", 3, pairs, log);
    measure("mlp", "cpu,cpu", 3, pairs, log);
    measure("lenet", "cpu", 2, pairs, log);
    measure("lenet", "cpu,cpu", 2, pairs, log);
    gs_device *d;
    if (gs_device_open("cl:0.0", 0, &d) == GS_OK) {
        gs_device_close(d);
        measure("lenet", "cl:0.0", 2, pairs, log);
    }
    rmdir(folder);
    return 0;
}
