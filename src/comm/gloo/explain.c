/* What a sentence of Gloo means. */
#include "comm/gloo/gloo_c.h"

#include <stdio.h>
#include <string.h>

/* Gloo reports "Application timeout caused pair closure" on every connection after one wait on this side was too long
 * (or after gs_gloo_close let one time out). */
static const char CLOSED_HERE[] = "Application timeout";

bool gs_gloo_closed_here(const gs_gloo_error *error) {
    return strstr(error->text, CLOSED_HERE) != NULL;
}

gs_gloo_code gs_gloo_explain(gs_gloo_error *error, gs_gloo_code code, const char *what) {
    const char *end = what[0] == '[' ? strstr(what, "] ") : NULL;
    const char *text = end ? end + 2 : what;
    if (strncmp(text, "Connection closed by peer", 25) == 0) text = "connection closed";
    if (strstr(text, "reset by peer")) text = "connection reset";
    bool late = (strstr(text, "Timed out") || strstr(text, "timeout")) && !strstr(text, CLOSED_HERE);
    error->code = code == GS_GLOO_LOST && late ? GS_GLOO_TIMEOUT : code;
    snprintf(error->text, sizeof error->text, "%s", text);
    return error->code;
}
