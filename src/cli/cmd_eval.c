#include "cli/cli.h"
#include "cli/draw/confusion.h"
#include "io/json.h"

#include <stdio.h>

static void print_result(const gs_settings *s, const gs_result *r, bool json) {
    if (!json) {
        printf("test accuracy %.2f %%", 100 * r->test_accuracy);
        /* Of 10 classes, 5 are half. */
        if (r->top_accuracy >= 0 && r->classes > 10)
            printf(", top-%d %.2f %%", GS_TOP, 100 * r->top_accuracy);
        printf(", loss %.6f, %d worker%s, %s samples/s\n", gs_shown(r->test_loss), r->workers,
               r->workers == 1 ? "" : "s", gs_thousands(r->samples_per_s));
        gs_screen screen = gs_screen_of(stdout);
        if (r->confusion) gs_confusion_print(stdout, &screen, r);
        return;
    }
    cJSON *o =
        GS_JSON_OBJECT(GS_FIELD("event", "end"), GS_FIELD("status", "done"), GS_FIELD("data", s->data),
                       GS_FIELD("workers", r->workers), GS_FIELD("test_accuracy", r->test_accuracy),
                       GS_FIELD("test_loss", r->test_loss), GS_FIELD("samples_per_s", r->samples_per_s));
    if (r->top_accuracy >= 0) cJSON_AddNumberToObject(o, "test_top5_accuracy", r->top_accuracy);
    if (r->confusion) gs_confusion_json(r, o);
    gs_json_print(o);
}

int gs_cmd_eval(int argc, char **argv) {
    gs_settings s = gs_settings_default();
    bool json = false;
    int exit_status;
    const gs_option own[] = {
        GS_RUN_OPTION("load", "the weights (safetensors)"),
        GS_RUN_OPTION("mean", GS_MEAN_HELP_OF_FILE),
        GS_RUN_OPTION("std", GS_STD_HELP_OF_FILE),
        GS_RUN_OPTION("confusion", NULL),
        GS_RUN_OPTION("keep-going", "show the result even if the loss is not finite"),
        {"json", GS_OPTION_FLAG, &json, 0, 0, NULL, "the result as a JSON object"},
        {0},
    };
    gs_rendezvous processes;
    gs_status status = gs_rendezvous_from_environment(&processes);
    if (status != GS_OK) return gs_failed("eval", status);
    s.timeout = processes.timeout; /* unless --timeout says otherwise */
    const gs_option *options = gs_run_options(&s, false, own);
    const gs_help help = {"eval --load FILE [options]",
                          "Print accuracy, top-5 accuracy (is the label among the 5 likeliest classes?) and\n"
                          "loss on the test set, which is split over the workers.\n"
                          "Inference needs no synchronisation except for the final count, and gives the\n"
                          "same result for any number of workers and threads.",
                          "gradsum eval --load lenet.safetensors --devices cpu,cpu", NULL};
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    if (!s.load)
        return gs_failed("eval", gs_fail(GS_E_USAGE, "--load FILE is required: the weights to evaluate"));
    s.processes = &processes;
    processes.timeout = s.timeout;

    gs_result result;
    status = gs_eval(&s, &result);
    if (status == GS_E_DIVERGED && processes.rank != 0) return GS_EXIT_FAILED; /* all know; rank 0 says it */
    if (status != GS_OK && json && processes.rank == 0) gs_json_failed(status, NULL);
    if (status != GS_OK) return gs_failed("eval", status);
    gs_tell_scaling("eval", &s);
    if (result.rank == 0) print_result(&s, &result, json);
    gs_result_free(&result);
    return GS_EXIT_OK;
}
