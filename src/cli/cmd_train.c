#include "cli/cli.h"
#include "cli/launch/shared.h"
#include "io/json.h"
#include "train/checkpoint/folder.h"
#include "train/elastic/carry.h"
#include "train/internal.h"
#include "train/memory/memory.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What --log says, and the log while it is written: on rank 0 alone. */
typedef struct record {
    const char *folder; /* NULL: there is none */
    uint64_t every;
    gs_log *log;
} record;

static const gs_step_range TRACE_DEFAULT = {4, 7}, TRACE_UNSAID = {0, UINT64_MAX};

static void tell_problem(void *context, const char *problem) {
    (void)context;
    gs_tell("train", "%s", problem);
}

/* Put into the settings what is asked of the run, and begin the log. */
static gs_status begin_record(record *r, gs_settings *s, int argc, char **argv, const gs_observer *progress) {
    bool traced = s->trace.last != TRACE_UNSAID.last;
    if (!r->folder && r->every) return gs_fail(GS_E_USAGE, "--log-every needs --log DIR");
    if (!r->folder && traced) return gs_fail(GS_E_USAGE, "--trace-steps needs --log DIR");
    if (!traced) s->trace = r->folder ? TRACE_DEFAULT : (gs_step_range){0};
    if (!r->folder) return GS_OK;
    s->record = s->measure = true;
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

/* Train, in an elastic launch from generation to generation (launch/elastic.c), and finish the log. *let_go: the others
 * go on without this process; *logged: there was no log to be written, or all of it was. */
static gs_status train(gs_settings *s, record *r, const gs_observer *progress, gs_result *result,
                       bool *logged, bool *let_go) {
    static gs_rendezvous processes; /* what is said after the run asks for it too */
    const gs_observer observer = r->log ? gs_log_observer(r->log) : *progress;
    gs_launch_answer answer = GS_LAUNCH_GOES_ON;
    gs_status status;
    if (gs_launch_generation() > 0) {
        GS_TRY(gs_carry_create(&s->carry));
        processes = *s->processes;
        s->processes = &processes;
        s->regrouped = gs_launch_generation() > 1;
    }
    while ((status = gs_train(s, &observer, result)) == GS_E_PEER && s->carry &&
           (answer = gs_launch_next(&processes, s->exact)) == GS_LAUNCH_GOES_ON) {
        s->regrouped = true;
        gs_result_free(result);
    }
    *let_go = answer == GS_LAUNCH_LETS_GO;
    gs_carry_free(s->carry);
    s->carry = NULL;
    if (r->log) gs_log_end(r->log, status, result);
    *logged = !r->log || !gs_log_failed(r->log);
    gs_log_free(r->log);
    return status;
}

/* Where all know, rank 0 says it. */
static int fail(gs_progress *p, gs_status status, const gs_result *r) {
    bool first = p->settings->processes->rank == 0;
    if (status == GS_E_DIVERGED && !first) return GS_EXIT_FAILED;
    if (p->json && first) gs_json_failed(status, r);
    return gs_exit_status("train", status);
}

/* The training is done, and is told; then the error. */
static int not_saved(gs_progress *p, gs_status status, gs_result *r) {
    gs_error error = {0};
    gs_error_keep(&error, status);
    p->failure = error.message;
    if (r->rank == 0) gs_progress_end(p, r);
    p->failure = NULL;
    gs_result_free(r);
    return gs_exit_status("train", gs_error_again(&error));
}

/* ---- --resume ---- */

/* Where the second is given, the first is not taken from the file: the two say the same, or do not go together. */
static const struct {
    const char *option, *replaced_by;
} replaced[] = {{"steps", "epochs"},       {"every", "sync"},          {"final-lr", "schedule"},
                {"base-batch", "lr-rule"}, {"warmup", "warmup-steps"}, {"warmup-steps", "warmup"},
                {"zero", "layout"},        {"pipeline", "layout"},     {"tensor", "layout"},
                {"zero", "tensor"},        {"pipeline", "tensor"},     {"tensor", "zero"},
                {"tensor", "pipeline"}};

static bool is_replaced(const char *option, int argc, char **argv) {
    for (size_t i = 0; i < sizeof replaced / sizeof *replaced; i++)
        if (strcmp(replaced[i].option, option) == 0 &&
            gs_option_is_given(replaced[i].replaced_by, argc, argv))
            return true;
    return false;
}

/* Does it say how a pipeline or a tensor group works, and there is none? The table has these two first. */
static bool is_without_use(const char *option, const gs_settings *s) {
    gs_layout l = {.tp = s->tensor, .pp = s->pipeline};
    const bool of_group = strcmp(option, "sequence") == 0;
    if (!of_group && strcmp(option, "pipeline-schedule") != 0 && strcmp(option, "micro-batches") != 0)
        return false;
    return (s->layout && gs_layout_read(s->layout, &l) != GS_OK) || (of_group ? l.tp : l.pp) <= 1;
}

/* The options of the run that is resumed, where no others are given. Their texts belong to the state. */
static gs_status take_up_options(const gs_state *state, const gs_settings *s, const gs_option *options,
                                 int argc, char **argv) {
    for (const gs_run_option *o = gs_run_table; o->name; o++) {
        const char *kept = gs_state_option(state, o->name);
        bool given = gs_option_is_given(o->name, argc, argv);
        if (given) GS_TRY(gs_state_check_option(s->resume, state, o, s));
        if (given || !kept || o->resume == GS_RESUME_FREE || is_replaced(o->name, argc, argv) ||
            is_without_use(o->name, s))
            continue;
        GS_TRY(gs_context(gs_option_set(options, o->name, kept), "%s", s->resume));
    }
    return GS_OK;
}

/* What take_up finds, and settings point into. */
typedef struct taken_up {
    gs_state *state;
    char *file;         /* in the folder of --resume */
    gs_comm *processes; /* that have agreed on it; NULL: none, or the run has taken them */
    bool automatic;     /* --resume auto */
} taken_up;

/* A folder's newest checkpoint that is whole. With --resume auto, or --checkpoint of the same folder, a new run begins
 * where there is none: so a job script has the same command for the first time and for all others. */
static gs_status find_checkpoint(gs_settings *s, taken_up *t) {
    char note[GS_CHECKPOINT_NOTE] = "";
    const bool first = s->processes->rank == 0;
    const bool same = s->checkpoint && strcmp(s->resume, s->checkpoint) == 0;
    if (same && gs_checkpoint_is_empty(s->resume)) {
        if (first) gs_tell("train", "there is no checkpoint in %s yet: a new run begins", s->resume);
        s->resume = NULL;
        return GS_OK;
    }
    if (!gs_checkpoint_is_folder(s->resume)) return gs_checkpoint_check_file(s->resume);
    const gs_status status = gs_checkpoint_find(s->resume, &t->file, note);
    if (status == GS_E_FORMAT && t->automatic) {
        if (first) gs_tell("train", "%s: a new run begins", gs_message());
        s->resume = NULL;
        return GS_OK;
    }
    GS_TRY(gs_context(status, "--resume"));
    if (first && *note) gs_tell("train", "%s", note);
    s->resume = t->file;
    return GS_OK;
}

/* --load begins a run; --resume auto may go on with one. */
static gs_status read_checkpoint(gs_settings *s, const gs_option *options, int argc, char **argv,
                                 taken_up *t) {
    if (!s->resume) return GS_OK;
    if (t->automatic) s->load = NULL;
    GS_TRY(gs_state_read(s->resume, &t->state));
    return take_up_options(t->state, s, options, argc, argv);
}

/* Another run may write there, and not all machines see a new file at once. So all ranks take the checkpoint that rank
 * 0 has found. given: the settings before a file was read. */
static gs_status follow_rank_0(gs_settings *s, const gs_settings *given, const gs_option *options, int argc,
                               char **argv, taken_up *t) {
    const int64_t own = s->resume ? (int64_t)gs_checkpoint_step(s->resume) : 0;
    int64_t step = own;
    GS_TRY(gs_connect_processes(s, "train", &step, &t->processes));
    s->connected = &t->processes;
    if (step == own || step < 0) return GS_OK;
    gs_state_free(t->state);
    free(t->file);
    t->state = NULL;
    t->file = NULL;
    *s = *given;
    s->connected = &t->processes;
    if (step > 0)
        GS_TRY(gs_context(gs_checkpoint_find_step(given->resume, (uint64_t)step, &t->file), "--resume"));
    s->resume = t->file;
    return read_checkpoint(s, options, argc, argv, t);
}

static gs_status take_up(gs_settings *s, const gs_option *options, int argc, char **argv, taken_up *t) {
    t->automatic = strcmp(s->resume, "auto") == 0;
    if (t->automatic && !s->checkpoint)
        return gs_fail(GS_E_USAGE,
                       "--resume auto goes on from the newest checkpoint in the folder of --checkpoint; add "
                       "--checkpoint DIR");
    if (t->automatic) s->resume = s->checkpoint;
    const gs_settings given = *s;
    GS_TRY(find_checkpoint(s, t));
    const bool chosen = t->file || !s->resume;
    GS_TRY(read_checkpoint(s, options, argc, argv, t));
    if (!chosen || s->processes->size == 1 || gs_launch_generation() > 0) return GS_OK;
    return follow_rank_0(s, &given, options, argc, argv, t);
}

/* ---- the command ---- */

static int run(gs_settings *s, record *log, gs_progress *progress, int argc, char **argv);

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
    processes.met = gs_launch_has_met;
    s.timeout = processes.timeout; /* unless --timeout says otherwise */
    s.trace = TRACE_UNSAID;
    const gs_option *options = gs_run_options(&s, GS_TRAINING | GS_LEARNING | GS_BY_TRAIN, own);
    const gs_help help = {
        "train [options]",
        "Train a model on one worker or several. The learning rate can follow the\n"
        "global batch: --lr-rule linear makes it lr x batch / base batch, which is \"lr\n"
        "times the number of workers\" if the base batch is that of one worker. Over the\n"
        "run it can rise in a --warmup and fall by a --schedule.\n"
        "--log DIR leaves a record: run.json, metrics.jsonl, trace.json (for Perfetto)\n"
        "and event files (for TensorBoard). If the record cannot be completed, training\n"
        "goes on, the weights are saved, and the exit status is 1.\n"
        "--json prints one \"event\" per line: start, an epoch for each, end. The last has\na "
        "\"status\": done, interrupted, diverged or failed. If the run failed, it has the\n"
        "\"steps\" done and a \"message\", but no results.",
        "gradsum train --model lenet --devices cpu,cpu --save lenet.safetensors", NULL};
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    if (s.names != GS_NAMES_OWN && !s.save)
        return gs_exit_status(
            "train", gs_fail(GS_E_USAGE, "--names says how --save names the weights: it needs --save"));
    if (s.keep.best && !s.save)
        return gs_exit_status("train",
                              gs_fail(GS_E_USAGE, "--keep best needs --save FILE, to save the weights in"));
    s.plans = true;
    s.processes = &processes;
    if (gs_memory_limit(&s) != GS_OK) return gs_exit_status("train", GS_E_USAGE);
    processes.timeout = s.timeout;
    /* For a line for each worker, and for --json; one cpu worker has nothing to wait for after a phase. */
    s.measure = gs_devices_count(s.devices) > 1 || processes.size > 1 || strcmp(s.devices, "cpu") == 0;

    gs_progress progress = {.settings = &s, .json = json, .tells_scaling = "train"};
    taken_up taken = {0};
    if (s.resume) status = take_up(&s, options, argc, argv, &taken);
    if (status == GS_OK) status = gs_layout_settle(&s);
    if (status != GS_OK)
        exit_status = gs_exit_status("train", status);
    else
        exit_status = run(&s, &log, &progress, argc, argv);
    if (taken.processes)
        gs_comm_abort(taken.processes, gs_message()); /* it has failed before the run took them */
    gs_comm_free(taken.processes);
    gs_state_free(taken.state);
    free(taken.file);
    return exit_status;
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
    gs_status status = gs_launch_generation() > 0 ? gs_carry_check(s) : GS_OK;
    if (status == GS_OK) status = begin_record(log, s, argc, argv, &observer);
    if (status != GS_OK) return fail(progress, status, &result);
    gs_stop_on_signals();
    gs_checkpoint_on_signal();
    if (progress->bar && s->processes->rank == 0)
        gs_working(NULL, 0, "preparing the run%s",
                   s->pipeline > 1 ? ": the times of its layers say where the pipeline is cut" : "");
    status = train(s, log, &observer, &result, &logged, &let_go);
    if (let_go) return GS_EXIT_OK;
    if (status != GS_OK && result.weights) return not_saved(progress, status, &result);
    if (status != GS_OK) return fail(progress, status, &result);
    if (result.rank == 0) gs_progress_end(progress, &result);
    gs_tell_skipped("train", &result);
    if (result.interrupted && result.rank == 0) tell_stopped(s, &result);
    if (result.interrupted && !gs_stop_requested)
        gs_launch_tell(GS_E_INTERRUPTED, "stopped by a signal that another rank received", &said);
    const bool failed = result.interrupted || !logged || result.checkpoints.lost || result.digest_lost;
    gs_result_free(&result);
    return failed ? GS_EXIT_FAILED : GS_EXIT_OK;
}
