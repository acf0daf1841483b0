#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/step/layout.h"
#include "cli/step/step.h"
#include "io/file.h"
#include "io/json.h"
#include "model/model_text.h"

enum { WORKERS_MOST = 64 }; /* a row for each in the table */

typedef struct wish {
    gs_settings settings;
    int workers; /* 0: as many as the layout needs */
    const char *out;
    bool json;
} wish;

bool gs_step_is_of_layout(int argc, char **argv) {
    static const char *const options[] = {"pipeline", "tensor", "zero", "layout"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (gs_option_is_given(options[i], argc, argv)) return true;
    return false;
}

/* What nobody said: texts for a language model, and a batch that is computed in a moment. In a pipeline the passes of
 * --accumulate are its micro-batches. */
static void fill_in(wish *w, int argc, char **argv) {
    gs_settings *s = &w->settings;
    if (!gs_option_is_given("data", argc, argv) && s->model && gs_model_is_language(s->model))
        s->data = "jargon";
    if (!gs_option_is_given("batch", argc, argv)) s->batch = 32;
    if (!gs_option_is_given("steps", argc, argv)) s->steps = 3;
    if (s->pipeline > 1 && s->accumulate > 1 && !s->micro_batches) {
        s->micro_batches = s->accumulate;
        s->accumulate = 0;
    }
}

static gs_status show(const wish *w, const gs_settings *s, int workers) {
    gs_step_layout step;
    gs_status status = gs_step_layout_create(s, workers, &step);
    if (status == GS_OK && w->json) {
        gs_json_print(gs_step_layout_json(&step));
    } else if (status == GS_OK && w->out) {
        status = gs_step_layout_page(&step, w->out);
        if (status == GS_OK) gs_print_line("%s: a step of %d workers; open it in a browser", w->out, workers);
    } else if (status == GS_OK) {
        gs_step_layout_show(&step);
    }
    gs_step_layout_free(&step);
    return status;
}

static gs_status answer(wish *w, int argc, char **argv) {
    char *devices = NULL;
    if (w->json && w->out) return gs_fail(GS_E_USAGE, "--json is for the terminal: -o writes a page");
    if (w->out) GS_TRY(gs_file_check_target(w->out, GS_FILE_PAGE));
    GS_TRY(gs_layout_settle(&w->settings));
    fill_in(w, argc, argv);
    const int workers = gs_layout_workers(&w->settings, w->workers);
    GS_TRY(gs_devices_for(&w->settings, workers, WORKERS_MOST, &devices));
    gs_settings s = w->settings;
    s.devices = devices;
    const gs_status status = show(w, &s, workers);
    free(devices);
    return status;
}

static const gs_option *options_of(wish *w) {
    static bool unused;
    const gs_option own[] = {
        GS_RUN_OPTION("micro-batches",
                      "with --pipeline: cut a pipeline's part of the batch into M (default 4 P; "
                      "--accumulate says the same here)"),
        GS_RUN_OPTION("steps", "the step that is shown (default 3): the first ones are slower"),
        GS_REFUSED("save", "step keeps no weights"),
        GS_REFUSED("epochs", "use --steps: step shows one"),
        {"workers", GS_OPTION_INT, &w->workers, 2, WORKERS_MOST, "N",
         "how many share the run (default: as many as the layout needs)"},
        {"no-pause", GS_OPTION_FLAG, &unused, 0, 0, NULL, "changes nothing here"},
        {"json", GS_OPTION_FLAG, &w->json, 0, 0, NULL, "one JSON object: all spans, in us"},
        {"out", GS_OPTION_TEXT, &w->out, 0, 0, "FILE", "a page (.html) instead"},
        {0},
    };
    return gs_run_options(&w->settings, GS_TRAINING | GS_LEARNING | GS_BY_STEP, own);
}

const gs_option *gs_step_layout_options(void) {
    static wish w;
    w = (wish){.settings = gs_settings_default()};
    return options_of(&w);
}

int gs_step_layout_command(int argc, char **argv) {
    wish w = {.settings = gs_settings_default()};
    int exit_status;
    const gs_option *options = options_of(&w);
    const gs_help help = {"step --pipeline P | --tensor T | --zero STAGE | --layout LIST [options of train]",
                          "Make a few steps of a run whose workers share the model, and show the last:\n"
                          "who computes which micro-batch when, which weights are where, what is sent,\n"
                          "with the bubble and the bytes beside the formulas. With -o as a page.",
                          "gradsum step --model gpt --pipeline 2 --micro-batches 4", NULL};
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    return gs_exit_status("step", answer(&w, argc, argv));
}
