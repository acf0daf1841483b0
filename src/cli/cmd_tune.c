#include "cli/cli.h"

#include <cjson/cJSON.h>
#include <stdio.h>

#include "tune.h"

static const char *const cases[GS_TUNE_CASES] = {"x w^T", "dy w", "dy^T x", "conv2d"};
static const int sizes[2] = {512, 1024};

static void print_json(cJSON *o) {
    char *text = cJSON_PrintUnformatted(o);
    if (text) printf("%s\n", text);
    fflush(stdout);
    cJSON_free(text);
    cJSON_Delete(o);
}

static cJSON *json_of(const char *event, const gs_tune_row *r) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "event", event);
    cJSON_AddStringToObject(o, "tiles", r->tiles);
    cJSON_AddBoolToObject(o, "correct", r->correct);
    for (int i = 0; r->correct && i < GS_TUNE_CASES; i++) cJSON_AddNumberToObject(o, cases[i], r->gflops[i]);
    cJSON_AddNumberToObject(o, "score", r->score);
    if (*r->note) cJSON_AddStringToObject(o, "note", r->note);
    return o;
}

static void row_json(void *context, const gs_tune_row *r) {
    (void)context;
    print_json(json_of("candidate", r));
}

static void row_text(void *context, const gs_tune_row *r) {
    int *rows = context;
    if ((*rows)++ == 0) {
        printf("%-58s", "GFLOP/s of the tiles");
        for (int i = 0; i < GS_TUNE_CASES; i++) printf("%9s", cases[i]);
        printf("%9s\n", "score");
    }
    printf("%-58s", r->tiles);
    for (int i = 0; r->correct && i < GS_TUNE_CASES; i++) printf("%9.1f", r->gflops[i]);
    r->correct ? printf("%9.1f\n", r->score) : printf("  wrong: %s\n", r->note);
    fflush(stdout);
}

static void end_json(const gs_tune_result *r) {
    cJSON *o = json_of("end", &r->best);
    cJSON_AddStringToObject(o, "device", r->device);
    cJSON_AddNumberToObject(o, "candidates", r->candidates);
    cJSON_AddNumberToObject(o, "candidates_correct", r->correct);
    cJSON_AddNumberToObject(o, "peak_gflops", r->peak_gflops);
    cJSON_AddNumberToObject(o, "peak_gb_s", r->peak_gb_s);
    for (int i = 0; i < 2; i++) {
        char name[40];
        snprintf(name, sizeof name, "sgemm_%d_before", sizes[i]);
        cJSON_AddNumberToObject(o, name, r->sgemm_gflops[i][0]);
        snprintf(name, sizeof name, "sgemm_%d", sizes[i]);
        cJSON_AddNumberToObject(o, name, r->sgemm_gflops[i][1]);
    }
    cJSON_AddBoolToObject(o, "kept", r->kept);
    print_json(o);
}

static void end_text(const gs_tune_result *r) {
    printf("\n%s\n", r->device);
    printf("  peak, measured now    %9.1f GFLOP/s of multiply-adds, %.1f GB/s of y = a + 2 b\n",
           r->peak_gflops, r->peak_gb_s);
    for (int i = 0; i < 2; i++)
        printf("  sgemm %-4d            %9.1f GFLOP/s, %.0f %% of the peak (before: %.1f)\n", sizes[i],
               r->sgemm_gflops[i][1], 100 * r->sgemm_gflops[i][1] / r->peak_gflops, r->sgemm_gflops[i][0]);
    printf("  best of %d, %d correct: %s\n", r->candidates, r->correct, r->best.tiles);
    printf(r->kept ? "  kept, and used from now on (GRADSUM_CL_TILES overrides it)\n"
                   : "  not kept: there is no place for it; set GRADSUM_CL_TILES to it to use it\n");
}

int gs_cmd_tune(int argc, char **argv) {
    const char *device = "cl";
    double seconds = 60;
    bool json = false, help;
    int words, rows = 0;
    const gs_option options[] = {
        {"device", GS_OPTION_TEXT, &device, 0, 0, "NAME", "cl, cl:P.D, cl:P.D/KofN (gradsum devices)"},
        {"seconds", GS_OPTION_DOUBLE, &seconds, 0, 86400, "S", "how long to search (default 60)"},
        {"json", GS_OPTION_FLAG, &json, 0, 0, NULL, "one JSON object a line"},
        {0},
    };
    gs_status status = gs_options_parse(options, argc, argv, &words, &help);
    if (status == GS_OK && help) {
        gs_options_help("tune [options]",
                        "Search for the tiles with which an OpenCL device computes products and\n"
                        "convolutions fastest. The results of each candidate are compared with the cpu's.\n"
                        "The best is kept in the user's cache directory for this device and driver, and\n"
                        "used from then on. Nothing has to be tuned: there are defaults.",
                        "gradsum tune --device cl --seconds 30", options);
        return GS_EXIT_OK;
    }
    gs_tune_result result;
    if (status == GS_OK) status = gs_no_words(words, argv);
    if (status == GS_OK) status = gs_tune(device, seconds, json ? row_json : row_text, &rows, &result);
    if (status != GS_OK) return gs_failed("tune", status);
    json ? end_json(&result) : end_text(&result);
    return GS_EXIT_OK;
}
