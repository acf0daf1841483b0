#include "cli/wrapped.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "core/text.h"

enum { COLUMNS = GS_SCREEN_DEFAULT };

int gs_screen_width(FILE *file) {
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    long asked = columns ? strtol(columns, NULL, 10) : 0;
    if (asked <= 0 && isatty(fileno(file)) && ioctl(fileno(file), TIOCGWINSZ, &size) == 0)
        asked = size.ws_col;
    if (asked <= 0) return GS_SCREEN_DEFAULT;
    return asked < GS_SCREEN_LEAST ? GS_SCREEN_LEAST : asked < 1000 ? (int)asked : 1000;
}

/* The width of wrapped text in columns: at most COLUMNS, because longer lines are hard to read. */
static int columns_of(FILE *file) {
    const int width = gs_screen_width(file);
    return width < COLUMNS ? width : COLUMNS;
}

/* ---- the length in bytes of a word or an item, which is never split ---- */

static int word_of(const char *text) {
    const int length = (int)strcspn(text, strncmp(text, "(default", 8) == 0 ? ")" : " ");
    return length + (int)strcspn(text + length, " "); /* including text after the ')' */
}

/* Up to a comma, but not a comma inside a number such as 1,234. */
static int item_of(const char *text) {
    const char *end = strchrnul(text, ',');
    while (*end && end[1] >= '0' && end[1] <= '9') end = strchrnul(end + 1, ',');
    return (int)(end - text) + (*end == ',');
}

static void print_pieces(FILE *to, int columns, int margin, const char *text, int (*piece_of)(const char *)) {
    int column = margin;
    while (*text) {
        const int length = piece_of(text);
        if (column > margin && column + 1 + length > columns) {
            fprintf(to, "\n%*s", margin, "");
            column = margin;
        }
        column += fprintf(to, "%s%.*s", column > margin ? " " : "", length, text);
        text += length;
        text += strspn(text, " ");
    }
    fprintf(to, "\n");
}

void gs_print_wrapped(int margin, const char *text) {
    print_pieces(stdout, COLUMNS, margin, text, word_of);
}

void gs_print_items(int margin, const char *text) {
    print_pieces(stdout, COLUMNS, margin, text, item_of);
}

void gs_print_sentence(FILE *to, const char *raw) {
    char text[8000];
    gs_printable_into(text, sizeof text, raw, "\n\t");
    if (isatty(fileno(to)) && !strchr(text, '\n'))
        print_pieces(to, columns_of(to), 0, text, word_of);
    else
        fprintf(to, "%s\n", text);
}

void gs_print_name(FILE *to, const char *name, int width) {
    bool fits = (int)strlen(name) <= width;
    if (!fits) fprintf(to, "%s\n", name);
    fprintf(to, "%-*s", width, fits ? name : "");
}

/* Returns NULL if there is no memory. */
static char *printable(const char *format, va_list args) {
    char *raw, *text = NULL; /* a model's text may have any length */
    if (vasprintf(&raw, format, args) < 0) return NULL;
    const size_t room = 4 * strlen(raw) + 1;
    if ((text = malloc(room))) gs_printable_into(text, room, raw, "\n\t");
    free(raw);
    return text;
}

void gs_print_line(const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = printable(format, args);
    va_end(args);
    printf("%s\n", text ? text : "(no memory)");
    free(text);
}

void gs_print_fact(const char *label, const char *format, ...) {
    enum { MARGIN = 9 };
    va_list args;
    va_start(args, format);
    char *text = printable(format, args);
    va_end(args);
    printf("%-*s", MARGIN, label);
    print_pieces(stdout, columns_of(stdout), MARGIN, text ? text : "(no memory)", word_of);
    free(text);
}

const char *gs_thousands(double number) {
    static char texts[4][40];
    static int next;
    char digits[32], *out = texts[next = (next + 1) % 4];
    const bool is_speed = number >= 0.01 && number < 9.95 && number != floor(number);
    int n = snprintf(digits, sizeof digits, is_speed ? "%.2g" : "%.0f", number), used = 0;
    for (int i = 0; i < n && used < 38; i++) {
        out[used++] = digits[i];
        if (!is_speed && (n - i - 1) % 3 == 0 && i + 1 < n && digits[i] != '-') out[used++] = ',';
    }
    out[used] = 0;
    return out;
}

double gs_shown(double number) {
    return isnan(number) ? (double)NAN : number;
}

double gs_percent(double share) {
    return round(1000 * share) / 10 + 0.0; /* -0 + 0 is 0 */
}
