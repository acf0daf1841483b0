#include "cli/cli.h"
#include "cli/launch/shared.h"
#include "data/npy_set.h"
#include "io/file.h"
#include "layer/memory/recompute.h"
#include "train/offload/offload.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

enum { SHOWN = 200 };

/* Of a text of any length, so that what was wanted has room behind it. */
static const char *shown(const char *text, char room[SHOWN]) {
    if (strlen(text) < SHOWN) return text;
    snprintf(room, SHOWN, "%.*s...", SHOWN - 4, text);
    return room;
}

static gs_status is_not(const gs_option *o, const char *text, const char *wanted) {
    char room[SHOWN];
    return gs_fail(GS_E_USAGE, "%s%s: '%s' is not %s", gs_option_dashes(o), o->name, shown(text, room),
                   wanted);
}

static gs_status wrong_value(const gs_option *o, const char *text) {
    char wanted[96];
    return is_not(o, text, gs_option_wanted(o->kind, o->min, o->max, wanted, sizeof wanted));
}

static gs_status parse_number(const gs_option *o, const char *text, double *out) {
    char *end;
    bool whole = o->kind != GS_OPTION_FLOAT && o->kind != GS_OPTION_DOUBLE;
    errno = 0;
    double value = strtod(text, &end);
    bool digits_only = strspn(text, whole ? "0123456789" : "0123456789.eE+-") == strlen(text);
    if (end == text || *end || !digits_only || value < o->min || value > o->max || !isfinite(value))
        return wrong_value(o, text);
    *out = value;
    return GS_OK;
}

static gs_status parse_batch(const gs_option *o, const char *text) {
    double number;
    if (strcmp(text, "all") == 0) {
        *(size_t *)o->value = 0;
        return GS_OK;
    }
    GS_TRY(parse_number(o, text, &number));
    *(size_t *)o->value = (size_t)number;
    return GS_OK;
}

static gs_status parse_shape(const gs_option *o, const char *text) {
    if (gs_shape_parse(text, o->value)) return GS_OK;
    return is_not(o, text, "CHANNELSxHEIGHTxWIDTH, such as 1x28x28, or with xTOKENS after it");
}

static gs_status parse_by_channel(const gs_option *o, const char *text) {
    gs_by_channel x;
    if (!gs_by_channel_read(text, &x) || !gs_by_channel_within(&x, o->min, o->max))
        return wrong_value(o, text);
    *(gs_by_channel *)o->value = x;
    return GS_OK;
}

static gs_status parse_slow(const gs_option *o, const char *text) {
    char *colon, *end;
    unsigned long rank = strtoul(text, &colon, 10);
    double ms = *colon == ':' ? strtod(colon + 1, &end) : -1;
    bool plain = strspn(text, "0123456789:.") == strlen(text) && *text != ':';
    if (!plain || !(ms >= 0 && ms <= 1e6) || end == colon + 1 || *end || rank > INT_MAX)
        return wrong_value(o, text);
    *(gs_slow *)o->value = (gs_slow){(int)rank, ms};
    return GS_OK;
}

static gs_status parse_range(const gs_option *o, const char *text) {
    gs_step_range r = {0, 0};
    char *end = NULL;
    bool digits = *text >= '0' && *text <= '9';
    if (strcmp(text, "none") == 0) {
        *(gs_step_range *)o->value = r;
        return GS_OK;
    }
    errno = 0;
    if (digits) r.first = r.last = strtoull(text, &end, 10);
    if (digits && *end == '-' && isdigit((unsigned char)end[1])) r.last = strtoull(end + 1, &end, 10);
    if (!digits || *end || errno || r.first < 1 || r.last < r.first) return wrong_value(o, text);
    *(gs_step_range *)o->value = r;
    return GS_OK;
}

/* One of a few names. */
static gs_status parse_name(const gs_option *o, const char *text) {
    const gs_option_names *names = gs_option_names_of(o->kind);
    const char *typed[sizeof names->name / sizeof *names->name + 1] = {NULL};
    char room[SHOWN];
    for (int i = 0; i < names->typed; i++) {
        typed[i] = names->name[i];
        if (strcmp(text, typed[i]) == 0) return gs_option_set_name(o->kind, o->value, i), GS_OK;
    }
    return gs_fail(GS_E_USAGE, "unknown %s%s '%s'; choose one of: %s%s", gs_option_dashes(o), o->name,
                   shown(text, room), names->wanted, gs_did_you_mean(text, typed));
}

/* "best", "3", or both with a comma: the number is of checkpoints. */
static gs_status parse_keep(const gs_option *o, const char *text) {
    char term[32];
    gs_keep *keep = o->value;
    for (const char *at = text;; at++) {
        const size_t length = strcspn(at, ",");
        double number = 0;
        snprintf(term, sizeof term, "%.*s", (int)(length < 31 ? length : 31), at);
        if (isdigit((unsigned char)*term)) {
            const gs_option of_number = {o->name, GS_OPTION_INT, NULL, o->min, o->max, NULL, NULL};
            GS_TRY(parse_number(&of_number, term, &number));
            keep->checkpoints = (int)number;
        } else {
            GS_TRY(parse_name(o, term));
        }
        at += length;
        if (!*at) return GS_OK;
    }
}

static gs_status parse_value(const gs_option *o, const char *text) {
    double number;
    switch (o->kind) {
    case GS_OPTION_TEXT:
        if (!*text)
            return gs_fail(GS_E_USAGE, "%s%s is empty; wanted %s", gs_option_dashes(o), o->name, o->argument);
        *(const char **)o->value = text;
        return GS_OK;
    case GS_OPTION_BATCH:
        return parse_batch(o, text);
    case GS_OPTION_SHAPE:
        return parse_shape(o, text);
    case GS_OPTION_CHANNELS:
        return parse_by_channel(o, text);
    case GS_OPTION_SLOW:
        return parse_slow(o, text);
    case GS_OPTION_AUGMENT:
        return gs_augment_read(text, o->value) ? GS_OK : wrong_value(o, text);
    case GS_OPTION_OFFLOAD:
        return gs_offload_read(text, o->value) ? GS_OK : wrong_value(o, text);
    case GS_OPTION_JITTER:
        return gs_jitter_read(text, o->value) ? GS_OK : wrong_value(o, text);
    case GS_OPTION_LINK:
        return gs_link_read(text, o->value) ? GS_OK : wrong_value(o, text);
    case GS_OPTION_NORM:
        return gs_batch_norm_read(text, o->value) ? GS_OK : wrong_value(o, text);
    case GS_OPTION_SCHEDULE:
        return gs_lr_schedule_read(text, o->value) ? GS_OK : wrong_value(o, text);
    case GS_OPTION_SEGMENTS:
        return gs_recompute_read(text, o->value) ? GS_OK : wrong_value(o, text);
    case GS_OPTION_EVERY:
        return gs_checkpoint_every_read(text, o->value) ? GS_OK : wrong_value(o, text);
    case GS_OPTION_KEEP:
        return parse_keep(o, text);
    case GS_OPTION_RANGE:
        return parse_range(o, text);
    default:
        if (gs_option_names_of(o->kind)) return parse_name(o, text);
        GS_TRY(parse_number(o, text, &number));
    }
    gs_option_set_number(o->kind, o->value, number);
    if (o->kind == GS_OPTION_COUNT) *(uint64_t *)o->value = strtoull(text, NULL, 10); /* beyond 2^53 too */
    return GS_OK;
}

/* ---- names ---- */

/* "-e": the options that begin with this letter, as far as there is room. */
static gs_status unknown_letter(const gs_option *options, const char *name) {
    char list[160] = "";
    size_t used = 0;
    for (const gs_option *o = options; o->name; o++)
        if (o->name[0] == name[0] && o->name[1] && o->kind != GS_OPTION_REFUSED && used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s--%s", used ? ", " : "", o->name);
    if (!*list) return gs_fail(GS_E_USAGE, "unknown option -%s; --help lists the options", name);
    return gs_fail(GS_E_USAGE, "unknown option -%s; options have long names: did you mean %s?", name, list);
}

static gs_status unknown_option(const gs_option *options, const char *name) {
    const char *names[GS_OPTIONS_MOST + 1] = {NULL};
    for (size_t i = 0, n = 0; options[i].name; i++)
        if (options[i].kind != GS_OPTION_REFUSED && n < GS_OPTIONS_MOST) names[n++] = options[i].name;
    if (!name[0]) return gs_fail(GS_E_USAGE, "-- alone is not an option; --help lists the options");
    if (!name[1]) return unknown_letter(options, name);
    for (const gs_run_option *o = gs_run_table; o->name; o++)
        if ((o->users & GS_LEARNING) && strcmp(o->name, name) == 0)
            return gs_fail(GS_E_USAGE, "unknown option --%s: train takes it, and here it has no effect",
                           name);
    const char *nearest = gs_nearest(name, strlen(name), names);
    if (nearest) return gs_fail(GS_E_USAGE, "unknown option --%s; did you mean --%s?", name, nearest);
    return gs_fail(GS_E_USAGE, "unknown option --%s; --help lists the options", name);
}

static const gs_option *option_named(const gs_option *options, const char *name) {
    for (const gs_option *o = options; o->name; o++)
        if (strcmp(o->name, name) == 0) return o;
    return NULL;
}

/* "-zero", "---zero": what looks for "--zero" in a command line (gs_option_is_given, launch) would not find it. */
static gs_status wrong_dashes(const gs_option *o, const char *word) {
    return gs_fail(GS_E_USAGE, "unknown option %.*s; did you mean %s%s?", (int)strcspn(word, "="), word,
                   gs_option_dashes(o), o->name);
}

/* "-n3": the option n; NULL: there is none, or no number. */
static const gs_option *letter_with_number(const gs_option *options, const char *word) {
    if (word[0] != '-' || word[1] == '-' || !isdigit((unsigned char)word[2])) return NULL;
    for (const gs_option *o = options; o->name; o++)
        if (o->name[0] == word[1] && !o->name[1] && o->kind != GS_OPTION_FLAG) return o;
    return NULL;
}

/* Help is wanted, whatever else is said: nothing is parsed then, so that help shows the defaults. But a word behind
 * it was meant to say something: --help sync. */
static gs_status look_for_help(int argc, char **argv, bool *help) {
    *help = false;
    for (int i = 1; i < argc && !*help; i++) {
        *help = strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
        if (*help && i + 1 < argc && argv[i + 1][0] != '-')
            return gs_fail(GS_E_USAGE, "%s takes no value, but got '%s'; it lists all options", argv[i],
                           argv[i + 1]);
    }
    return GS_OK;
}

/* Two names of one setting: --device and --devices. */
static gs_status check_given(const gs_option *options, const bool *given) {
    for (size_t i = 0; options[i].name; i++)
        for (size_t j = 0; j < i; j++)
            if (given[i] && given[j] && options[i].value == options[j].value)
                return gs_fail(GS_E_USAGE, "--%s and --%s are both given; use only one of them",
                               options[j].name, options[i].name);
    return GS_OK;
}

/* --save --json: the value was forgotten. */
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
        if (strcmp(argv[i], "-o") != 0 && (argv[i][0] != '-' || argv[i][1] == 0)) {
            argv[++*words] = argv[i];
            continue;
        }
        const size_t dashes = strspn(argv[i], "-");
        const char *text = argv[i] + dashes, *equals = strchr(text, '=');
        if (strcmp(argv[i], "-o") == 0) text = "out";
        snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - text) : (int)strlen(text), text);
        const gs_option *o = option_named(options, name);
        if (o && strcmp(argv[i], "-o") != 0 && (dashes > 2 || (dashes == 1 && name[1])))
            return wrong_dashes(o, argv[i]);
        if (!o) {
            o = letter_with_number(options, argv[i]);
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
        GS_TRY(parse_value(o, equals ? equals + 1 : argv[++i]));
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
    if (o->kind != GS_OPTION_FLAG) return parse_value(o, text);
    *(bool *)o->value = strcmp(text, "yes") == 0;
    return GS_OK;
}

/* What is written takes the place of nothing that is read, under whatever name. */
static gs_status check_outputs(const gs_option *options) {
    static const char *const outputs[] = {"out", "report", "save"}, text[] = "text:";
    const gs_option *data = option_named(options, "data");
    const char *from = data && data->value ? *(const char *const *)data->value : NULL;
    const char *file = from && strncmp(from, text, strlen(text)) == 0 ? from + strlen(text) : "";
    for (int i = 0; i < 3 && from; i++) {
        const gs_option *o = option_named(options, outputs[i]);
        const char *to = o && o->value ? *(const char *const *)o->value : NULL;
        if (to && (gs_file_is_same(to, file) || gs_npy_reads(from, to)))
            return gs_fail(GS_E_USAGE, "--%s %s would replace a file of --data %s; choose another name",
                           o->name, to, from);
    }
    return GS_OK;
}

bool gs_options_taken(const gs_option *options, const gs_help *h, int argc, char **argv, int *words,
                      int *exit_status) {
    bool help;
    int others;
    gs_status status = gs_options_parse(options, argc, argv, &others, &help);
    *exit_status = GS_EXIT_OK;
    if (words) *words = others;
    if (status == GS_OK && help) return gs_options_help(h, options), false;
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
    /* Of a launch the launcher ends the others; ranks on other nodes, or started by hand, wait for this one, and are
     * told. */
    bool told = gs_launch_tell(status, why, &said);
    fflush(stdout);
    gs_working(NULL, 0, NULL);
    snprintf(sentence, sizeof sentence, "gradsum %s: %s", command, why);
    if (!(said && usage)) gs_print_sentence(stderr, sentence); /* once, not by each process */
    bool awaited = strcmp(command, "train") == 0 || strcmp(command, "eval") == 0;
    gs_rendezvous r;
    if (awaited && gs_rendezvous_from_environment(&r) == GS_OK && (!told || r.nodes > 1))
        gs_comm_stay_away(&r, status, why);
    return usage ? GS_EXIT_USAGE : GS_EXIT_FAILED;
}

/* ---- the options of a run ---- */

static gs_option option_of(const gs_run_option *o, gs_settings *s) {
    return (gs_option){o->name, o->kind, (char *)s + o->at, o->min, o->max, o->argument, o->help};
}

const gs_option *gs_run_options(gs_settings *s, int users, const gs_option *own) {
    static gs_option table[GS_OPTIONS_MOST + 1];
    size_t n = 0;
    for (const gs_run_option *o = gs_run_table; o->name; o++)
        if (o->users == GS_ALL_RUNS || (o->users & users)) table[n++] = option_of(o, s);
    for (; own && own->name; own++) {
        size_t at = 0;
        while (at < n && strcmp(table[at].name, own->name) != 0) at++;
        bool whole = own->value || own->kind == GS_OPTION_REFUSED;
        table[at] = whole ? *own : option_of(gs_run_option_named(own->name), s);
        if (own->help) table[at].help = own->help;
        n += at == n;
    }
    table[n] = (gs_option){0};
    return table;
}
