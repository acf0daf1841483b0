#include "cli/cli.h"

#include <cjson/cJSON.h>
#include <stdio.h>

static void print_result(const gs_settings *s, const gs_result *r, bool json) {
    if (!json) {
        printf("test accuracy %.2f %%, loss %.6f, %d worker%s, %s samples/s\n", 100 * r->test_accuracy,
               r->test_loss, r->workers, r->workers == 1 ? "" : "s", gs_thousands(r->samples_per_s));
        return;
    }
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "event", "end");
    cJSON_AddStringToObject(o, "data", s->data);
    cJSON_AddNumberToObject(o, "workers", r->workers);
    cJSON_AddNumberToObject(o, "test_accuracy", r->test_accuracy);
    cJSON_AddNumberToObject(o, "test_loss", r->test_loss);
    cJSON_AddNumberToObject(o, "samples_per_s", r->samples_per_s);
    char *text = cJSON_PrintUnformatted(o);
    if (text) printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(o);
}

int gs_cmd_eval(int argc, char **argv) {
    gs_settings s = gs_settings_default();
    bool json = false, help;
    int words;
    const gs_option own[] = {
        {"json", GS_OPTION_FLAG, &json, 0, 0, NULL, "the result as a JSON object"},
        {0},
    };
    gs_rendezvous processes;
    gs_status status = gs_rendezvous_from_environment(&processes);
    if (status != GS_OK) return gs_failed("eval", status);
    s.timeout = processes.timeout; /* unless --timeout says otherwise */
    const gs_option *options = gs_run_options(&s, false, own);
    status = gs_options_parse(options, argc, argv, &words, &help);
    if (status == GS_OK && help) {
        gs_options_help("eval --load FILE [options]",
                        "Accuracy and loss on the test set, which is split over the workers: inference\n"
                        "needs no synchronisation but the final count, and gives the same result for any\n"
                        "number of workers.",
                        "gradsum eval --load lenet.safetensors --devices cpu,cpu", options);
        return GS_EXIT_OK;
    }
    if (status == GS_OK) status = gs_no_words(words, argv);
    if (status == GS_OK && !s.load)
        status = gs_fail(GS_E_USAGE, "--load FILE is wanted: the weights to evaluate");
    if (status != GS_OK) return gs_failed("eval", status);
    s.processes = &processes;
    processes.timeout = s.timeout;

    gs_result result;
    status = gs_eval(&s, &result);
    if (status != GS_OK) return gs_failed("eval", status);
    if (result.rank == 0) print_result(&s, &result, json);
    gs_result_free(&result);
    return GS_EXIT_OK;
}
