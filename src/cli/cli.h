/* The program: commands, their options, what they print.
 *
 * Exit status: 0 done, 1 failed, 2 wrong usage. Results go to standard output, messages to standard error.
 */
#ifndef GS_CLI_CLI_H
#define GS_CLI_CLI_H

#include "cli/bars.h"
#include "gradsum.h"

enum { GS_EXIT_OK = 0, GS_EXIT_FAILED = 1, GS_EXIT_USAGE = 2 };

/* Each command takes its own name as argv[0] and returns the exit status. */
int gs_cmd_devices(int argc, char **argv);
int gs_cmd_model(int argc, char **argv);
int gs_cmd_train(int argc, char **argv);
int gs_cmd_eval(int argc, char **argv);
int gs_cmd_predict(int argc, char **argv);
int gs_cmd_compare(int argc, char **argv);
int gs_cmd_sweep(int argc, char **argv);
int gs_cmd_collectives(int argc, char **argv);
int gs_cmd_schemes(int argc, char **argv);
int gs_cmd_profile(int argc, char **argv);
int gs_cmd_report(int argc, char **argv);
int gs_cmd_step(int argc, char **argv);
int gs_cmd_tune(int argc, char **argv);
int gs_cmd_grade(int argc, char **argv);
int gs_cmd_launch(int argc, char **argv);

/* ---- options.c ---- */

typedef enum gs_option_kind {
    GS_OPTION_FLAG,   /* bool */
    GS_OPTION_TEXT,   /* const char * */
    GS_OPTION_INT,    /* int */
    GS_OPTION_COUNT,  /* uint64_t */
    GS_OPTION_BATCH,  /* size_t: a number, or "all" for 0 */
    GS_OPTION_FLOAT,  /* float */
    GS_OPTION_DOUBLE, /* double */
    GS_OPTION_LOSS,   /* gs_loss */
    GS_OPTION_SHAPE,  /* gs_shape: CxHxW */
    GS_OPTION_SLOW,   /* gs_slow: RANK:MS */
    GS_OPTION_WIRE,   /* gs_wire: f32, f16, bf16 */
    GS_OPTION_RULE,   /* gs_lr_rule */
    GS_OPTION_RANGE,  /* gs_range: A-B, A, none */
} gs_option_kind;

/* Steps first .. last; 0 0: none. */
typedef struct gs_range {
    uint64_t first, last;
} gs_range;

typedef struct gs_option {
    const char *name; /* without "--", or one letter for "-n"; NULL ends a table */
    gs_option_kind kind;
    void *value;
    double min, max;      /* for numbers, both allowed */
    const char *argument; /* for --help: "N" */
    const char *help;
} gs_option;

/* Read "--name value" and "--name=value". Other words are moved to argv[1..*words]. Sets *help for --help and
 * -h. GS_E_USAGE: an unknown option (the nearest one is named), a missing or a wrong value. */
gs_status gs_options_parse(const gs_option *options, int argc, char **argv, int *words, bool *help);

/* "usage: gradsum train [options]" and a line for each option, in 80 columns. */
void gs_options_help(const char *usage, const char *what, const char *example, const gs_option *options);

/* The options of a training run, for `settings`, and those of `own`, which replace options of the same name. Without
 * `training` those that only training needs are left out. The table is static: the next call changes it. */
const gs_option *gs_run_options(gs_settings *settings, bool training, const gs_option *own);

/* Print "gradsum train: message" and return the exit status that belongs to it. */
int gs_failed(const char *command, gs_status status);

/* A command takes no words beside its options: GS_E_USAGE naming the first. */
gs_status gs_no_words(int words, char **argv);

/* ---- output.c ---- */

/* 1234567 -> "1,234,567". Four results may be in use at once. */
const char *gs_thousands(double number);

/* Largest memory of this process so far, in MB (10^6 bytes). */
double gs_peak_memory_mb(void);

/* Ends a run after the step that it is in at Ctrl-C or SIGTERM; the second time at once. */
void gs_stop_on_signals(void);

/* What `train` and `compare` show while a run goes. */
typedef struct gs_progress {
    const gs_settings *settings;
    bool json;
    bool bar;         /* a progress bar on standard error, which is a terminal */
    int bar_columns;  /* that there are for it: a line that wraps could not be written over */
    gs_screen screen; /* standard output */
    double started, shown;
    double samples_done; /* of this epoch */
    int parts;           /* 1, or the number of workers where a step tells of one worker alone */
} gs_progress;

gs_observer gs_progress_observer(gs_progress *);

/* ---- modes.c: the options of training that are not its default ---- */

struct cJSON;

/* What becomes of the gradients: "gradients summed by allreduce". Static. */
const char *gs_modes_sum(const gs_settings *);
/* A line for each other option that was chosen. */
void gs_modes_print(const gs_settings *, int workers);
/* Them all as fields of the first JSON line. */
void gs_modes_json(const gs_settings *, struct cJSON *);

/* The learning rates of --lr-rule: a line where there is a rule, and fields of the first JSON line. */
void gs_modes_print_rates(const gs_settings *, const gs_worker *);
void gs_modes_json_rates(const gs_settings *, const gs_worker *, struct cJSON *);

/* At the end, with --sync async: the distribution of staleness, as text and as fields of the last JSON line. */
void gs_modes_print_end(const gs_result *);
void gs_modes_json_end(const gs_result *, struct cJSON *);

/* Remove the progress bar's line, if there is one. */
void gs_progress_clear(gs_progress *);

/* The last JSON line or the last lines of a training run. */
void gs_progress_end(gs_progress *, const gs_result *);

#endif
