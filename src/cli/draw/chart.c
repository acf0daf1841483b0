#include "cli/draw/chart.h"

#include <math.h>
#include <stdlib.h>

enum { MARGIN = 8, ROWS = 12, MOST = GS_SCREEN_DEFAULT };

typedef enum sign { BLANK, IDEAL, RANGE, POINT, NEVER } sign;

typedef struct plot {
    int columns; /* of the plot alone */
    double x0, x1, y0, y1;
    unsigned char cell[ROWS][MOST]; /* row 0 is the top; sign */
} plot;

static const char *text_of(const gs_screen *s, sign what) {
    static const char *const ascii[] = {" ", ".", "|", "o", "x"}, *const utf8[] = {" ", "·", "│", "●", "×"};
    return s->utf8 ? utf8[what] : ascii[what];
}

/* 0 .. last, in proportion to the logarithm; the middle if the range is a point */
static int place(double value, double from, double to, int last) {
    if (!(to > from)) return last / 2;
    double part =
        (log(value) - log(from)) / (log(to) - log(from)); /* a quotient of huge ones might overflow */
    return part > 0 ? part < 1 ? (int)(part * last + 0.5) : last : 0;
}

static int column_of(const plot *p, double x) {
    return place(x, p->x0, p->x1, p->columns - 1);
}

static int row_of(const plot *p, double y) {
    return ROWS - 1 - place(y, p->y0, p->y1, ROWS - 1);
}

static const gs_chart_point *first_point(const gs_chart *c) {
    for (int i = 0; i < c->count; i++)
        if (isfinite(c->points[i].y)) return &c->points[i];
    return NULL;
}

static bool has_range(const gs_chart_point *p) {
    return isfinite(p->least) && isfinite(p->most) && p->least > 0;
}

/* The limits of the axes include all points, their ranges, and the end of the ideal line. */
static void measure(plot *p, const gs_chart *c, const gs_chart_point *first) {
    p->x0 = c->points[0].x;
    p->x1 = c->points[c->count - 1].x;
    p->y0 = p->y1 = first->y;
    for (int i = 0; i < c->count; i++) {
        const gs_chart_point *point = &c->points[i];
        if (has_range(point)) {
            p->y0 = fmin(p->y0, point->least);
            p->y1 = fmax(p->y1, point->most);
        }
        if (!isfinite(point->y)) continue;
        p->y0 = fmin(p->y0, point->y);
        p->y1 = fmax(p->y1, point->y);
    }
    double ideal = first->y * (first->x / p->x1);
    if (ideal > 0) p->y0 = fmin(p->y0, ideal);
}

static void fill(plot *p, const gs_chart *c, const gs_chart_point *first) {
    for (int i = 0; i < p->columns; i++) {
        double part = (double)i / (p->columns - 1);
        double x = p->x1 > p->x0 ? exp((1 - part) * log(p->x0) + part * log(p->x1)) : p->x0;
        if (x >= first->x * (1 - 1e-9)) p->cell[row_of(p, first->y * (first->x / x))][i] = IDEAL;
    }
    for (int i = 0; i < c->count; i++) {
        const gs_chart_point *point = &c->points[i];
        int column = column_of(p, point->x);
        if (has_range(point))
            for (int row = row_of(p, point->most); row <= row_of(p, point->least); row++)
                p->cell[row][column] = RANGE;
        if (isfinite(point->y)) p->cell[row_of(p, point->y)][column] = POINT;
    }
}

/* The round number (1, 2 or 5 times a power of ten) in a row; 0: none. */
static double tick_of(const plot *p, int row) {
    static const int leading[] = {1, 2, 5};
    for (int power = (int)floor(log10(p->y0)); power <= (int)ceil(log10(p->y1)); power++)
        for (int i = 0; i < 3; i++) {
            double tick = leading[i] * pow(10, power);
            if (tick >= p->y0 * 0.999 && tick <= p->y1 * 1.001 && row_of(p, tick) == row) return tick;
        }
    return 0;
}

static void draw_row(FILE *to, const gs_screen *s, const char *label, const unsigned char *cells,
                     int columns) {
    fprintf(to, "%*s %s", MARGIN, label, s->utf8 ? "│" : "|");
    int last = columns;
    while (last > 0 && cells[last - 1] == BLANK) last--; /* no blanks at the end of a line */
    for (int i = 0; i < last; i++) fputs(text_of(s, (sign)cells[i]), to);
    fputc('\n', to);
}

static bool draw_never(FILE *to, const gs_screen *s, const gs_chart *c, const plot *p) {
    unsigned char cells[MOST] = {0};
    bool any = false;
    for (int i = 0; i < c->count; i++) {
        if (isfinite(c->points[i].y)) continue;
        cells[column_of(p, c->points[i].x)] = NEVER;
        any = true;
    }
    if (any) draw_row(to, s, "never", cells, p->columns);
    return any;
}

/* Label each point with its x, where there is room. */
static void draw_x_axis(FILE *to, const gs_screen *s, const gs_chart *c, const plot *p) {
    fprintf(to, "%*s %s", MARGIN, "", s->utf8 ? "└" : "+");
    for (int i = 0; i < p->columns; i++) fputs(s->utf8 ? "─" : "-", to);
    fprintf(to, "\n%*s  ", MARGIN, "");
    int used = 0;
    for (int i = 0; i < c->count; i++) {
        char label[24];
        int length = snprintf(label, sizeof label, "%g", c->points[i].x);
        int at = column_of(p, c->points[i].x) - length / 2;
        if (at + length > p->columns) at = p->columns - length;
        if (at < 0) at = 0;
        if (at < used + (used > 0)) continue;
        fprintf(to, "%*s%s", at - used, "", label);
        used = at + length;
    }
    fputc('\n', to);
}

static void draw_legend(FILE *to, const gs_screen *s, const gs_chart *c, bool never) {
    int indent = MARGIN + 2;
    fprintf(to, "%*s%s %s\n", indent, "", text_of(s, POINT), c->measured);
    if (c->range) fprintf(to, "%*s%s %s\n", indent, "", text_of(s, RANGE), c->range);
    fprintf(to, "%*s%s %s\n", indent, "", text_of(s, IDEAL), c->ideal);
    if (never) fprintf(to, "%*s%s %s\n", indent, "", text_of(s, NEVER), c->never);
}

void gs_chart_draw(FILE *to, const gs_screen *s, const gs_chart *c) {
    const gs_chart_point *first = first_point(c);
    if (!first) {
        fprintf(to, "no chart: %s\n", c->never);
        return;
    }
    plot p = {.columns = gs_screen_columns(s) - MARGIN - 3};
    measure(&p, c, first);
    fill(&p, c, first);
    fprintf(to, "%s\n", c->title);
    bool never = draw_never(to, s, c, &p);
    for (int row = 0; row < ROWS; row++) {
        char label[32] = "";
        double tick = tick_of(&p, row);
        if (tick > 0) snprintf(label, sizeof label, "%g", tick);
        draw_row(to, s, label, p.cell[row], p.columns);
    }
    draw_x_axis(to, s, c, &p);
    draw_legend(to, s, c, never);
}
