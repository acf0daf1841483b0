/* The program: commands, their options, what they print.
 *
 * Exit status: 0 done, 1 failed, 2 wrong usage, 128 + N stopped by signal N. Results go to standard output, messages to
 * standard error.
 */
#pragma once

#include "cli/draw/wrapped.h"
#include "core/text.h"
#include "core/version.h"
#include "comm/create.h"
#include "io/file.h"
#include "model/safetensors.h"
#include "persist/state_file.h"
#include "predict/memory.h"
#include "train/strategy.h"
#include "train/options/options.h"

struct cJSON;

enum { GS_EXIT_OK = 0, GS_EXIT_FAILED = 1, GS_EXIT_USAGE = 2 };

/* Each command takes its own name as argv[0] and returns the exit status. */
typedef int gs_run_command(int argc, char **argv);
gs_run_command gs_cmd_devices, gs_cmd_doctor, gs_cmd_model, gs_cmd_train, gs_cmd_eval, gs_cmd_predict,
    gs_cmd_generate, gs_cmd_memory, gs_cmd_layout, gs_cmd_simulate, gs_cmd_compare, gs_cmd_sweep,
    gs_cmd_collectives, gs_cmd_schemes, gs_cmd_profile, gs_cmd_report, gs_cmd_explain, gs_cmd_step,
    gs_cmd_grade, gs_cmd_lesson, gs_cmd_launch;

/* ---- main.c ---- */

typedef struct gs_command {
    const char *name;
    gs_run_command *run;
    /* Needs OpenBLAS's kernels and PoCL's settings, for which the program may start itself once more (5 ms). */
    bool computes;
    /* NULL: `launch` can start it, its processes are ranks; else what to use in its place. */
    const char *instead;
    const char *what;
} gs_command;

extern const gs_command gs_commands[]; /* all; a NULL name ends them */

/* ---- options.c ---- */

enum { GS_OPTIONS_MOST = 96 }; /* in one table */

/* Read "--name value" and "--name=value", and "-n 3" and "-n3". Other words are moved to argv[1..*words]. With --help
 * or -h anywhere, sets *help and reads nothing. GS_E_USAGE: an unknown option (the nearest one is named), a missing or
 * a wrong value, a word after --help. */
gs_status gs_options_parse(const gs_option *options, int argc, char **argv, int *words, bool *help);

/* Was it given? */
bool gs_option_is_given(const char *name, int argc, char **argv);

/* Set an option from a text that was not typed: a flag from "yes". GS_E_USAGE. */
gs_status gs_option_set(const gs_option *options, const char *name, const char *text);

/* What --help says of a command besides its options. */
typedef struct gs_help {
    const char *usage; /* "train [options]" */
    const char *what, *example;
    void (*more)(void); /* prints what stands below; NULL: nothing */
} gs_help;

/* gs_options_parse, then help where it is asked for. True: the command goes on. False: it ends with *exit_status, and
 * what is wrong has been said. words NULL: it takes none besides its options. */
bool gs_options_taken(const gs_option *, const gs_help *, int argc, char **argv, int *words,
                      int *exit_status);

/* ---- manual.c ---- */

/* "usage: gradsum train [options]" and for each option a line or more with its default, in 80 columns. */
void gs_options_help(const gs_help *, const gs_option *options);

/* The same help for other readers: manual pages, and the words that a shell completes. Hidden from `gradsum help`,
 * because make install and the shells ask for it:
 *
 *     gradsum help --man [COMMAND]      a page for man, in roff
 *     gradsum help --words [COMMAND]    the commands, or the options of one: word, tab, what it takes, tab, what it is
 *
 * argv[0] is "--man" or "--words", argv[1] a command's name or nothing. */
int gs_manual(int argc, char **argv);

/* The command has another form, with a table of its own: completion has its options, too. */
void gs_words_also(const gs_option *(*form)(void));

/* ---- options.c ---- */

/* The options of a run that any of `users` takes, for `settings`, and those of `own`, which replace options of the same
 * name. The table is static: the next call changes it. */
const gs_option *gs_run_options(gs_settings *settings, int users, const gs_option *own);

/* Not taken by this command, though by others: help does not list it. */
#define GS_REFUSED(name, why)                                                                                \
    { name, GS_OPTION_REFUSED, NULL, 0, 0, NULL, why }

/* In `own`: the run's option of this name, with this help; NULL: with its own. */
#define GS_RUN_OPTION(name, help)                                                                            \
    { name, GS_OPTION_FLAG, NULL, 0, 0, NULL, help }

/* Of --mean and --std, where only the file can say them. */
#define GS_MEAN_HELP_OF_FILE "images are scaled to (byte / 255 - mean) / std (default: the file's, else 0)"
#define GS_STD_HELP_OF_FILE "the std in that formula (default: the file's, else 1)"

/* Of --bind, where there are ranks and no run. */
#define GS_BIND_HELP_RANKS "cores: bind each rank to its own; or none"
#define GS_LINK_HELP "slow messages, as a network does: each takes 50us,125MB/s (latency, bandwidth)"

/* Of a command that ended with this status; of a failure "gradsum train: message" is printed. */
int gs_exit_status(const char *command, gs_status status);

/* Print "gradsum train: ..." on standard error, and "gradsum: ..." if command is "". On a terminal it is wrapped. */
void gs_tell(const char *command, const char *format, ...) GS_PRINTF(2, 3);

/* For gs_rendezvous.tell and gs_faults_tell: "gradsum: ..." on standard error. */
void gs_tell_sentence(const char *sentence);

/* Say on standard error, of process 0, what is assumed where the file settings->load does not say how the images of
 * its training were scaled, and --mean and --std do not either. To be called when the file is known to be good: what
 * is assumed of a file that does not load interests nobody. */
void gs_tell_scaling(const char *command, const gs_settings *);

/* What is no error of the data and the model, but hardly meant. */
void gs_tell_of_data(const char *command, const gs_worker *);

/* A model for photographs, with images of Fashion-MNIST's size, which is the default. */
void gs_tell_usual_images(const char *command, const char *model, gs_shape in);

/* The same, of a test set that is an image folder: pictures that are left out, classes without any. */
void gs_tell_test_set(const char *command, const gs_settings *);

/* On standard error, of rank 0: how many files were skipped (--skip-broken). */
void gs_tell_skipped(const char *command, const gs_result *);

/* ---- resume.c ---- */

/* What --resume of train finds, and settings point into. */
typedef struct gs_resumed_run {
    gs_state *state;
    char *file;         /* in the folder of --resume */
    gs_comm *processes; /* that have agreed on it; NULL: none, or the run has taken them */
    bool automatic;     /* --resume auto */
} gs_resumed_run;

/* settings->resume becomes a file, or NULL where a new run begins; options that are not given become that run's. */
gs_status gs_find_resumed_run(gs_settings *, const gs_option *, int argc, char **argv, gs_resumed_run *);
void gs_resumed_run_free(gs_resumed_run *); /* also after a failure */

/* ---- layout.c ---- */

/* *list = settings->devices, or its only device `workers` times: to be freed. GS_E_USAGE: settings->devices names
 * another number of them; or there are more workers than `most`. */
gs_status gs_devices_for(const gs_settings *, int workers, int most, char **list);

/* How many workers a layout, settled, is shown with: `given`, or as many as there are devices, or as it needs; of ZeRO
 * alone two. */
int gs_layout_workers(const gs_settings *, int given);

/* ---- output.c ---- */

/* A run ends after the step that it is in, and saves, at Ctrl-C, SIGTERM, SIGHUP (the terminal has gone) and when
 * nobody reads its output any more (head); another signal, a second or more after the first, ends it at once. */
void gs_stop_on_signals(void);

/* SIGUSR1, by which a job scheduler warns of the end of a job's time, asks for a checkpoint. It ends no run. */
void gs_checkpoint_on_signal(void);

/* Print the object as one line, and free it. */
void gs_json_print(struct cJSON *);

/* As fflush(stdout); a closed pipe becomes a request to stop, as SIGPIPE would be. */
void gs_flush_output(void);

/* A new folder in TMPDIR, else /tmp, of a name such as "gradsum-explain-XXXXXX". GS_E_FILE, and folder is "": it cannot
 * be made. */
gs_status gs_temporary_folder(const char *name, char *folder, size_t size);

/* How long what is being done has taken, and from which share of it on; {0} before it begins. */
typedef struct gs_activity {
    double since, from, shown;
    bool tells; /* once, where standard error is no terminal: what takes more than 2 s more */
} gs_activity;

/* For an observer whose context is a gs_activity: a test under way. */
void gs_show_testing(void *work, size_t done, size_t of);

/* What is being done, for commands that print nothing for a while: a line on standard error if that is a terminal,
 * which the next one and gs_tell replace. With work a bar, at most ten times a second. gs_show_activity(NULL, 0, NULL)
 * removes it. */
void gs_show_activity(gs_activity *, double share, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* How much of a training is done, for an observer's step. */
double gs_share_of_run(const gs_settings *, int epoch, uint64_t done, uint64_t of);

/* For commands that train several times, one after another. */
typedef struct gs_shown_run {
    gs_activity work; /* of all runs */
    const gs_settings *settings;
    const char *what;
    int run, runs; /* from 0 */
} gs_shown_run;

/* For an observer whose context is a gs_shown_run: "cpu,cpu (2 of 3)". */
void gs_show_run(void *shown, int epoch, uint64_t done, uint64_t of, const gs_score *);

/* {"weights": bytes, ..., "total": bytes} */
struct cJSON *gs_memory_json(const gs_memory_use *);

/* ---- progress.c ---- */

/* What `train` shows while a run goes. */
typedef struct gs_progress {
    const gs_settings *settings;
    const char *tells_scaling; /* the command that says what it assumes of the file --load; or NULL */
    bool json;
    bool bar;                     /* a progress bar on standard error, which is a terminal */
    char run[96];                 /* of several runs: "batch 64, 5 to come: ", or "" */
    gs_screen screen;             /* standard output */
    int bar_epoch;                /* the one that is shown, */
    double started, samples_done; /* since its first step was over */
    gs_activity work, test;       /* the run, and the test that goes on */
    char ended[GS_RUN_HAS_ENDED]; /* of a run that was resumed for nothing: that it has ended; else "" */
    const char *failure;          /* why the weights could not be saved, for the end; NULL: they could */
    int targets;                  /* of each sample */
    int tokens;                   /* of each sample, where the data are a text; else 0 */
    bool perplexity;              /* then: its loss is in nats for each token, so that exp(loss) is one */
    int parts;                    /* 1, or the number of workers where a step tells of one worker alone */
} gs_progress;

gs_observer gs_progress_observer(gs_progress *);

/* The last JSON line or the last lines of a training run. */
void gs_progress_end(gs_progress *, const gs_result *);

/* The last JSON line of one that failed, before gs_exit_status: {"event":"end","status":"diverged","steps":7,
 * "message":...}; the status may also be "interrupted" or "failed". result: NULL where there are no steps. */
void gs_json_failed(gs_status, const gs_result *);
