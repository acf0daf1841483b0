/* The workers of a layout: which of them holds what, on which devices they are, and how a pipeline was cut. */
#include "cli/cli.h"
#include "train/layout/layout_plan.h"
#include "train/pipeline/cut.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 64, NAME = 48 };

static const char *share_text(int of, char text[16]) {
    snprintf(text, 16, of > 1 ? "1/%d" : "all", of);
    return text;
}

void gs_print_layout(const gs_worker *w) {
    const gs_settings *s = w->settings;
    const gs_model *plan = gs_model_whole(w->model);
    const int workers = w->comm->size;
    const gs_layout l = gs_layout_of(s, workers);
    char name[GS_LAYOUT_TEXT], weights[16], gradients[16], vectors[16];
    printf("layout   %s\n", gs_layout_text(&l, name));
    const bool both = l.pp > 1 && l.tp > 1;
    const int narrow = both ? 1 : 0; /* a column more, in 80 all the same */
    printf("%4s %-11s %5s%s %5s %s%-*s %*s %*s %9s %*s\n", "rank", "device",
           l.tp > 1 && !both ? "part" : "stage", both ? " part" : "", "repl.", both ? "" : " ", 10 - narrow,
           "layers", 11 - narrow, "parameters", 8 - narrow, "weights", "gradients", 8 - narrow, "vectors");
    for (int rank = 0; rank < workers && rank < ROWS; rank++) {
        gs_layout_share share;
        if (gs_layout_share_of(s, plan, workers, rank, &share) != GS_OK) return;
        char part[16] = "";
        if (both) snprintf(part, sizeof part, " %4d", share.place.part);
        printf("%4d %-11.11s %5d%s %5d %s%-*.*s %*s %*s %9s %*s\n", rank, w->devices[rank].device,
               l.tp > 1 && !both ? share.place.part : share.place.stage, part, share.place.replica,
               both ? "" : " ", 10 - narrow, 10 - narrow, share.layers, 11 - narrow,
               gs_thousands((double)share.params), 8 - narrow, share_text(share.weights, weights),
               share_text(share.gradients, gradients), 8 - narrow, share_text(share.vectors, vectors));
    }
    if (workers > ROWS) printf("  ... and %d more\n", workers - ROWS);
}

void gs_print_cut(const gs_settings *s, const gs_cut_report *cut) {
    double all = 0;
    gs_print_fact(
        "cut",
        "by what the layers took, for a micro-batch of %zu sample%s on worker 0; --pipeline-cut %s would cut "
        "the same",
        cut->samples, gs_s(cut->samples), s->pipeline_cut);
    for (int r = 0; r < cut->runs; r++) all += cut->forward[r] + cut->backward[r];
    printf("%5s  %-10s %10s %11s %8s\n", "stage", "layers", "forward ms", "backward ms", "of all");
    for (int r = 0; r < cut->runs && r < ROWS; r++) {
        char layers[24];
        const int first = cut->first[r], last = cut->first[r + 1] - 1;
        snprintf(layers, sizeof layers, first < last ? "%d-%d" : "%d", first, last);
        printf("%5d  %-10s %10.3f %11.3f %6.1f %%\n", r % s->pipeline, layers, 1e3 * cut->forward[r],
               1e3 * cut->backward[r], all > 0 ? 100 * (cut->forward[r] + cut->backward[r]) / all : 0);
    }
    if (cut->runs > ROWS) printf("  ... and %d more\n", cut->runs - ROWS);
}

/* ---- those that a command shows or measures: how many, and on which devices ---- */

static gs_status join_names(const gs_settings *s, int workers, int given, char *text, size_t size) {
    size_t used = 0;
    for (int i = 0; i < workers; i++) {
        char one[NAME];
        GS_TRY(gs_devices_name(s->devices, given > 1 ? i : 0, one));
        used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? "," : "", one);
    }
    return GS_OK;
}

gs_status gs_devices_for(const gs_settings *s, int workers, int most, char **list) {
    const int given = gs_devices_count(s->devices);
    const size_t size = (size_t)workers * NAME + 1;
    *list = NULL;
    if (workers > most)
        return gs_fail(GS_E_USAGE, "the layout has %d workers; wanted at most %d here", workers, most);
    if (given != 1 && given != workers)
        return gs_fail(GS_E_USAGE, "--devices names %d devices for %d worker%s; wanted one, or %d", given,
                       workers, gs_s((unsigned)workers), workers);
    char *text = calloc(1, size);
    if (!text) return gs_fail(GS_E_MEMORY, "no memory for the names of %d devices", workers);
    const gs_status status = join_names(s, workers, given, text, size);
    if (status == GS_OK)
        *list = text;
    else
        free(text);
    return status;
}

int gs_layout_workers(const gs_settings *s, int given) {
    const int named = gs_devices_count(s->devices), stages = s->pipeline > 1 ? s->pipeline : 1,
              parts = s->tensor > 1 ? s->tensor : 1;
    gs_layout l;
    if (given) return given;
    if (named > 1) return named;
    if (s->layout && gs_layout_read(s->layout, &l) == GS_OK) return l.dp * l.tp * l.pp;
    return stages * parts > 1 ? stages * parts : 2;
}

void gs_print_devices(const gs_worker *w) {
    const gs_device_report *d = w->devices;
    if (!d) gs_print_fact("", "%s: %s", w->device->name, w->device->description);
    for (int r = 0; d && r < w->comm->size; r++) {
        int first = 0;
        while (strcmp(d[first].device, d[r].device) != 0 ||
               strcmp(d[first].description, d[r].description) != 0)
            first++;
        if (first == r) gs_print_fact("", "%s: %s", d[r].device, d[r].description);
    }
}
