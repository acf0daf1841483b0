#include "cli/cli.h"
#include "cli/launch/shared.h"
#include "log/log.h"
#include "persist/snapshots.h"
#include "train/settings.h"

/* The state of --log; only rank 0 writes the log. */
typedef struct record {
    const char *folder; /* NULL: no log */
    uint64_t every;
    gs_log *log;
} record;

static const gs_step_range TRACE_DEFAULT = {4, 7}, TRACE_UNSAID = {0, UINT64_MAX};

/* Apply the log's options to the settings, and begin the log. */
static gs_status begin_record(record *r, gs_settings *s, int argc, char **argv, const gs_observer *progress) {
    bool traced = s->trace.last != TRACE_UNSAID.last;
    if (!r->folder && r->every) return gs_fail(GS_E_USAGE, "--log-every needs --log DIR");
    if (!r->folder && traced) return gs_fail(GS_E_USAGE, "--trace-steps needs --log DIR");
    if (!traced) s->trace = r->folder ? TRACE_DEFAULT : (gs_step_range){0};
    if (!r->folder) return GS_OK;
    s->record = s->measure = true;
    if (s->processes->rank != 0) return GS_OK;
    gs_log_options options = {
        .folder = r->folder, .every = r->every, .argc = argc, .argv = argv, .next = progress};
    return gs_log_open(&options, &r->log);
}

/* Train and finish the log; in an elastic launch, train through all its generations (launch/elastic.c). *logged: the
 * log is complete, or there is none. *let_go: the other processes continue without this one. */
static gs_status train(gs_settings *s, record *r, const gs_observer *progress, gs_result *result,
                       bool *logged, bool *let_go) {
    static gs_rendezvous processes; /* static: messages after the run use it as well */
    const gs_observer observer = r->log ? gs_log_observer(r->log) : *progress;
    gs_launch_answer answer = GS_LAUNCH_GOES_ON;
    gs_status status;
    if (gs_launch_generation() > 0) {
        GS_TRY(gs_snapshots_create(&s->snapshots));
        processes = *s->processes;
        s->processes = &processes;
        s->regrouped = gs_launch_generation() > 1;
    }
    while ((status = gs_train(s, &observer, result)) == GS_E_PEER && s->snapshots &&
           (answer = gs_launch_next_generation(&processes, s->exact)) == GS_LAUNCH_GOES_ON) {
        s->regrouped = true;
        gs_result_free(result);
    }
    *let_go = answer == GS_LAUNCH_LETS_GO;
    gs_snapshots_free(s->snapshots);
    s->snapshots = NULL;
    *logged = !r->log || gs_log_end(r->log, status, result);
    gs_log_free(r->log);
    return status;
}

/* If every rank detects the failure by itself, only rank 0 reports it. */
static int fail(gs_progress *p, gs_status status, const gs_result *r) {
    bool first = p->settings->processes->rank == 0;
    if (status == GS_E_DIVERGED && !first) return GS_EXIT_FAILED;
    if (p->json && first) gs_json_failed(status, r);
    return gs_exit_status("train", status);
}

/* Report the finished training, then the error that prevented saving. */
static int not_saved(gs_progress *p, gs_status status, gs_result *r) {
    gs_error error = {0};
    gs_error_keep(&error, status);
    p->failure = error.message;
    if (r->rank == 0) gs_progress_end(p, r);
    p->failure = NULL;
    gs_result_free(r);
    return gs_exit_status("train", gs_error_again(&error));
}

static void tell_stopped(const gs_settings *s, const gs_result *r) {
    const bool kept = r->checkpoints.on && !r->checkpoints.lost;
    gs_tell("train", "stopped by %s after step %llu%s%s%s%s",
            gs_stop_requested == SIGPIPE ? "the closing of its output" : "a signal",
            (unsigned long long)r->steps,
            !s->save        ? ""
            : s->save_state ? "; its weights and state are in "
                            : "; its weights are in ",
            s->save ? s->save : "", kept ? "; go on with --resume " : "", kept ? s->checkpoint : "");
}

static int run(gs_settings *s, record *log, gs_progress *progress, int argc, char **argv) {
    gs_observer observer = gs_progress_observer(progress);
    gs_result result = {0};
    bool logged = true, let_go = false, said;
    s->record = log->folder != NULL;
    gs_status status = gs_launch_generation() > 0 ? gs_snapshots_check(s) : GS_OK;
    if (status == GS_OK) status = begin_record(log, s, argc, argv, &observer);
    if (status != GS_OK) return fail(progress, status, &result);
    gs_stop_on_signals();
    gs_checkpoint_on_signal();
    if (progress->bar && s->processes->rank == 0)
        gs_show_activity(NULL, 0, "preparing the run%s",
                         s->pipeline > 1 ? ": the times of its layers say where the pipeline is cut" : "");
    status = train(s, log, &observer, &result, &logged, &let_go);
    if (let_go) return GS_EXIT_OK;
    if (status != GS_OK && result.weights) return not_saved(progress, status, &result);
    if (status != GS_OK) return fail(progress, status, &result);
    if (result.rank == 0) gs_progress_end(progress, &result);
    gs_tell_skipped("train", &result);
    if (result.interrupted && result.rank == 0) tell_stopped(s, &result);
    if (result.interrupted && !gs_stop_requested)
        gs_launch_report_failure(GS_E_INTERRUPTED, "stopped by a signal that another rank received", &said);
    const bool failed = result.interrupted || !logged || result.checkpoints.lost || result.digest_lost;
    gs_result_free(&result);
    return failed ? GS_EXIT_FAILED : GS_EXIT_OK;
}

int gs_cmd_train(int argc, char **argv) {
    gs_settings s = gs_settings_default();
    bool json = false;
    int exit_status;
    record log = {0};
    const gs_option own[] = {
        {"log", GS_OPTION_TEXT, &log.folder, 0, 0, "DIR", "write a record of the run to this new folder"},
        {"log-every", GS_OPTION_COUNT, &log.every, 1, 1e15, "N",
         "one line of the log every N steps (default 1)"},
        {"json", GS_OPTION_FLAG, &json, 0, 0, NULL, "one JSON object per line on standard output"},
        {0},
    };
    gs_rendezvous processes;
    gs_status status = gs_rendezvous_from_environment(&processes);
    if (status != GS_OK) return gs_exit_status("train", status);
    processes.tell = gs_tell_sentence;
    processes.met = gs_launch_note_joined;
    s.timeout = processes.timeout; /* unless --timeout says otherwise */
    s.trace = TRACE_UNSAID;
    const gs_option *options = gs_run_options(&s, GS_TRAINING | GS_LEARNING | GS_BY_TRAIN, own);
    const gs_help help = {
        "train [options]",
        "Train a model on one worker or several, which sum their gradients each step.\n"
        "--log DIR leaves run.json, metrics.jsonl, trace.json (for Perfetto) and event\n"
        "files (for TensorBoard). If that fails, training goes on, and the exit status is\n1. "
        "--json prints one \"event\" per line: start, an epoch for each, end, with a\n"
        "\"status\": done, interrupted, diverged or failed, and then a \"message\".",
        "gradsum train --model lenet --devices cpu,cpu --save lenet.safetensors", NULL};
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    if (s.names != GS_NAMES_OWN && !s.save)
        status = gs_fail(GS_E_USAGE, "--names says how --save names the weights: it needs --save");
    else if (s.keep.best && !s.save)
        status = gs_fail(GS_E_USAGE, "--keep best needs --save FILE, to save the weights in");
    s.plans = true;
    s.processes = &processes;
    if (status == GS_OK) status = gs_memory_limit(&s);
    processes.timeout = s.timeout;
    /* For the table of workers and for --json. Measuring a single cpu worker is free: it never waits for a device. */
    s.measure = gs_devices_count(s.devices) > 1 || processes.size > 1 || strcmp(s.devices, "cpu") == 0;

    gs_progress progress = {.settings = &s, .json = json};
    gs_resumed_run taken = {0};
    if (status == GS_OK) status = gs_find_resumed_run(&s, options, argc, argv, &taken);
    if (status == GS_OK) status = gs_layout_settle(&s);
    if (status != GS_OK)
        exit_status = gs_exit_status("train", status);
    else
        exit_status = run(&s, &log, &progress, argc, argv);
    gs_resumed_run_free(&taken);
    return exit_status;
}
