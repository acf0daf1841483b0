/* train --resume: finds the checkpoint to resume from, and takes options from it. */
#include "cli/cli.h"
#include "cli/launch/shared.h"
#include "persist/folder.h"
#include "train/run.h"

#include <stdlib.h>

/* If the second option is given, the first is not taken from the file: the two are equivalent or mutually exclusive. */
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

/* True for an option of pipelines or tensor groups in a run without them. *s already holds --pipeline and --tensor,
 * which the table lists first. */
static bool is_without_use(const char *option, const gs_settings *s) {
    gs_layout l = {.tp = s->tensor, .pp = s->pipeline};
    const bool of_group = strcmp(option, "sequence") == 0;
    if (!of_group && strcmp(option, "pipeline-schedule") != 0 && strcmp(option, "micro-batches") != 0)
        return false;
    return (s->layout && gs_layout_read(s->layout, &l) != GS_OK) || (of_group ? l.tp : l.pp) <= 1;
}

/* Take the options that the command line lacks from the resumed run; its state owns their texts. */
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

/* Find a folder's newest intact checkpoint. If there is none, --resume auto (or --checkpoint with the same folder)
 * begins a new run, so that a job script can use one command for its first start and for every restart. */
static gs_status find_checkpoint(gs_settings *s, gs_resumed_run *t) {
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
        GS_TRY(gs_checkpoint_check_new(s->resume));
        if (first) gs_tell("train", "no checkpoint in %s is whole: %s: a new run begins", s->resume, note);
        s->resume = NULL;
        return GS_OK;
    }
    GS_TRY(gs_context(status, "--resume"));
    if (first && *note) gs_tell("train", "%s", note);
    s->resume = t->file;
    return GS_OK;
}

/* --load sets the weights of a new run; a run continued by --resume auto ignores it. */
static gs_status read_checkpoint(gs_settings *s, const gs_option *options, int argc, char **argv,
                                 gs_resumed_run *t) {
    if (!s->resume) return GS_OK;
    if (t->automatic) s->load = NULL;
    GS_TRY(gs_state_read(s->resume, &t->state));
    return take_up_options(t->state, s, options, argc, argv);
}

/* Another run may be writing to the folder, and machines do not all see a new file at the same time. Therefore all
 * ranks use the checkpoint that rank 0 found. given: the settings before a file was read. */
static gs_status follow_rank_0(gs_settings *s, const gs_settings *given, const gs_option *options, int argc,
                               char **argv, gs_resumed_run *t) {
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

gs_status gs_find_resumed_run(gs_settings *s, const gs_option *options, int argc, char **argv,
                              gs_resumed_run *t) {
    if (!s->resume) return GS_OK;
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

void gs_resumed_run_free(gs_resumed_run *t) {
    if (t->processes) gs_comm_abort(t->processes, gs_message()); /* failed before the run took over */
    gs_comm_free(t->processes);
    gs_state_free(t->state);
    free(t->file);
}
