#include "cli/cli.h"
#include "cli/launch/shared.h"
#include "data/csv_set.h"
#include "data/npy_set.h"
#include "train/settings.h"

#include <ctype.h>

/* ---- names ---- */

/* What PyTorch, torchrun and others call it, and what it is here. */
static const char elsewhere[] =
    "\nb --batch\ne --epochs\nj --loaders\na --model\nbatch-size --batch, for all workers together\nwd "
    "--weight-decay\nlearning-rate --lr\nnum-epochs --epochs\nmax-steps --steps\nlr-scheduler --schedule\n"
    "world-size --devices cpu,cpu for two workers as threads, launch -n 2 -- train for two processes\n"
    "num-workers --devices cpu,cpu for two workers, --loaders 2 for threads that decode pictures\n"
    "nproc-per-node launch -n 2 -- train\nnnodes launch --nodes\nmaster-addr launch --meet\n"
    "backend launch --transport, which carries messages, or --sync, which sums gradients\n"
    "max-grad-norm --clip\nfp16 --precision f16\nbf16 --precision bf16\namp --precision bf16\n"
    "gradient-accumulation-steps --accumulate\ngradient-checkpointing --recompute\noutput-dir --save\n"
    "tensor-parallel-size --tensor\npipeline-parallel-size --pipeline\n";

static gs_status unknown_option(const gs_option *options, const char *name) {
    const char *names[GS_OPTIONS_MOST + 1] = {NULL};
    for (size_t i = 0, n = 0; options[i].name; i++)
        if (options[i].kind != GS_OPTION_REFUSED && n < GS_OPTIONS_MOST) names[n++] = options[i].name;
    if (!name[0]) return gs_fail(GS_E_USAGE, "-- alone is not an option; --help lists the options");
    const char *dashes = name[0] && !name[1] ? "-" : "--";
    char line[64];
    snprintf(line, sizeof line, "\n%.60s ", name);
    for (char *c = line; *c; c++) *c = *c == '_' ? '-' : *c;
    const char *here = strstr(elsewhere, line);
    if (here)
        return gs_fail(GS_E_USAGE, "unknown option %s%s; here it is %.*s", dashes, name,
                       (int)strcspn(here + strlen(line), "\n"), here + strlen(line));
    for (const gs_run_option *o = gs_run_table; o->name; o++)
        if ((o->users & GS_LEARNING) && strcmp(o->name, name) == 0)
            return gs_fail(GS_E_USAGE, "unknown option --%s: train takes it, and here it has no effect",
                           name);
    const char *nearest = gs_nearest(name, strlen(name), names);
    if (nearest) return gs_fail(GS_E_USAGE, "unknown option --%s; did you mean --%s?", name, nearest);
    return gs_fail(GS_E_USAGE, "unknown option %s%s; --help lists the options", dashes, name);
}

/* --report is another name of -o. */
static const gs_option *option_named(const gs_option *options, const char *name) {
    if (strcmp(name, "report") == 0) name = "out";
    for (const gs_option *o = options; o->name; o++)
        if (strcmp(o->name, name) == 0) return o;
    return NULL;
}

/* Reject "-zero" and "---zero": gs_option_is_given and launch search a command line for exactly "--zero". */
static gs_status wrong_dashes(const gs_option *o, const char *word) {
    return gs_fail(GS_E_USAGE, "unknown option %.*s; did you mean %s%s?", (int)strcspn(word, "="), word,
                   gs_option_dashes(o), o->name);
}

/* "-n3": returns the option n; NULL: no such option, or no number follows. */
static const gs_option *letter_with_number(const gs_option *options, const char *word) {
    if (word[0] != '-' || word[1] == '-' || !isdigit((unsigned char)word[2])) return NULL;
    for (const gs_option *o = options; o->name; o++)
        if (o->name[0] == word[1] && !o->name[1] && o->kind != GS_OPTION_FLAG) return o;
    return NULL;
}

/* With --help nothing is parsed, so the help shows the defaults. A word after --help is an error: `--help sync`. */
static gs_status look_for_help(int argc, char **argv, bool *help) {
    *help = false;
    for (int i = 1; i < argc && !*help; i++) {
        *help = strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "--help-all") == 0 ||
                strcmp(argv[i], "-h") == 0;
        if (*help && i + 1 < argc && argv[i + 1][0] != '-')
            return gs_fail(GS_E_USAGE, "%s takes no value, but got '%s'; it lists all options", argv[i],
                           argv[i + 1]);
    }
    return GS_OK;
}

/* Reject two options that are names of the same setting, such as --device and --devices. */
static gs_status check_given(const gs_option *options, const bool *given) {
    for (size_t i = 0; options[i].name; i++)
        for (size_t j = 0; j < i; j++)
            if (given[i] && given[j] && options[i].value == options[j].value)
                return gs_fail(GS_E_USAGE, "--%s and --%s are both given; use only one of them",
                               options[j].name, options[i].name);
    return GS_OK;
}

/* The user forgot the value, as in `--save --json`. */
static gs_status option_as_value(const gs_option *o, const char *word) {
    const char *dashes = gs_option_dashes(o);
    return gs_fail(GS_E_USAGE,
                   "%s%s needs a value: %s; '%s' looks like an option (if it is the value: %s%s=%s)", dashes,
                   o->name, o->argument, word, dashes, o->name, word);
}

gs_status gs_options_parse(const gs_option *options, int argc, char **argv, int *words, bool *help) {
    bool given[GS_OPTIONS_MOST + 1] = {false};
    *words = 0;
    GS_TRY(look_for_help(argc, argv, help));
    for (int i = 1; i < argc && !*help; i++) {
        char name[64];
        const char *word = strcmp(argv[i], "-o") == 0 ? "--out" : argv[i];
        if (word[0] != '-' || word[1] == 0) {
            argv[++*words] = argv[i];
            continue;
        }
        const size_t dashes = strspn(word, "-");
        const char *text = word + dashes, *equals = strchr(text, '=');
        snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - text) : (int)strlen(text), text);
        const gs_option *o = option_named(options, name);
        if (o && (dashes > 2 || (dashes == 1 && name[1]))) return wrong_dashes(o, word);
        if (!o) {
            o = letter_with_number(options, word);
            equals = text;
        }
        if (!o) return unknown_option(options, name);
        given[o - options] = true;
        if (o->kind == GS_OPTION_REFUSED) return gs_fail(GS_E_USAGE, "--%s: %s", o->name, o->help);
        if (o->kind == GS_OPTION_FLAG) {
            if (equals) return gs_fail(GS_E_USAGE, "--%s takes no value", o->name);
            *(bool *)o->value = true;
            continue;
        }
        if (!equals && i + 1 >= argc)
            return gs_fail(GS_E_USAGE, "%s%s needs a value: %s", gs_option_dashes(o), o->name, o->argument);
        if (!equals && strncmp(argv[i + 1], "--", 2) == 0) return option_as_value(o, argv[i + 1]);
        GS_TRY(gs_option_read(o, equals ? equals + 1 : argv[++i]));
    }
    return check_given(options, given);
}

bool gs_option_is_given(const char *name, int argc, char **argv) {
    const size_t length = strlen(name);
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (strncmp(word, "--", 2) == 0 && strncmp(word + 2, name, length) == 0 &&
            (word[2 + length] == '\0' || word[2 + length] == '='))
            return true;
    }
    return false;
}

gs_status gs_option_set(const gs_option *options, const char *name, const char *text) {
    const gs_option *o = option_named(options, name);
    if (!o) return unknown_option(options, name);
    if (o->kind != GS_OPTION_FLAG) return gs_option_read(o, text);
    *(bool *)o->value = strcmp(text, "yes") == 0;
    return GS_OK;
}

static const char *text_of(const gs_option *options, const char *name) {
    const gs_option *o = option_named(options, name);
    return o && o->kind == GS_OPTION_TEXT ? *(const char *const *)o->value : NULL;
}

/* Beyond the general checks of outputs (io/file.h): no output may overwrite the input data; folders need names. */
static gs_status check_outputs(const gs_option *options) {
    static const char *const outputs[] = {"out", "save"}, text[] = "text:";
    static const char *const folders[] = {"log", "digest", "checkpoint"};
    const char *from = text_of(options, "data"), *to;
    const char *file = from && strncmp(from, text, strlen(text)) == 0 ? from + strlen(text) : "";
    for (int i = 0; i < 2 && from; i++) {
        to = text_of(options, outputs[i]);
        if (to && (gs_file_is_same(to, file) || gs_npy_reads(from, to) || gs_csv_reads(from, to)))
            return gs_fail(GS_E_USAGE, "--%s %s would replace a file of --data %s; choose another name",
                           outputs[i], to, from);
    }
    for (int i = 0; i < 3; i++) {
        to = text_of(options, folders[i]);
        if (to && strcmp(to, "-") == 0)
            return gs_fail(GS_E_USAGE,
                           "--%s: '-' is no folder, and nothing goes to standard output; give a name",
                           folders[i]);
    }
    return GS_OK;
}

/* ---- --help: prints the options, with the values in the table as defaults ---- */

enum { MARGIN = 25 };

/* An option's default: its current value as text; "" if it is off or has no default. `text` is a buffer. */
static const char *default_of(const gs_option *o, char *text, size_t size) {
    if (o->kind == GS_OPTION_FLAG || o->kind == GS_OPTION_CHANNELS || o->kind == GS_OPTION_AUGMENT ||
        o->kind == GS_OPTION_SEGMENTS || o->kind == GS_OPTION_JITTER || o->kind == GS_OPTION_LINK ||
        o->kind == GS_OPTION_RANGE || o->kind == GS_OPTION_OFFLOAD || o->kind == GS_OPTION_EVERY ||
        strstr(o->help, "(default"))
        return "";
    if (gs_option_is_number(o->kind)) {
        double value = gs_option_number(o->kind, o->value);
        /* out of range: the option is off, or its value is determined later */
        if (!(value >= o->min && value <= o->max)) return "";
    }
    return gs_option_text(o->kind, o->value, text, size);
}

static void print_option(const gs_option *o) {
    char left[40], right[400], number[48];
    const char *usual = default_of(o, number, sizeof number);
    snprintf(left, sizeof left, "%s%s%s %s", strcmp(o->name, "out") == 0 ? "-o, " : "", gs_option_dashes(o),
             o->name, o->argument ? o->argument : "");
    snprintf(right, sizeof right, "%s%s%s%s", o->help, *usual ? " (default " : "", usual, *usual ? ")" : "");
    if (strlen(left) > 22)
        printf("  %s\n%*s", left, MARGIN, "");
    else
        printf("  %-22s ", left);
    gs_print_wrapped(MARGIN, right);
}

/* What --help shows of more than MANY options. */
enum { MANY = 40 };
static const char *const needed[][2] = {
    {"the model and its data", "model data load context"},
    {"training", "batch epochs steps optimizer lr schedule warmup clip seed"},
    {"the workers", "devices threads sync layout exact"},
    {"results", "save log checkpoint resume"},
    {"this command's own", ""}};

static void print_needed(const gs_option *options) {
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        char names[80], *rest = names, *name;
        snprintf(names, sizeof names, "%s", needed[i][1]);
        printf("%s%s:\n", i ? "\n" : "", needed[i][0]);
        while ((name = strtok_r(rest, " ", &rest))) {
            const gs_option *o = option_named(options, name);
            if (o && o->kind != GS_OPTION_REFUSED) print_option(o);
        }
    }
    for (const gs_option *o = options; o->name; o++) {
        const gs_run_option *of_run = gs_run_table;
        while (of_run->name && strcmp(of_run->name, o->name) != 0) of_run++;
        if (!of_run->name) print_option(o);
    }
}

void gs_options_help(const gs_help *h, const gs_option *options, int argc, char **argv) {
    int count = 0;
    for (const gs_option *o = options; o->name; o++) count += o->kind != GS_OPTION_REFUSED;
    printf("usage: gradsum %s\n\n%s\n\n", h->usage, h->what);
    const bool all = count <= MANY || gs_option_is_given("help-all", argc, argv);
    if (!all) print_needed(options);
    for (const gs_option *o = options; o->name && all; o++)
        if (o->kind != GS_OPTION_REFUSED) print_option(o);
    if (count > MANY) printf("  %-22s show all %d options\n", "--help-all", count);
    printf("  %-22s %s\n\nexample:\n  %s\n", "--help",
           count > MANY ? "show the most needed of them" : "show this", h->example);
    if (h->more) h->more();
}

/* ---- parsing and help together ---- */

bool gs_options_taken(const gs_option *options, const gs_help *h, int argc, char **argv, int *words,
                      int *exit_status) {
    bool help;
    int others;
    gs_status status = gs_options_parse(options, argc, argv, &others, &help);
    *exit_status = GS_EXIT_OK;
    if (words) *words = others;
    if (status == GS_OK && help) return gs_options_help(h, options, argc, argv), false;
    if (status == GS_OK && !words && others > 0)
        status = gs_fail(GS_E_USAGE, "'%s' is not an option; --help lists the options", argv[1]);
    if (status == GS_OK) status = check_outputs(options);
    if (status != GS_OK) *exit_status = gs_exit_status(argv[0], status);
    return status == GS_OK;
}

int gs_exit_status(const char *command, gs_status status) {
    char why[1024], sentence[1100];
    bool usage = status == GS_E_USAGE || status == GS_E_MODEL, said;
    if (status == GS_OK) return GS_EXIT_OK;
    snprintf(why, sizeof why, "%s", gs_message());
    /* A launcher ends its other processes. Ranks on other nodes or started by hand would wait: notify them. */
    bool told = gs_launch_report_failure(status, why, &said);
    fflush(stdout);
    gs_show_activity(NULL, 0, NULL);
    snprintf(sentence, sizeof sentence, "gradsum %s: %s", command, why);
    const bool stopped = status == GS_E_INTERRUPTED;                        /* another rank has failed */
    if (!(said && (usage || stopped))) gs_print_sentence(stderr, sentence); /* only one process prints it */
    bool awaited = strcmp(command, "train") == 0 || strcmp(command, "eval") == 0;
    gs_rendezvous r;
    if (awaited && gs_rendezvous_from_environment(&r) == GS_OK && (!told || r.nodes > 1))
        gs_comm_fail_early(&r, status, why);
    return usage ? GS_EXIT_USAGE : GS_EXIT_FAILED;
}

/* ---- the options of a run ---- */

const gs_option *gs_run_options(gs_settings *s, int users, const gs_option *own) {
    static gs_option table[GS_OPTIONS_MOST + 1];
    size_t n = 0;
    for (const gs_run_option *o = gs_run_table; o->name; o++)
        if (o->users == GS_ALL_RUNS || (o->users & users)) table[n++] = gs_run_option_of(o, s);
    for (; own && own->name; own++) {
        size_t at = 0;
        while (at < n && strcmp(table[at].name, own->name) != 0) at++;
        bool whole = own->value || own->kind == GS_OPTION_REFUSED;
        table[at] = whole ? *own : gs_run_option_of(gs_run_option_named(own->name), s);
        if (own->help) table[at].help = own->help;
        n += at == n;
    }
    table[n] = (gs_option){0};
    for (size_t i = 0; i < n; i++) table[i].help = gs_optimizers_help(table[i].name, table[i].help);
    return table;
}
