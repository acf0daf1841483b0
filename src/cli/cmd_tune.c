#include "cli/cli.h"
#include "io/json.h"

#include <stdio.h>
#include <string.h>

#include "tune.h"

static const char *const cases[GS_TUNE_CASES] = {"x w^T", "dy w", "dy^T x", "conv2d"};
static const int sizes[2] = {512, 1024};

static cJSON *json_of(const char *event, const gs_tune_row *r) {
    cJSON *o = GS_JSON_OBJECT(GS_FIELD("event", event), GS_FIELD("tiles", r->tiles),
                              GS_FIELD("correct", r->correct));
    for (int i = 0; r->correct && i < GS_TUNE_CASES; i++) cJSON_AddNumberToObject(o, cases[i], r->gflops[i]);
    cJSON_AddNumberToObject(o, "score", r->score);
    if (*r->note) cJSON_AddStringToObject(o, "note", r->note);
    return o;
}

static bool row_json(void *context, const gs_tune_row *r) {
    (void)context;
    gs_json_print(json_of("candidate", r));
    return !gs_stop_requested;
}

/* "cpu vector=8 rows=6" as a head "cpu  vector  rows" or, with values, a row "         8     6". */
static void print_tiles(const char *tiles, bool head) {
    enum { COLUMNS = 38 };
    int used = 0;
    size_t kind = strcspn(tiles, " ");
    used += printf("%.*s", (int)kind, tiles);
    for (const char *word = tiles + kind; *word;) {
        word += strspn(word, " ");
        int name = (int)strcspn(word, "= "), all = (int)strcspn(word, " ");
        int width = (name > 4 ? name : 4) + 1, value = all - name - (all > name);
        used += head ? printf("%*.*s", width, name, word) : printf("%*.*s", width, value, word + all - value);
        word += all;
    }
    printf("%*s", used < COLUMNS ? COLUMNS - used : 0, "");
}

/* What kind of tiles the table's head is for, and whether there is one already. */
typedef struct shown {
    bool gpu, head;
} shown;

static bool row_text(void *context, const gs_tune_row *r) {
    shown *s = context;
    bool gpu = strncmp(r->tiles, "gpu", 3) == 0;
    if (!s->head || s->gpu != gpu) {
        print_tiles(r->tiles, true);
        for (int i = 0; i < GS_TUNE_CASES; i++) printf("%8s", cases[i]);
        printf("%8s\n", "score");
    }
    *s = (shown){gpu, true};
    print_tiles(r->tiles, false);
    for (int i = 0; r->correct && i < GS_TUNE_CASES; i++) printf("%8.1f", r->gflops[i]);
    if (r->correct) {
        printf("%8.1f\n", r->score);
    } else {
        printf("\n    wrong: ");
        gs_print_wrapped(11, r->note);
    }
    fflush(stdout);
    return !gs_stop_requested;
}

static void end_json(const gs_tune_result *r) {
    cJSON *o = json_of("end", &r->best);
    GS_JSON_ADD(o, GS_FIELD("device", r->device), GS_FIELD("candidates", r->candidates),
                GS_FIELD("candidates_correct", r->correct), GS_FIELD("peak_gflops", r->peak_gflops),
                GS_FIELD("peak_gb_s", r->peak_gb_s));
    for (int i = 0; i < 2; i++) {
        char name[40];
        snprintf(name, sizeof name, "sgemm_%d_before", sizes[i]);
        cJSON_AddNumberToObject(o, name, r->sgemm_gflops[i][0]);
        snprintf(name, sizeof name, "sgemm_%d", sizes[i]);
        cJSON_AddNumberToObject(o, name, r->sgemm_gflops[i][1]);
    }
    GS_JSON_ADD(o, GS_FIELD("tiles_before", r->before.tiles), GS_FIELD("score_before", r->before.score),
                GS_FIELD("faster", r->faster), GS_FIELD("kept", r->kept));
    gs_json_print(o);
}

static void end_text(const gs_tune_result *r) {
    printf("\n%s\n", r->device);
    printf("  peak, measured now    %9.1f GFLOP/s of multiply-adds, %.1f GB/s\n", r->peak_gflops,
           r->peak_gb_s);
    for (int i = 0; i < 2; i++)
        printf("  sgemm %-4d            %9.1f GFLOP/s, %.0f %% of the peak (before: %.1f)\n", sizes[i],
               r->sgemm_gflops[i][1], 100 * r->sgemm_gflops[i][1] / r->peak_gflops, r->sgemm_gflops[i][0]);
    printf("  score                 %9.1f GFLOP/s, mean of the four (before: %.1f)\n", r->best.score,
           r->before.score);
    printf("  in use until now      %s\n", r->before.tiles);
    printf("  best of %d, %d correct  %s\n", r->candidates, r->correct, r->best.tiles);
    if (strcmp(r->best.tiles, r->before.tiles) == 0)
        printf("  nothing changes: the tiles in use are the fastest tried\n");
    else if (!r->faster)
        printf("  not kept: measured alternately, it was not faster than the tiles in use\n");
    else
        printf(r->kept ? "  kept, and used from now on (GRADSUM_CL_TILES overrides it)\n"
                       : "  not kept: there is nowhere to store it; to use it, set GRADSUM_CL_TILES to it\n");
}

int gs_cmd_tune(int argc, char **argv) {
    const char *device = "cl";
    double seconds = 60;
    bool json = false;
    int exit_status;
    shown table = {0};
    const gs_option options[] = {
        {"device", GS_OPTION_TEXT, &device, 0, 0, "NAME", "cl, cl:P.D, cl:P.D/KofN (gradsum devices)"},
        {"seconds", GS_OPTION_DOUBLE, &seconds, 0, 86400, "S", "how long to search"},
        {"json", GS_OPTION_FLAG, &json, 0, 0, NULL, "one JSON object per line"},
        {0},
    };
    const gs_help help = {
        "tune [options]",
        "Search for the tiles that make an OpenCL device's products and "
        "convolutions\nfastest. The results of each candidate are compared with the cpu's.\n"
        "The best is then measured alternately with the tiles in use. If it is faster, it\n"
        "is kept in the user's cache directory for this device and driver, and used from\n"
        "then on. Tuning is optional. What was tuned is forgotten by\n"
        "  rm ~/.cache/gradsum/*.tiles\n"
        "or the *.tiles of $GRADSUM_CACHE or $XDG_CACHE_HOME/gradsum, if these are set.",
        "gradsum tune --device cl --seconds 30", NULL};
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    gs_tune_result result;
    gs_stop_on_signals();
    gs_status status = gs_tune(device, seconds, json ? row_json : row_text, &table, &result);
    if (status != GS_OK) return gs_exit_status("tune", status);
    json ? end_json(&result) : end_text(&result);
    return GS_EXIT_OK;
}
