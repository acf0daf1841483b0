#include "cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

static const char *dashes(const gs_option *o) {
    return o->name[1] ? "--" : "-";
}

static gs_status wrong_value(const gs_option *o, const char *text, const char *wanted) {
    return gs_fail(GS_E_USAGE, "%s%s: '%s' is not %s", dashes(o), o->name, text, wanted);
}

static gs_status parse_number(const gs_option *o, const char *text, double *out) {
    char *end, range[96], low[24], high[24];
    bool whole = o->kind != GS_OPTION_FLOAT && o->kind != GS_OPTION_DOUBLE;
    errno = 0;
    double value = strtod(text, &end);
    snprintf(low, sizeof low, "%.12g", o->min);
    snprintf(high, sizeof high, "%.12g", o->max);
    if (isfinite(o->max))
        snprintf(range, sizeof range, "a %snumber from %s to %s", whole ? "whole " : "", low, high);
    else
        snprintf(range, sizeof range, "a %snumber, at least %s", whole ? "whole " : "", low);
    bool digits_only = strspn(text, whole ? "0123456789" : "0123456789.eE+-") == strlen(text);
    if (end == text || *end || !digits_only || value < o->min || value > o->max || !isfinite(value))
        return wrong_value(o, text, range);
    *out = value;
    return GS_OK;
}

static gs_status parse_batch(const gs_option *o, const char *text) {
    double number;
    if (strcmp(text, "all") == 0) {
        *(size_t *)o->value = 0;
        return GS_OK;
    }
    if (parse_number(o, text, &number) != GS_OK)
        return wrong_value(o, text, "a whole number of samples from 1 up, or 'all'");
    *(size_t *)o->value = (size_t)number;
    return GS_OK;
}

static gs_status parse_loss(const gs_option *o, const char *text) {
    if (strcmp(text, "cross_entropy") == 0)
        *(gs_loss *)o->value = GS_SOFTMAX_CROSS_ENTROPY;
    else if (strcmp(text, "squared_error") == 0)
        *(gs_loss *)o->value = GS_MEAN_SQUARED_ERROR;
    else
        return wrong_value(o, text, "cross_entropy or squared_error");
    return GS_OK;
}

static gs_status parse_shape(const gs_option *o, const char *text) {
    gs_shape s;
    char end;
    if (sscanf(text, "%4dx%5dx%5d%c", &s.c, &s.h, &s.w, &end) != 3 || s.c < 1 || s.h < 1 || s.w < 1)
        return wrong_value(o, text, "CHANNELSxHEIGHTxWIDTH, such as 1x28x28");
    *(gs_shape *)o->value = s;
    return GS_OK;
}

static gs_status parse_slow(const gs_option *o, const char *text) {
    char *colon, *end;
    unsigned long rank = strtoul(text, &colon, 10);
    double ms = *colon == ':' ? strtod(colon + 1, &end) : -1;
    bool plain = strspn(text, "0123456789:.") == strlen(text) && *text != ':';
    if (!plain || !(ms >= 0 && ms <= 1e6) || end == colon + 1 || *end || rank > INT_MAX)
        return wrong_value(o, text, "RANK:MS, such as 1:50; at most 1000000 ms");
    *(gs_slow *)o->value = (gs_slow){(int)rank, ms};
    return GS_OK;
}

static gs_status parse_wire(const gs_option *o, const char *text) {
    if (gs_wire_find(text, o->value) == GS_OK) return GS_OK;
    return wrong_value(o, text, "f32, f16 or bf16");
}

static gs_status parse_range(const gs_option *o, const char *text) {
    gs_range r = {0, 0};
    char *end = NULL;
    bool digits = *text >= '0' && *text <= '9';
    if (strcmp(text, "none") == 0) {
        *(gs_range *)o->value = r;
        return GS_OK;
    }
    errno = 0;
    if (digits) r.first = r.last = strtoull(text, &end, 10);
    if (digits && *end == '-' && isdigit((unsigned char)end[1])) r.last = strtoull(end + 1, &end, 10);
    if (!digits || *end || errno || r.first < 1 || r.last < r.first)
        return wrong_value(o, text, "FIRST-LAST, such as 4-7, one step, or none; the first step is 1");
    *(gs_range *)o->value = r;
    return GS_OK;
}

static gs_status parse_value(const gs_option *o, const char *text) {
    double number;
    switch (o->kind) {
    case GS_OPTION_TEXT:
        if (!*text) return wrong_value(o, text, "anything: a value is wanted");
        *(const char **)o->value = text;
        return GS_OK;
    case GS_OPTION_BATCH:
        return parse_batch(o, text);
    case GS_OPTION_LOSS:
        return parse_loss(o, text);
    case GS_OPTION_SHAPE:
        return parse_shape(o, text);
    case GS_OPTION_SLOW:
        return parse_slow(o, text);
    case GS_OPTION_WIRE:
        return parse_wire(o, text);
    case GS_OPTION_RANGE:
        return parse_range(o, text);
    case GS_OPTION_RULE:
        return gs_context(gs_lr_rule_find(text, o->value), "--%s", o->name);
    default:
        GS_TRY(parse_number(o, text, &number));
    }
    if (o->kind == GS_OPTION_INT) *(int *)o->value = (int)number;
    if (o->kind == GS_OPTION_COUNT) *(uint64_t *)o->value = strtoull(text, NULL, 10);
    if (o->kind == GS_OPTION_FLOAT) *(float *)o->value = (float)number;
    if (o->kind == GS_OPTION_DOUBLE) *(double *)o->value = number;
    return GS_OK;
}

/* ---- names ---- */

/* How many letters must change to make one word of the other (Levenshtein); 99 for long words. */
static int distance(const char *a, const char *b) {
    enum { LONGEST = 40 };
    int row[LONGEST + 1];
    size_t na = strlen(a), nb = strlen(b);
    if (na > LONGEST || nb > LONGEST) return 99;
    for (size_t j = 0; j <= nb; j++) row[j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int change = diagonal + (a[i - 1] != b[j - 1]), insert = row[j - 1] + 1, erase = row[j] + 1;
            diagonal = row[j];
            row[j] = change < insert ? change : insert;
            if (erase < row[j]) row[j] = erase;
        }
    }
    return row[nb];
}

static gs_status unknown_option(const gs_option *options, const char *name) {
    const gs_option *nearest = NULL;
    int best = 4;
    for (const gs_option *o = options; o->name; o++) {
        int d = distance(name, o->name);
        if (d < best) {
            best = d;
            nearest = o;
        }
    }
    if (nearest)
        return gs_fail(GS_E_USAGE, "there is no option --%s; did you mean --%s?", name, nearest->name);
    return gs_fail(GS_E_USAGE, "there is no option --%s; --help lists the options", name);
}

gs_status gs_options_parse(const gs_option *options, int argc, char **argv, int *words, bool *help) {
    *words = 0;
    *help = false;
    for (int i = 1; i < argc; i++) {
        char name[64];
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            *help = true;
            continue;
        }
        if (strcmp(argv[i], "-o") != 0 && (argv[i][0] != '-' || argv[i][1] == 0)) {
            argv[++*words] = argv[i];
            continue;
        }
        const char *text = argv[i] + strspn(argv[i], "-"), *equals = strchr(text, '=');
        if (strcmp(argv[i], "-o") == 0) text = "out";
        snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - text) : (int)strlen(text), text);
        const gs_option *o = options;
        while (o->name && strcmp(o->name, name) != 0) o++;
        if (!o->name) return unknown_option(options, name);
        if (o->kind == GS_OPTION_FLAG) {
            if (equals) return gs_fail(GS_E_USAGE, "--%s takes no value", o->name);
            *(bool *)o->value = true;
            continue;
        }
        if (!equals && i + 1 >= argc)
            return gs_fail(GS_E_USAGE, "%s%s wants a value: %s", dashes(o), o->name, o->argument);
        GS_TRY(parse_value(o, equals ? equals + 1 : argv[++i]));
    }
    return GS_OK;
}

gs_status gs_no_words(int words, char **argv) {
    if (words == 0) return GS_OK;
    return gs_fail(GS_E_USAGE, "'%s' is not an option; --help lists the options", argv[1]);
}

void gs_options_help(const char *usage, const char *what, const char *example, const gs_option *options) {
    printf("usage: gradsum %s\n\n%s\n\n", usage, what);
    for (const gs_option *o = options; o->name; o++) {
        char left[40];
        bool is_out = strcmp(o->name, "out") == 0;
        snprintf(left, sizeof left, "%s%s %s", is_out ? "-o, --" : dashes(o), o->name,
                 o->argument ? o->argument : "");
        printf("  %-22s %s\n", left, o->help);
    }
    printf("  %-22s %s\n\nexample:\n  %s\n", "--help", "show this", example);
}

int gs_failed(const char *command, gs_status status) {
    fflush(stdout);
    fprintf(stderr, "gradsum %s: %s\n", command, gs_message());
    return status == GS_E_USAGE || status == GS_E_MODEL ? GS_EXIT_USAGE : GS_EXIT_FAILED;
}

/* ---- the options of a run ---- */

const gs_option *gs_run_options(gs_settings *s, bool training, const gs_option *own) {
    static gs_option table[64];
    const gs_option both[] = {
        {"model", GS_OPTION_TEXT, &s->model, 0, 0, "NAME|TEXT",
         "softmax, mlp, lenet, cnn, or layers: \"linear 10\""},
        {"data", GS_OPTION_TEXT, &s->data, 0, 0, "NAME|DIR",
         "fashion-mnist, fashion-mnist-small, or a folder"},
        {"device", GS_OPTION_TEXT, &s->devices, 0, 0, "NAME",
         "cpu, cl, cl:P.D, cl:P.D/KofN (gradsum devices)"},
        {"devices", GS_OPTION_TEXT, &s->devices, 0, 0, "LIST", "one worker on each: cpu,cpu"},
        {"threads", GS_OPTION_INT, &s->threads, 0, 1024, "T",
         "CPU threads of each worker; 0: divide the cores"},
        {"loss", GS_OPTION_LOSS, &s->loss, 0, 0, "NAME", "cross_entropy (softmax) or squared_error"},
        {"load", GS_OPTION_TEXT, &s->load, 0, 0, "FILE", "begin with these weights (safetensors)"},
        {"timeout", GS_OPTION_DOUBLE, &s->timeout, 0.1, 86400, "S", "seconds to wait for another worker"},
    };
    const gs_option train[] = {
        {"sync", GS_OPTION_TEXT, &s->sync, 0, 0, "NAME",
         "a scheme (step --help), sharded-update, local, async"},
        {"wire", GS_OPTION_WIRE, &s->wire, 0, 0, "TYPE",
         "gradients travel as f32, f16 or bf16; sums are f32"},
        {"bucket", GS_OPTION_INT, &s->bucket, 0, 1e6, "KB",
         "during backward sum whole layers, KB or more at a time"},
        {"staleness", GS_OPTION_INT, &s->staleness, 0, 1000, "K",
         "async: steps that a worker may be ahead of the slowest"},
        {"every", GS_OPTION_INT, &s->every, 1, 1e9, "H", "local: weights averaged every H steps"},
        {"batch", GS_OPTION_BATCH, &s->batch, 1, 1e15, "B", "the global batch; all: full gradient descent"},
        {"epochs", GS_OPTION_INT, &s->epochs, 1, 1e6, "E", "passes over the training set"},
        {"steps", GS_OPTION_COUNT, &s->steps, 1, 1e15, "N", "end after so many steps"},
        {"lr", GS_OPTION_FLOAT, &s->lr, 0, 1e6, "X", "learning rate"},
        {"lr-rule", GS_OPTION_RULE, &s->lr_rule, 0, 0, "RULE",
         "none; linear: lr x batch / base batch; sqrt: its root"},
        {"base-batch", GS_OPTION_COUNT, &s->base_batch, 1, 1e15, "B",
         "of the rule (128); one worker's: lr x workers"},
        {"warmup", GS_OPTION_DOUBLE, &s->warmup, 0, 1e6, "E",
         "of the rule: E epochs up from --lr to the scaled rate"},
        {"momentum", GS_OPTION_FLOAT, &s->momentum, 0, 1, "X", "momentum of SGD; 0: plain SGD"},
        {"weight-decay", GS_OPTION_FLOAT, &s->weight_decay, 0, 1e6, "X", "weight decay (L2)"},
        {"seed", GS_OPTION_COUNT, &s->seed, 0, 1e18, "N", "decides weights, order and dropout"},
        {"accumulate", GS_OPTION_INT, &s->accumulate, 1, 1e6, "K",
         "sum once after K passes over parts of a worker's share"},
        {"throttle", GS_OPTION_DOUBLE, &s->throttle, 0.001, 1e6, "MB/S",
         "slow each loader down to so much, to see it"},
        {"slow", GS_OPTION_SLOW, &s->slow, 0, 0, "RANK:MS", "let this worker sleep MS in each step"},
        {"exact", GS_OPTION_FLAG, &s->exact, 0, 0, NULL,
         "same bits for 1, 2, 4, 8 workers (cpu, 1 thread each)"},
        {"verify", GS_OPTION_COUNT, &s->verify, 1, 1e15, "N",
         "every N steps, stop if the workers' weights differ"},
        {"save", GS_OPTION_TEXT, &s->save, 0, 0, "FILE", "write the weights (safetensors)"},
    };
    size_t n = 0;
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) table[n++] = both[i];
    for (size_t i = 0; training && i < sizeof train / sizeof *train; i++) table[n++] = train[i];
    for (; own && own->name; own++) {
        size_t at = 0;
        while (at < n && strcmp(table[at].name, own->name) != 0) at++;
        table[at] = *own;
        n += at == n;
    }
    table[n] = (gs_option){0};
    return table;
}
