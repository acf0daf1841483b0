#include "cli/draw/wrapped.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 80 };

void gs_print_wrapped(int margin, const char *text) {
    int column = margin;
    while (*text) {
        int length = (int)strcspn(text, strncmp(text, "(default", 8) == 0 ? ")" : " ");
        length += (int)strcspn(text + length, " "); /* and what follows the ')' */
        if (column > margin && column + 1 + length > COLUMNS) {
            printf("\n%*s", margin, "");
            column = margin;
        }
        column += printf("%s%.*s", column > margin ? " " : "", length, text);
        text += length;
        text += strspn(text, " ");
    }
    printf("\n");
}

void gs_print_name(FILE *to, const char *name, int width) {
    bool fits = (int)strlen(name) <= width;
    if (!fits) fprintf(to, "%s\n", name);
    fprintf(to, "%-*s", width, fits ? name : "");
}

void gs_print_fact(const char *label, const char *format, ...) {
    enum { MARGIN = 9 };
    char *text; /* that of a model has any length */
    va_list args;
    va_start(args, format);
    const int length = vasprintf(&text, format, args);
    va_end(args);
    printf("%-*s", MARGIN, label);
    gs_print_wrapped(MARGIN, length < 0 ? "(no memory)" : text);
    if (length >= 0) free(text);
}
