/* --help: a table of options as text, with the defaults that the table's values hold. */
#include "cli/options/manual.h"

#include <stdio.h>
#include <string.h>

enum { MARGIN = 25 };

const char *gs_option_default(const gs_option *o, char *text, size_t size) {
    if (o->kind == GS_OPTION_FLAG || o->kind == GS_OPTION_CHANNELS || o->kind == GS_OPTION_SLOW ||
        o->kind == GS_OPTION_AUGMENT || o->kind == GS_OPTION_SEGMENTS || o->kind == GS_OPTION_JITTER ||
        o->kind == GS_OPTION_LINK || o->kind == GS_OPTION_RANGE || o->kind == GS_OPTION_OFFLOAD ||
        o->kind == GS_OPTION_EVERY || strstr(o->help, "(default"))
        return "";
    if (gs_option_is_number(o->kind)) {
        double value = gs_option_number(o->kind, o->value);
        /* outside of what may be said: off, or found out later */
        if (!(value >= o->min && value <= o->max)) return "";
    }
    return gs_option_text(o->kind, o->value, text, size);
}

static void print_option(const gs_option *o) {
    char left[40], right[400], number[48];
    const char *usual = gs_option_default(o, number, sizeof number);
    snprintf(left, sizeof left, "%s%s%s %s", strcmp(o->name, "out") == 0 ? "-o, " : "", gs_option_dashes(o),
             o->name, o->argument ? o->argument : "");
    snprintf(right, sizeof right, "%s%s%s%s", o->help, *usual ? " (default " : "", usual, *usual ? ")" : "");
    if (strlen(left) > 22)
        printf("  %s\n%*s", left, MARGIN, "");
    else
        printf("  %-22s ", left);
    gs_print_wrapped(MARGIN, right);
}

void gs_options_help(const gs_help *h, const gs_option *options) {
    if (gs_manual_options(h, options)) return;
    printf("usage: gradsum %s\n\n%s\n\n", h->usage, h->what);
    for (const gs_option *o = options; o->name; o++)
        if (o->kind != GS_OPTION_REFUSED) print_option(o);
    printf("  %-22s %s\n\nexample:\n  %s\n", "--help", "show this", h->example);
    if (h->more) h->more();
}
