/* The program: its commands, their options, and their output.
 *
 * Exit status: 0 done, 1 failed, 2 wrong usage, 128 + N stopped by signal N. Results go to standard output, messages to
 * standard error.
 */
#pragma once

#include "cli/wrapped.h"
#include "core/text.h"
#include "io/file.h"
#include "persist/state_file.h"
#include "predict/memory.h"
#include "train/strategy.h"
#include "train/options/options.h"

struct cJSON;

enum { GS_EXIT_OK = 0, GS_EXIT_FAILED = 1, GS_EXIT_USAGE = 2 };

/* A command receives its own name as argv[0] and returns the exit status. */
typedef int gs_run_command(int argc, char **argv);
gs_run_command gs_cmd_devices, gs_cmd_doctor, gs_cmd_model, gs_cmd_train, gs_cmd_eval, gs_cmd_predict,
    gs_cmd_generate, gs_cmd_memory, gs_cmd_layout, gs_cmd_simulate, gs_cmd_compare, gs_cmd_sweep,
    gs_cmd_collectives, gs_cmd_schemes, gs_cmd_profile, gs_cmd_report, gs_cmd_explain, gs_cmd_step,
    gs_cmd_grade, gs_cmd_lesson, gs_cmd_launch;

/* ---- main.c ---- */

enum {
    GS_COMPUTES =
        1, /* uses OpenBLAS's kernels and PoCL; the program may have to restart itself for them (5 ms) */
    GS_RUNS_AS_RANKS = 2, /* launch can start it as several processes */
};

typedef struct gs_command {
    const char *name;
    gs_run_command *run;
    int traits;
    const char *what;
} gs_command;

extern const gs_command gs_commands[]; /* ends with an entry whose name is NULL */

/* ---- options.c ---- */

enum { GS_OPTIONS_MOST = 96 }; /* maximum number of options in one table */

/* Read "--name value", "--name=value", "-n 3" and "-n3". Other words move to argv[1..*words]. With --help,
 * --help-all or -h anywhere, set *help and read nothing. GS_E_USAGE: an unknown option (the message suggests the most
 * similar one), a missing or invalid value, or a word after --help. */
gs_status gs_options_parse(const gs_option *options, int argc, char **argv, int *words, bool *help);

/* True if the command line contains --name. */
bool gs_option_is_given(const char *name, int argc, char **argv);

/* Set an option from its saved text; the saved text of a flag that is on is "yes". GS_E_USAGE. */
gs_status gs_option_set(const gs_option *options, const char *name, const char *text);

/* The text that --help prints around the options. */
typedef struct gs_help {
    const char *usage; /* "train [options]" */
    const char *what, *example;
    void (*more)(void); /* prints further text at the end; may be NULL */
} gs_help;

/* Print "usage: gradsum train [options]", then each option with its default, in 80 columns; of more than 40 options,
 * without --help-all, those that most runs need. manual.sh makes the manual pages from --help-all, and shells complete
 * the options listed in it (completion.bash, completion.zsh). */
void gs_options_help(const gs_help *, const gs_option *options, int argc, char **argv);

/* Run gs_options_parse, then print help if requested. True: the command continues. False: the command ends with
 * *exit_status; errors have been printed. words may be NULL if the command takes only options. */
bool gs_options_taken(const gs_option *, const gs_help *, int argc, char **argv, int *words,
                      int *exit_status);

/* Make one table from the run options that any of `users` takes, which store their values in `settings`, and the
 * options in `own`, which replace run options of the same name. The table is static: the next call overwrites it. */
const gs_option *gs_run_options(gs_settings *settings, int users, const gs_option *own);

/* An option that other commands take and this one rejects; --help does not list it. */
#define GS_REFUSED(name, why)                                                                                \
    { name, GS_OPTION_REFUSED, NULL, 0, 0, NULL, why }

/* An entry of `own`: the run option of this name with this help text, or with its usual text if `help` is NULL. */
#define GS_RUN_OPTION(name, help)                                                                            \
    { name, GS_OPTION_FLAG, NULL, 0, 0, NULL, help }

/* Help texts of --mean and --std for commands that load weights. */
#define GS_MEAN_HELP_OF_FILE "images are scaled to (byte / 255 - mean) / std (default: the file's, else 0)"
#define GS_STD_HELP_OF_FILE "the std in that formula (default: the file's, else 1)"

/* Help texts for commands that start ranks without a training run. */
#define GS_BIND_HELP_RANKS "cores: bind each rank to its own; or none"
#define GS_LINK_HELP "slow messages down as a network does: 50us,125MB/s (latency, bandwidth)"

/* Returns the exit status for `status`; prints a failure as "gradsum train: message". */
int gs_exit_status(const char *command, gs_status status);

/* Print "gradsum train: ..." on standard error, or "gradsum: ..." if command is "". Wraps on a terminal. */
void gs_tell(const char *command, const char *format, ...) GS_PRINTF(2, 3);

/* For gs_rendezvous.tell and gs_faults_tell: print "gradsum: ..." on standard error. */
void gs_tell_sentence(const char *sentence);

/* If neither the file settings->load nor --mean and --std set the image scaling, process 0 prints which one it assumes.
 * Call this after loading the file, because a note about an assumption would obscure an error in the file. */
void gs_tell_scaling(const char *command, const gs_settings *);

/* Print train's notes about data and models that are valid but probably not what the user intended. */
void gs_tell_of_data(const gs_worker *);

/* Print a note when a model meant for photographs is given images of the default size, that of Fashion-MNIST. */
void gs_tell_usual_images(const char *command, const char *model, gs_shape in);

/* Print notes on a test set read from an image folder: skipped pictures, and classes without pictures. */
void gs_tell_test_set(const char *command, const gs_settings *);

/* Rank 0 prints how many files --skip-broken skipped. */
void gs_tell_skipped(const char *command, const gs_result *);

/* ---- resume.c ---- */

/* The run that train --resume found; the settings point into it. */
typedef struct gs_resumed_run {
    gs_state *state;
    char *file;         /* the checkpoint, in the folder given to --resume */
    gs_comm *processes; /* connected to agree on the file; NULL: not connected, or now owned by the run */
    bool automatic;     /* --resume auto */
} gs_resumed_run;

/* Set settings->resume to a checkpoint, or to NULL for a new run. Options not given take the resumed run's values. */
gs_status gs_find_resumed_run(gs_settings *, const gs_option *, int argc, char **argv, gs_resumed_run *);
void gs_resumed_run_free(gs_resumed_run *); /* also call it after a failure */

/* ---- cmd_layout.c ---- */

/* Set *list to settings->devices or, if it names one device, to that device `workers` times; the caller frees it.
 * GS_E_USAGE: settings->devices names a different number of devices, or there are more than `most` workers. */
gs_status gs_devices_for(const gs_settings *, int workers, int most, char **list);

/* ---- output.c ---- */

/* On Ctrl-C, SIGTERM, SIGHUP (the terminal closed) or a closed output pipe (such as `| head`), end the run after its
 * current step and save. A second signal, at least one second after the first, ends the program at once. */
void gs_stop_on_signals(void);

/* On SIGUSR1, which a job scheduler sends before a job's time runs out, write a checkpoint and continue the run. */
void gs_checkpoint_on_signal(void);

/* Print the object on one line, and free it. */
void gs_json_print(struct cJSON *);

/* Calls fflush(stdout), but turns a closed pipe into a request to stop instead of SIGPIPE. */
void gs_flush_output(void);

/* Make a new folder in TMPDIR, else /tmp. name: a pattern, "gradsum-explain-XXXXXX". GS_E_FILE: `folder` is then "". */
gs_status gs_temporary_folder(const char *name, char *folder, size_t size);

/* Check that this device computes with --exact what every other machine does: its arithmetic (device.h), and the
 * weights of three short runs. GS_E_DEVICE: the message says what differs. */
gs_status gs_doctor_exact(const char *device);

/* When an activity began, the share of its work done by then, and when it was last shown; {0}: it has not begun. */
typedef struct gs_activity {
    double since, from, shown;
    bool tells; /* without a terminal, print one line if more than 2 s remain */
} gs_activity;

/* Observer of a running test; its context is a gs_activity. */
void gs_show_testing(void *work, size_t done, size_t of);

/* Show what a command is doing while it prints nothing else: a line on standard error if that is a terminal. The next
 * call, or gs_tell, replaces the line. With an activity, the line includes a bar and is redrawn at most ten times a
 * second. gs_show_activity(NULL, 0, NULL) removes the line. */
void gs_show_activity(gs_activity *, double share, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The fraction of a training run completed, for a step observer. */
double gs_share_of_run(const gs_settings *, int epoch, uint64_t done, uint64_t of);

/* Progress of a command that trains several times in sequence. */
typedef struct gs_shown_run {
    gs_activity work; /* all runs together */
    const gs_settings *settings;
    const char *what;
    int run, runs; /* run: counted from 0 */
} gs_shown_run;

/* Step observer; its context is a gs_shown_run. Shows "cpu,cpu (2 of 3)". */
void gs_show_run(void *shown, int epoch, uint64_t done, uint64_t of, const gs_score *);

/* {"weights": bytes, ..., "total": bytes} */
struct cJSON *gs_memory_json(const gs_memory_use *);

/* ---- progress.c ---- */

/* What `train` shows about a run. */
typedef struct gs_progress {
    const gs_settings *settings;
    bool json;
    bool bar;                     /* show a progress bar: standard error is a terminal */
    int bar_epoch;                /* the epoch that the bar shows, */
    double started, samples_done; /* when that epoch's first step ended, and the samples since then */
    gs_activity work, test;       /* the whole run, and the current test */
    char ended[GS_RUN_HAS_ENDED]; /* reports that the resumed run had already ended; else "" */
    const char *failure;          /* why the weights could not be saved; NULL: they were saved */
    int targets;                  /* per sample */
    int tokens;                   /* per sample, for text data; otherwise 0 */
    bool perplexity;              /* the loss is in nats per token, so exp(loss) is the perplexity */
    int parts;                    /* the number of workers if a step's score covers only one worker; else 1 */
} gs_progress;

gs_observer gs_progress_observer(gs_progress *);

/* Print the end of a training run, either as text or as the last JSON line. */
void gs_progress_end(gs_progress *, const gs_result *);

/* Print the last JSON line of a failed run: {"event":"end","status":"diverged","steps":7,"message":...}; the status may
 * also be "interrupted" or "failed". Call it before gs_exit_status. result is NULL if no step was run. */
void gs_json_failed(gs_status, const gs_result *);
