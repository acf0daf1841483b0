/* Which worker holds what, and how a pipeline was cut: the tables of `train` and `devices`. */
#include "cli/cli.h"
#include "train/layout/layout_plan.h"
#include "train/pipeline/cut.h"

#include <stdio.h>

enum { ROWS = 64 };

static const char *share_text(int of, char text[16]) {
    snprintf(text, 16, of > 1 ? "1/%d" : "all", of);
    return text;
}

void gs_print_layout(const gs_settings *s, const gs_model *plan, int workers,
                     const char *(*device)(const void *context, int rank), const void *context) {
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
        printf("%4d %-11.11s %5d%s %5d %s%-*.*s %*s %*s %9s %*s\n", rank, device(context, rank),
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
