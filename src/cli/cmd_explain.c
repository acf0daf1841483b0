#include "cli/cli.h"
#include "explain/explain.h"

#include <inttypes.h>

static void print_difference(const gs_digests *a, const gs_difference *d) {
    printf("step %" PRIu64 ": the first difference is in: %s%s%s\n", d->step, d->quantity,
           *d->where ? " of " : "", d->where);
    if (d->relative > 0)
        printf("  by     %.3g of what it should be", d->relative);
    else
        printf("  by     less than a record's ten digits show");
    if (d->allowed > 0) printf(", more than the %.2g allowed for rounding", d->allowed);
    char ranks[3 * GS_DIGEST_RANKS + 1] = "", why[sizeof d->sentence + 100];
    for (int r = 0; r < a->workers; r++)
        if (d->rank[r]) gs_append(ranks, sizeof ranks, "%s%d", *ranks ? " " : "", r);
    snprintf(why, sizeof why, "%s: %s", d->cause, d->sentence);
    printf("\n  ranks  ");
    gs_print_wrapped(9, *ranks ? ranks : "in their sum");
    printf("  cause  ");
    gs_print_wrapped(9, why);
}

static void print(const gs_digests *a, const gs_digests *b, const gs_difference *d) {
    const bool exact = gs_digests_is_exact(a) && gs_digests_is_exact(b), diverged = d->diverged[0] > 0;
    const char *same = d->rounded ? "no difference beyond rounding" : "the same, to the bit";
    const gs_digests *cut = a->first + a->steps < b->first + b->steps ? a : b;
    const uint64_t last = a->last > b->last ? a->last : b->last;
    if (d->end > d->first)
        printf("steps %" PRIu64 " to %" PRIu64 ": %s\n", d->first, d->end - 1,
               d->found ? "no difference" : same);
    if (d->found) print_difference(a, d);
    if (diverged)
        printf("both runs diverged, A in step %" PRIu64 " and B in step %" PRIu64
               ": nothing after step %" PRIu64 " was compared\n",
               d->diverged[0], d->diverged[1], d->end);
    if (d->grown && !d->found)
        printf("  Rounding had grown by step %" PRIu64 ". From there on only samples, rates, counts,\n"
               "  sums and what updates hand on were compared.\n",
               d->grown);
    if (last >= d->end && !d->found && !diverged)
        printf("  Steps %" PRIu64 " to %" PRIu64
               " were not compared:\n  %s/rank-%d.digest ends with step %" PRIu64 "\n",
               d->end, last, cut->folder, cut->shortest, d->end - 1);
    if ((d->found || d->rounded) && !exact)
        printf("  These runs are compared up to rounding: train both with --exact to compare to\n"
               "  the bit.\n");
}

static gs_status explain(const char *of_a, const char *of_b, bool *differ) {
    gs_digests a = {0}, b = {0};
    gs_difference d;
    gs_status status = gs_digests_read(of_a, &a);
    if (status == GS_OK) status = gs_digests_read(of_b, &b);
    gs_show_activity(NULL, 0, "comparing %s with %s", of_a, of_b);
    if (status == GS_OK) status = gs_explain_check(&a, &b);
    if (status == GS_OK) {
        gs_explain(&a, &b, &d);
        gs_show_activity(NULL, 0, NULL);
        print(&a, &b, &d);
        *differ = d.found;
    }
    gs_digests_free(&a);
    gs_digests_free(&b);
    return status;
}

/* ---- the correct run, made here by one worker ---- */

static bool is_usual(const gs_run_option *o, const char *value) {
    const gs_settings usual = gs_settings_default();
    char room[GS_OPTION_TEXT_MOST];
    const char *text = gs_run_option_text(o, &usual, room);
    return strcmp(text ? text : "", value) == 0;
}

static bool has_batch_norm(const gs_digests *a) {
    for (int l = 0; l < a->layers; l++)
        if (strcmp(a->layer[l].op, "batch_norm") == 0) return true;
    return false;
}

static gs_status take_settings(const gs_digests *a, const gs_option *options) {
    if (a->first != 1)
        return gs_fail(GS_E_USAGE, "%s begins at step %" PRIu64 "; wanted a second folder, of the right run",
                       a->folder, a->first);
    if (has_batch_norm(a) && strcmp(gs_digests_option(a, "batch-norm"), "local") == 0)
        return gs_fail(
            GS_E_USAGE,
            "%s has --batch-norm local, which follows the workers; wanted global, ghost:G or a second folder",
            a->folder);
    for (size_t i = 0; i < GS_DIGESTS_DECIDING; i++) {
        const char *name = gs_digests_deciding[i], *value = gs_digests_option(a, name);
        const gs_run_option *o = gs_run_option_named(name);
        const bool unused =
            strcmp(name, "base-batch") == 0 && strcmp(gs_digests_option(a, "lr-rule"), "none") == 0;
        if (!*value || unused || is_usual(o, value)) continue;
        GS_TRY(gs_context(gs_option_set(options, name, value), "%s", a->folder));
    }
    return GS_OK;
}

static gs_status train_one_worker(const gs_digests *a, const char *folder) {
    gs_settings s = gs_settings_default();
    gs_shown_run now = {
        .work.tells = true, .settings = &s, .what = "one worker makes the run again", .runs = 1};
    gs_result result = {0};
    const gs_option none[] = {{0}};
    GS_TRY(take_settings(a, gs_run_options(&s, GS_TRAINING | GS_LEARNING, none)));
    s.digest = folder;
    gs_show_activity(NULL, 0, "%s", now.what);
    const gs_observer observer = {.context = &now, .step = gs_show_run};
    gs_status status = gs_train(&s, &observer, &result);
    gs_show_activity(NULL, 0, NULL);
    if (status == GS_E_DIVERGED) status = GS_OK; /* its steps up to the divergence can be compared */
    gs_context(status, "one worker, with the settings of %s", a->folder);
    if (status == GS_OK && result.interrupted)
        status = gs_fail(GS_E_INTERRUPTED, "the run of one worker was stopped by a signal after step %llu",
                         (unsigned long long)result.steps);
    gs_result_free(&result);
    return status;
}

static gs_status explain_alone(const char *of_a, bool *differ) {
    char folder[400] = "";
    gs_digests a = {0};
    gs_stop_on_signals(); /* so that the folder is removed even after a signal */
    gs_status status = gs_digests_read(of_a, &a);
    if (status == GS_OK) status = gs_temporary_folder("gradsum-explain-XXXXXX", folder, sizeof folder);
    if (status == GS_OK) status = train_one_worker(&a, folder);
    gs_digests_free(&a);
    if (status == GS_OK) status = explain(of_a, folder, differ);
    if (*folder) gs_file_remove_folder(folder);
    return status;
}

int gs_cmd_explain(int argc, char **argv) {
    int words, exit_status;
    bool differ = false;
    const gs_option options[] = {{0}};
    const gs_help help = {"explain A [B]",
                          "Say where run A first differs from run B, and why. B is taken as right. Both are\n"
                          "records of one training, from gradsum train --digest DIR. Only the division of\n"
                          "the work may differ: workers, --zero, --pipeline, --tensor, --sync.\n"
                          "Without B one worker repeats the run with the settings of A.\n"
                          "Runs with --exact are compared to the bit, others up to rounding.\n"
                          "The exit status is 0 if the two agree, and 1 if they differ.",
                          "gradsum explain two-workers one-worker", NULL};
    if (!gs_options_taken(options, &help, argc, argv, &words, &exit_status)) return exit_status;
    gs_status status =
        words == 2 ? explain(argv[1], argv[2], &differ)
        : words == 1
            ? explain_alone(argv[1], &differ)
            : gs_fail(GS_E_USAGE,
                      "wanted one or two folders of gradsum train --digest: the run, and the right one");
    if (status != GS_OK) return gs_exit_status("explain", status);
    return differ ? GS_EXIT_FAILED : GS_EXIT_OK;
}
