/* The options of a run, in one table. These files use it:
 *
 *     cli/options/options.c   --name value; --help, from which manual pages and completion are made
 *     options.c               defaults of gs_settings; the first line of train --json; run.json of a log
 *     ../settings.c           checks the values that a program sets
 *     agreement.c             checks that all ranks were started with the same options
 *
 * To add an option, add a field to gs_settings and a row to the table. An option that is not a setting of a run, such
 * as --json, belongs in the table of its command.
 */
#pragma once

#include "train/train.h"

typedef enum gs_option_kind {
    GS_OPTION_FLAG,     /* bool */
    GS_OPTION_TEXT,     /* const char * */
    GS_OPTION_INT,      /* int. From here on: numeric kinds */
    GS_OPTION_COUNT,    /* uint64_t */
    GS_OPTION_BATCH,    /* size_t: a number, or "all" for 0 */
    GS_OPTION_FLOAT,    /* float */
    GS_OPTION_DOUBLE,   /* double */
    GS_OPTION_SHAPE,    /* gs_shape: CxHxW */
    GS_OPTION_CHANNELS, /* gs_by_channel: a number, or one for each channel, separated by commas */
    GS_OPTION_JITTER,   /* gs_jitter: RANK:TIME@SHARE% or RANK:TIME, ... */
    GS_OPTION_LINK,     /* gs_link: LATENCY,BANDWIDTH */
    GS_OPTION_RANGE,    /* gs_step_range: A-B, A, none */
    GS_OPTION_NORM,     /* gs_batch_norm_groups: global, local, ghost:G */
    GS_OPTION_SCHEDULE, /* gs_lr_schedule: constant, step:E,E@F, linear, cosine */
    GS_OPTION_AUGMENT,  /* gs_augment: crop:4,flip,cutout:8, none */
    GS_OPTION_OFFLOAD,  /* unsigned: optimizer,activations,weights, none */
    GS_OPTION_EVERY,    /* gs_checkpoint_every: 100, 60s */
    GS_OPTION_SEGMENTS, /* int, as in layer/memory/recompute.h: all, blocks, 4, none */
    GS_OPTION_REFUSED,  /* no value: the command refuses the option, and `help` says what to use instead */
    GS_OPTION_LOSS,     /* gs_loss. From here on: one of a few names */
    GS_OPTION_LABELS,   /* gs_labels: fine, coarse */
    GS_OPTION_NAMES,    /* gs_names: own, torchvision, huggingface */
    GS_OPTION_TOKENS,   /* gs_tokens: chars, bytes, bpe */
    GS_OPTION_WIRE,     /* gs_wire: f32, f16, bf16 */
    GS_OPTION_PRODUCTS, /* gs_precision: f32, bf16, f16 */
    GS_OPTION_RULE,     /* gs_lr_rule */
    GS_OPTION_BIND,     /* bool: cores, none */
    GS_OPTION_KEEP,     /* gs_keep: best, last, 3, best,3 */
    GS_OPTION_OPTIM,    /* const gs_optimizer_ops *: one of GS_OPTIMIZERS, or the caller's */
} gs_option_kind;

/* An option of a command, and the address of its value. */
typedef struct gs_option {
    const char *name; /* without "--", or one letter for "-n"; NULL ends a table */
    gs_option_kind kind;
    void *value;
    double min, max;      /* for numbers, inclusive */
    const char *argument; /* for --help: "N" */
    const char *help;
} gs_option;

static inline const char *gs_option_dashes(const gs_option *o) {
    return o->name[1] ? "--" : "-";
}

/* ---- the table ---- */

/* The commands that accept an option, combined with |: all commands; those that train; those that train and report what
 * was learned; or individual commands, listed below. GS_IF_NAMED: only commands that name the option in their own
 * table. (Any command may do so for any option.) */
enum { GS_ALL_RUNS = 0, GS_TRAINING = 1, GS_LEARNING = 256, GS_IF_NAMED = 128 };
enum { GS_BY_TRAIN = 2, GS_BY_MEMORY = 4, GS_BY_LAYOUT = 8 };
enum { GS_BY_STEP = 16, GS_BY_SIMULATE = 32 };

/* Whether ranks may be started with different values. */
typedef enum gs_option_agreement {
    GS_MUST_AGREE,
    GS_ALL_OR_NONE, /* either all ranks set it, each to its own value, or none does */
    GS_MAY_DIFFER   /* harmless, or the ranks compare its effect instead: data, weights */
} gs_option_agreement;

/* How --resume treats an option (../state.h). */
typedef enum gs_resume {
    GS_RESUME_FREE,   /* not stored: it changes no result, or the weights file already records it */
    GS_RESUME_FILLED, /* the stored value, unless a value is given */
    GS_RESUME_AGREES, /* the stored value; a different one is refused */
} gs_resume;

typedef enum gs_json_file {
    GS_JSON_START /* the first line of train --json */,
    GS_JSON_LOG /* run.json */
} gs_json_file;

typedef struct gs_run_option {
    const char *name; /* without "--"; NULL ends the table */
    gs_option_kind kind;
    size_t at;       /* offset of its field in gs_settings */
    double min, max; /* for numbers, inclusive */
    const char *argument, *help;
    int users;
    double usual;           /* the default of a number, flag or name */
    const char *usual_text; /* the default of a text */
    gs_option_agreement agreement;
    const char *off;      /* what a message calls the default if ranks differ: "none"; NULL: its value */
    const char *json[2];  /* its key, by gs_json_file; "optimizer.lr": within an object; NULL: omitted */
    bool null;            /* JSON writes the default as null */
    const char *log_with; /* for run.json: written only if this option differs from its default */
    gs_resume resume;
} gs_run_option;

enum { GS_RUN_OPTIONS = 81 };                  /* maximum number of rows in the table */
enum { GS_OPTION_TEXT_MOST = GS_JITTER_TEXT }; /* maximum size of a value's text, except GS_OPTION_TEXT */

extern const gs_run_option gs_run_table[];

/* Find a row of the table; calls gs_bug if there is none. */
const gs_run_option *gs_run_option_named(const char *name);

/* A run's option as an option of a command; its value is a field of these settings. */
gs_option gs_run_option_of(const gs_run_option *, gs_settings *);

bool gs_run_option_is_default(const gs_run_option *, const gs_settings *);

/* The option's value in these settings, as gs_option_text writes it. */
const char *gs_run_option_text(const gs_run_option *, const gs_settings *, char text[GS_OPTION_TEXT_MOST]);

/* The settings with the optimiser's defaults filled in; `batch` replaces a batch of 0, which means all samples. */
gs_settings gs_settings_with_numbers(const gs_settings *, size_t batch);

/* The settings of a worker's run with all open values filled in, such as the actual size of a batch of all samples. */
gs_settings gs_settings_in_use(const gs_worker *);

struct cJSON;
void gs_run_options_json(const gs_settings *, gs_json_file, struct cJSON *); /* adds fields */

/* ---- values ---- */

static inline bool gs_option_is_number(gs_option_kind kind) {
    return kind >= GS_OPTION_INT && kind <= GS_OPTION_DOUBLE;
}

/* A numeric value. A float becomes the decimal number that was typed. */
double gs_option_number(gs_option_kind, const void *value);
void gs_option_set_number(gs_option_kind, void *value, double);

/* The text of a value, as the command line accepts it; different values have different texts. A flag is "yes" or "no".
 * Returns `text`, or a constant. */
const char *gs_option_text(gs_option_kind, const void *value, char *text, size_t size);

/* Set the value from command-line text; GS_OPTION_TEXT keeps the pointer. GS_E_USAGE: "--size: '0' is not a whole
 * number from 1 to 1000". */
gs_status gs_option_read(const gs_option *, const char *text);

/* The names of a kind that has only a few values. */
typedef struct gs_option_names {
    const char *name[16]; /* indexed by value */
    int typed;            /* the command line accepts only the first `typed` names; a program can set all */
} gs_option_names;

/* NULL: the kind has no names. */
const gs_option_names *gs_option_names_of(gs_option_kind);
bool gs_option_has_name(gs_option_kind, const void *value); /* false: a program set an invalid value */
