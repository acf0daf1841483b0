#include "cli/cli.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- --help: the options as text, with the table's values as defaults ---- */

enum { MARGIN = 25 };

/* An option's default: the text of its present value; "" if it is off or has no default. `text` is a buffer. */
static const char *default_of(const gs_option *o, char *text, size_t size) {
    if (o->kind == GS_OPTION_FLAG || o->kind == GS_OPTION_CHANNELS || o->kind == GS_OPTION_SLOW ||
        o->kind == GS_OPTION_AUGMENT || o->kind == GS_OPTION_SEGMENTS || o->kind == GS_OPTION_JITTER ||
        o->kind == GS_OPTION_LINK || o->kind == GS_OPTION_RANGE || o->kind == GS_OPTION_OFFLOAD ||
        o->kind == GS_OPTION_EVERY || strstr(o->help, "(default"))
        return "";
    if (gs_option_is_number(o->kind)) {
        double value = gs_option_number(o->kind, o->value);
        /* out of range: off, or determined later */
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

static enum { FOR_PEOPLE, FOR_MAN, FOR_SHELLS } reader;
static const gs_command *of; /* the command whose help is being printed */

/* ---- roff (man(7)) ---- */

/* Escape a dot or an apostrophe at the start of a line, which would be a request, and hyphens, which may become dashes.
 */
static void put(const char *text) {
    bool begins = true;
    for (; *text; text++) {
        if (begins && (*text == '.' || *text == '\'')) fputs("\\&", stdout);
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else
            putchar(*text);
        begins = *text == '\n';
    }
}

/* An empty line begins a paragraph. */
static void put_paragraphs(const char *text) {
    while (*text) {
        char line[200];
        int length = (int)strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", length, text);
        if (length == 0)
            printf(".PP");
        else
            put(line);
        putchar('\n');
        text += length + (text[length] == '\n');
    }
}

static void put_upper(const char *text) {
    for (; *text; text++) {
        if (*text == '-') putchar('\\');
        putchar(toupper((unsigned char)*text));
    }
}

static void page_begins(const char *name, const char *what) {
    printf(".TH ");
    put_upper(name);
    printf(" 1 %s \"gradsum %s\" \"gradsum\"\n.SH NAME\n", GRADSUM_DATE, GRADSUM_VERSION);
    put(name);
    printf(" \\- ");
    put(what);
    printf("\n.SH SYNOPSIS\n");
}

static void put_option(const gs_option *o) {
    char number[48];
    const char *usual = default_of(o, number, sizeof number);
    printf(".TP\n\\fB");
    if (strcmp(o->name, "out") == 0) printf("\\-o\\fR, \\fB");
    put(gs_option_dashes(o));
    put(o->name);
    printf("\\fR");
    if (o->argument) printf(" \\fI");
    if (o->argument) put(o->argument);
    if (o->argument) printf("\\fR");
    printf("\n");
    put(o->help);
    if (*usual) printf(" (default ");
    put(usual);
    printf(*usual ? ")\n" : "\n");
}

static void page_of_command(const gs_help *h, const gs_option *options) {
    char name[64];
    snprintf(name, sizeof name, "gradsum-%s", of->name);
    page_begins(name, of->what);
    printf(".B gradsum\n");
    put(h->usage);
    printf("\n.SH DESCRIPTION\n");
    put_paragraphs(h->what);
    printf(".SH OPTIONS\n");
    for (const gs_option *o = options; o->name; o++)
        if (o->kind != GS_OPTION_REFUSED) put_option(o);
    printf(".SH EXAMPLES\n.nf\n");
    put(h->example);
    printf("\n");
    if (h->more) h->more();
}

static void page_of_program(void) {
    page_begins("gradsum", "learn data-parallel training by running it");
    printf(".B gradsum\nCOMMAND [options]\n.PP\n.B gradsum\nCOMMAND \\-\\-help\n.SH COMMANDS\n");
    for (const gs_command *c = gs_commands; c->name; c++) {
        printf(".TP\n.BR gradsum\\-%s (1)\n", c->name);
        put(c->what);
        printf("\n");
    }
    printf(".SH EXIT STATUS\n0: done; 1: failed; 2: wrong usage. 128 and more: ended by a signal.\n"
           ".SH EXAMPLES\n.nf\n");
    put("gradsum launch -n 2 -- train --model lenet --epochs 3");
    printf("\n.fi\n");
}

/* ---- words ---- */

static bool is_listed(const gs_option *options, const char *name) {
    while (options && options->name && strcmp(options->name, name) != 0) options++;
    return options && options->name;
}

static void words_of_table(const gs_option *options, const gs_option *before) {
    for (const gs_option *o = options; o->name; o++)
        if (o->kind != GS_OPTION_REFUSED && !is_listed(before, o->name))
            printf("%s%s\t%s\t%s\n", gs_option_dashes(o), o->name, o->argument ? o->argument : "", o->help);
}

static const gs_option *(*other_form)(void);

void gs_words_also(const gs_option *(*form)(void)) {
    other_form = form;
}

static void words_of_options(const gs_option *options) {
    words_of_table(options, NULL);
    if (other_form) words_of_table(other_form(), options);
    printf("--help\t\tshow this\n");
}

void gs_options_help(const gs_help *h, const gs_option *options) {
    if (reader == FOR_MAN) page_of_command(h, options);
    if (reader == FOR_SHELLS) words_of_options(options);
    if (reader != FOR_PEOPLE) return;
    printf("usage: gradsum %s\n\n%s\n\n", h->usage, h->what);
    for (const gs_option *o = options; o->name; o++)
        if (o->kind != GS_OPTION_REFUSED) print_option(o);
    printf("  %-22s %s\n\nexample:\n  %s\n", "--help", "show this", h->example);
    if (h->more) h->more();
}

int gs_manual(int argc, char **argv) {
    reader = strcmp(argv[0], "--man") == 0 ? FOR_MAN : FOR_SHELLS;
    if (argc < 2 && reader == FOR_MAN) page_of_program();
    for (of = gs_commands; argc < 2 && reader == FOR_SHELLS && of->name; of++)
        printf("%s\t\t%s\n", of->name, of->what);
    if (argc < 2) return GS_EXIT_OK;
    for (of = gs_commands; of->name && strcmp(of->name, argv[1]) != 0;) of++;
    if (!of->name) {
        fprintf(stderr, "gradsum help: unknown command '%s'\n", argv[1]);
        return GS_EXIT_USAGE;
    }
    char *command_help[] = {argv[1], "--help", NULL};
    int exit_status = of->run(2, command_help);
    if (reader == FOR_MAN) printf(".fi\n.SH SEE ALSO\n.BR gradsum (1)\n");
    return exit_status;
}
