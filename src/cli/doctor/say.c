#include "cli/doctor/doctor.h"
#include "cli/cli.h"
#include "core/text.h"
#include "io/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MARGIN = 18, WORD = 80 - MARGIN, TEXT = 1500 };

static const char *const word_of[] = {[GS_WELL] = "ok", [GS_NOTE] = "note", [GS_WRONG] = "WRONG"};
static const char *const name_of[] = {[GS_WELL] = "ok", [GS_NOTE] = "note", [GS_WRONG] = "wrong"};

/* A word that is longer than a line, such as a path, goes on in the next one. */
static void divide_words(const char *from, char *to, size_t size) {
    size_t length = 0, used = 0;
    for (; *from && used + 2 < size; from++) {
        length = *from == ' ' ? 0 : length + 1;
        if (length > WORD) {
            to[used++] = ' ';
            length = 1;
        }
        to[used++] = *from;
    }
    to[used] = '\0';
}

static void print_text(gs_finding f, const char *what, const char *text, const char *advice) {
    char lines[TEXT + TEXT / WORD];
    printf("%-6s %-10s ", word_of[f], what);
    divide_words(text, lines, sizeof lines);
    gs_print_wrapped(MARGIN, lines);
    if (!advice) return;
    printf("%*s-> ", MARGIN - 3, "");
    divide_words(advice, lines, sizeof lines);
    gs_print_wrapped(MARGIN, lines);
}

void gs_doctor_say(gs_doctor *d, gs_finding f, const char *what, const char *advice, const char *format,
                   ...) {
    char raw[TEXT], text[TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(raw, sizeof raw, format, args);
    va_end(args);
    gs_printable_into(text, sizeof text, raw, ""); /* names of other machines are in it */
    d->notes += f == GS_NOTE;
    d->wrong += f == GS_WRONG;
    if (d->json) {
        gs_json_print(GS_JSON_OBJECT(GS_FIELD("event", "check"), GS_FIELD("about", what),
                                     GS_FIELD("status", name_of[f]), GS_FIELD("says", (const char *)text),
                                     GS_FIELD("advice", advice)));
    } else {
        print_text(f, what, text, advice);
    }
    gs_flush_output();
}

void gs_doctor_title(const gs_doctor *d, const char *title) {
    if (d->json) return;
    printf("%s\n", title);
    gs_flush_output();
}

void gs_doctor_fact(gs_doctor *d, const char *name, const char *format, ...) {
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    gs_append(d->facts, sizeof d->facts, "%s %s\n", name, text);
}

int gs_doctor_end(const gs_doctor *d) {
    const char *status = d->wrong ? "wrong" : "well";
    if (d->json)
        gs_json_print(GS_JSON_OBJECT(GS_FIELD("event", "end"), GS_FIELD("status", status),
                                     GS_FIELD("wrong", d->wrong), GS_FIELD("notes", d->notes)));
    else if (d->wrong)
        printf("\n%d thing%s wrong.\n", d->wrong, d->wrong == 1 ? " is" : "s are");
    else
        printf("\nAll is well.\n");
    return d->wrong ? GS_EXIT_FAILED : GS_EXIT_OK;
}
