#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "core/text.h"

static _Thread_local char message[1024];

gs_status gs_fail(gs_status code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char text[sizeof message]; /* the arguments may include gs_message() itself */
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    /* messages quote file names and file contents, which must not control a terminal */
    gs_printable_into(message, sizeof message, text, "\n\t");
    return code;
}

gs_status gs_context(gs_status code, const char *format, ...) {
    if (code == GS_OK) return code;
    char where[sizeof message];
    va_list args;
    va_start(args, format);
    vsnprintf(where, sizeof where, format, args);
    va_end(args);
    return gs_fail(code, "%s: %s", where, message);
}

const char *gs_message(void) {
    return message;
}

gs_status gs_error_keep(gs_error *e, gs_status status) {
    if (status == GS_OK || e->status != GS_OK) return status;
    e->status = status;
    snprintf(e->message, sizeof e->message, "%s", message);
    return status;
}

gs_status gs_error_again(const gs_error *e) {
    return e->status == GS_OK ? GS_OK : gs_fail(e->status, "%s", e->message);
}

const char *gs_status_name(gs_status code) {
    static const char *const sentences[] = {
#define GS_SENTENCE(name, sentence) sentence,
        GS_STATUS_LIST(GS_SENTENCE)
#undef GS_SENTENCE
    };
    size_t count = sizeof sentences / sizeof *sentences;
    return (size_t)code < count ? sentences[code] : "an unknown status";
}

void gs_bug(const char *format, ...) {
    char text[sizeof message];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "gradsum: bug: %s\n", text); /* one write: workers often meet the same bug at once */
    abort();
}

const char *gs_s(unsigned long long n) {
    return n == 1 ? "" : "s";
}

const char *gs_es(unsigned long long n) {
    return n == 1 ? "" : "es";
}
