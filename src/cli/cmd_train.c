#include "cli/cli.h"

#include <stdio.h>

int gs_cmd_train(int argc, char **argv) {
    gs_settings s = gs_settings_default();
    bool json = false, help;
    int words;
    const gs_option own[] = {
        {"json", GS_OPTION_FLAG, &json, 0, 0, NULL, "one JSON object a line on standard output"},
        {0},
    };
    gs_rendezvous processes;
    gs_status status = gs_rendezvous_from_environment(&processes);
    if (status != GS_OK) return gs_failed("train", status);
    s.timeout = processes.timeout; /* unless --timeout says otherwise */
    const gs_option *options = gs_run_options(&s, true, own);
    status = gs_options_parse(options, argc, argv, &words, &help);
    if (status == GS_OK && help) {
        gs_options_help("train [options]",
                        "Train a model, on one worker or on several. The learning rate can follow the\n"
                        "global batch: --lr-rule linear makes it lr x batch / base batch, which is \"lr\n"
                        "times the number of workers\" where the base batch is one worker's.",
                        "gradsum train --model lenet --devices cpu,cpu --epochs 3 --save lenet.safetensors",
                        options);
        return GS_EXIT_OK;
    }
    if (status == GS_OK) status = gs_no_words(words, argv);
    if (status != GS_OK) return gs_failed("train", status);
    s.processes = &processes;
    processes.timeout = s.timeout;
    s.measure = gs_devices_count(s.devices) > 1 || processes.size > 1; /* for a line for each worker */

    gs_progress progress = {.settings = &s, .json = json};
    gs_observer observer = gs_progress_observer(&progress);
    gs_result result;
    gs_stop_on_signals();
    status = gs_train(&s, &observer, &result);
    if (status != GS_OK) {
        gs_progress_clear(&progress);
        return gs_failed("train", status);
    }
    if (result.rank == 0) gs_progress_end(&progress, &result);
    bool interrupted = result.interrupted;
    if (interrupted && result.rank == 0)
        fprintf(stderr, "gradsum train: stopped by a signal after step %llu%s%s\n",
                (unsigned long long)result.steps, s.save ? "; its weights are in " : "",
                s.save ? s.save : "");
    gs_result_free(&result);
    return interrupted ? GS_EXIT_FAILED : GS_EXIT_OK;
}
