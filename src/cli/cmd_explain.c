#include "cli/cli.h"
#include "explain/explain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void print(const gs_digests *a, const gs_digests *b, const gs_difference *d, double tolerance) {
    const uint64_t first = a->first > b->first ? a->first : b->first;
    const uint64_t end_a = a->first + a->steps, end_b = b->first + b->steps,
                   end = end_a < end_b ? end_a : end_b;
    if (!d->found) {
        printf("steps %" PRIu64 " to %" PRIu64 ": no difference beyond rounding (%g of a tensor's norm)\n",
               first, end - 1, tolerance);
        return;
    }
    if (d->step > first) printf("steps %" PRIu64 " to %" PRIu64 ": no difference\n", first, d->step - 1);
    printf("step %" PRIu64 ": the first difference is in: %s%s%s\n", d->step, d->quantity,
           *d->where ? " of " : "", d->where);
    printf("  by     %.3g of what it should be\n", d->relative);
    printf("  ranks ");
    int seen = 0;
    for (int r = 0; r < a->workers; r++)
        if (d->rank[r] && ++seen) printf(" %d", r);
    printf("%s\n  cause  %s: %s\n", seen ? "" : " in their sum", d->cause, d->sentence);
}

static gs_status explain(const char *of_a, const char *of_b, double tolerance, bool *differ) {
    gs_digests a, b;
    gs_difference d;
    GS_TRY(gs_digests_read(of_a, &a));
    gs_status status = gs_digests_read(of_b, &b);
    if (status != GS_OK) {
        gs_digests_free(&a);
        return status;
    }
    status = gs_explain_check(&a, &b);
    if (status == GS_OK) {
        if (!(tolerance > 0)) tolerance = gs_explain_tolerance(&a, &b);
        gs_explain(&a, &b, tolerance, &d);
        print(&a, &b, &d, tolerance);
        *differ = d.found;
    }
    gs_digests_free(&a);
    gs_digests_free(&b);
    return status;
}

int gs_cmd_explain(int argc, char **argv) {
    double tolerance = 0;
    int words, exit_status;
    bool differ = false;
    const gs_option options[] = {
        {"tolerance", GS_OPTION_DOUBLE, &tolerance, 1e-9, 1, "X",
         "differences below this share of a tensor's norm are rounding (default 1e-4; more with 16 bits)"},
        {0}};
    const gs_help help = {"explain A B [options]",
                          "Where run A first differs from run B, which is right, and why. Both are folders\n"
                          "that gradsum train --digest has written, of the same training. What divides the\n"
                          "work may differ (workers, --zero, --pipeline, --accumulate, --sync). The exit\n"
                          "status is 1 where they differ.",
                          "gradsum explain two-workers one-worker", NULL};
    if (!gs_options_taken(options, &help, argc, argv, &words, &exit_status)) return exit_status;
    gs_status status =
        words == 2
            ? explain(argv[1], argv[2], tolerance, &differ)
            : gs_fail(GS_E_USAGE,
                      "wanted two folders of gradsum train --digest: the run, and the one that is right");
    if (status != GS_OK) return gs_failed("explain", status);
    return differ ? GS_EXIT_FAILED : GS_EXIT_OK;
}
