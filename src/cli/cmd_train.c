#include "cli/cli.h"

#include <stdio.h>

/* What --log says, and the log while it is written: on rank 0 alone. */
typedef struct record {
    const char *folder; /* NULL: there is none */
    uint64_t every;
    gs_range trace; /* last == UINT64_MAX: it says nothing */
    gs_log *log;
} record;

enum { DEFAULT_TRACE_FIRST = 4, DEFAULT_TRACE_LAST = 7 };

static void tell_problem(void *context, const char *problem) {
    gs_progress_clear(context);
    fprintf(stderr, "gradsum train: %s\n", problem);
}

/* Put into the settings what is asked of the run, and begin the log. */
static gs_status begin_record(record *r, gs_settings *s, int argc, char **argv, const gs_observer *progress) {
    bool traced = r->trace.last != UINT64_MAX;
    if (!r->folder && r->every) return gs_fail(GS_E_USAGE, "--log-every wants --log DIR");
    if (!r->folder && traced) return gs_fail(GS_E_USAGE, "--trace-steps wants --log DIR");
    if (!r->folder) return GS_OK;
    s->record = s->measure = true;
    s->trace_first = traced ? r->trace.first : DEFAULT_TRACE_FIRST;
    s->trace_last = traced ? r->trace.last : DEFAULT_TRACE_LAST;
    if (s->processes->rank != 0) return GS_OK;
    gs_log_options options = {.folder = r->folder,
                              .every = r->every,
                              .argc = argc,
                              .argv = argv,
                              .next = progress,
                              .tell = tell_problem,
                              .context = progress->context};
    return gs_log_open(&options, &r->log);
}

/* Train, and finish the log; true if there was none to be written, or all of it was. */
static gs_status train(const gs_settings *s, record *r, const gs_observer *progress, gs_result *result,
                       bool *logged) {
    gs_observer observer = r->log ? gs_log_observer(r->log) : *progress;
    gs_status status = gs_train(s, &observer, result);
    if (r->log) gs_log_end(r->log, status, result);
    *logged = !r->log || !gs_log_failed(r->log);
    gs_log_free(r->log);
    return status;
}

int gs_cmd_train(int argc, char **argv) {
    gs_settings s = gs_settings_default();
    bool json = false, help;
    int words;
    record log = {.trace = {0, UINT64_MAX}};
    const gs_option own[] = {
        {"log", GS_OPTION_TEXT, &log.folder, 0, 0, "DIR", "write a record of the run into this new folder"},
        {"log-every", GS_OPTION_COUNT, &log.every, 1, 1e15, "N", "of the log: a line every N steps (1)"},
        {"trace-steps", GS_OPTION_RANGE, &log.trace, 0, 0, "A-B",
         "of the log: steps in its timeline (4-7), or none"},
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
                        "times the number of workers\" where the base batch is one worker's.\n"
                        "--log DIR leaves a record: run.json, metrics.jsonl, trace.json (for Perfetto),\n"
                        "and event files (for TensorBoard). Where it cannot be written to its end, the\n"
                        "training goes on, its weights are saved, and the exit status is 1.",
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
    bool logged;
    status = begin_record(&log, &s, argc, argv, &observer);
    if (status != GS_OK) return gs_failed("train", status);
    gs_stop_on_signals();
    status = train(&s, &log, &observer, &result, &logged);
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
    return interrupted || !logged ? GS_EXIT_FAILED : GS_EXIT_OK;
}
