#include <math.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/step/layout.h"
#include "layer/parallel/tensor.h"

enum { LABEL = 12, WIDTH = 66 };

/* A line of the picture: one character for each of WIDTH equal parts of the time from..to. */
typedef struct line {
    double from, to;
    char text[WIDTH + 1];
} line;

static line line_of(double from, double to, char with) {
    line l = {.from = from, .to = to};
    memset(l.text, with, WIDTH);
    return l;
}

/* The cell in which a moment lies. */
static int cell_of(const line *l, double at) {
    const double part = (at - l->from) / (l->to > l->from ? l->to - l->from : 1);
    return part <= 0 ? 0 : part >= 1 ? WIDTH - 1 : (int)(part * WIDTH);
}

/* At least one cell, so that nothing is lost; `mark` stands in the first one. */
static void paint(line *l, double start, double end, char with, char mark) {
    if (end < l->from || start > l->to) return;
    const int first = cell_of(l, start), behind = cell_of(l, end), last = behind > first ? behind - 1 : first;
    for (int i = first; i <= last; i++) l->text[i] = with;
    if (mark) l->text[first] = mark;
}

static void print(const char *label, line *l) {
    int end = WIDTH;
    while (end > 0 && l->text[end - 1] == ' ') end--;
    l->text[end] = 0;
    printf("%-*s%s%s\n", end > 0 ? LABEL : 0, label, end > 0 ? " " : "", l->text);
}

static void print_scale(const gs_step_layout *s, double from, double to) {
    printf("%-*s from %.1f ms of the step to %.1f ms, a place is %.2f ms\n", LABEL, "time",
           1e3 * (from - s->start), 1e3 * (to - s->start), 1e3 * (to - from) / WIDTH);
}

static char digit(int n) {
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    return digits[n % 36];
}

/* ---- pipelines ---- */

static void show_pipeline(const gs_step_layout *s) {
    printf("0>>  forward of micro-batch 0     0<<  its backward     .  waits\n"
           "s    sums gradients               u    update           l  loads samples\n");
    if (s->layout.dp > 1 || s->layout.tp > 1)
        printf("s1%s%s  stage 1%s%s\n", s->layout.dp > 1 ? " r0" : "", s->layout.tp > 1 ? " p0" : "",
               s->layout.dp > 1 ? ", replica 0" : "",
               s->layout.tp > 1 ? ", part 0 of its layers, with the sums in their group" : "");
    printf("\n");
    print_scale(s, s->start, s->end);
    for (int r = 0; r < s->workers; r++) {
        static const char marks[GS_PHASES] = {'l', '.', '.', '.', 'u'};
        line l = line_of(s->start, s->end, '.');
        char label[GS_STEP_PLACE];
        const gs_timeline_part *p = &s->part[r];
        double computed = s->start;
        for (size_t i = 0; i < p->count; i++) {
            const gs_span *t = &p->span[i];
            if (t->kind == GS_SPAN_PHASE && marks[t->index] != '.')
                paint(&l, t->start, t->end, marks[t->index], 0);
            if (t->kind == GS_SPAN_STAGE_BACKWARD) computed = fmax(computed, t->end);
        }
        for (size_t i = 0; i < p->count; i++) {
            const gs_span *t = &p->span[i];
            if (t->kind == GS_SPAN_PHASE && t->index == GS_PHASE_SYNC && t->start >= computed &&
                s->layout.dp > 1)
                paint(&l, t->start, t->end, 's', 0);
        }
        for (size_t i = 0; i < p->count; i++) {
            const gs_span *t = &p->span[i];
            if (t->kind == GS_SPAN_STAGE_FORWARD || t->kind == GS_SPAN_STAGE_BACKWARD)
                paint(&l, t->start, t->end, t->kind == GS_SPAN_STAGE_FORWARD ? '>' : '<', digit(t->index));
        }
        print(gs_step_place_text(&s->layout, r, label), &l);
    }
}

/* ---- ZeRO ---- */

/* One line for all that a worker does with a unit. */
static line line_of_unit(const gs_step_layout *s, const gs_timeline_part *p, int unit) {
    /* in the order in which they are painted: what comes later hides what is below */
    static const struct {
        gs_span_kind kind;
        char with;
    } paints[] = {{GS_SPAN_UNIT_GRADIENTS, '%'},
                  {GS_SPAN_UNIT_WEIGHTS, '#'},
                  {GS_SPAN_UNIT_GATHER, 'g'},
                  {GS_SPAN_UNIT_REDUCE, 's'}};
    line l = line_of(s->start, s->end, s->layout.zero > 2 ? '.' : ' ');
    for (size_t k = 0; k < sizeof paints / sizeof *paints; k++)
        for (size_t i = 0; i < p->count; i++) {
            const gs_span *t = &p->span[i];
            if (t->kind == (int32_t)paints[k].kind && t->index == unit)
                paint(&l, t->start, t->end, paints[k].with, 0);
        }
    return l;
}

static const gs_span *first_of_unit(const gs_timeline_part *p, int unit) {
    for (size_t i = 0; i < p->count; i++) {
        const gs_span *t = &p->span[i];
        if ((t->kind == GS_SPAN_UNIT_REDUCE || t->kind == GS_SPAN_UNIT_GATHER) && t->index == unit) return t;
    }
    return NULL;
}

static line line_of_phases(const gs_step_layout *s, const gs_timeline_part *p) {
    static const char marks[GS_PHASES] = {'l', '>', '<', 's', 'u'};
    line l = line_of(s->start, s->end, '.');
    bool updated = false; /* then all-gathers follow */
    for (size_t i = 0; i < p->count; i++) {
        const gs_span *t = &p->span[i];
        if (t->kind != GS_SPAN_PHASE) continue;
        paint(&l, t->start, t->end,
              updated && t->index == GS_PHASE_SYNC && s->layout.zero < 3 ? 'g' : marks[t->index], 0);
        updated |= t->index == GS_PHASE_UPDATE;
    }
    return l;
}

static void show_zero(const gs_step_layout *s) {
    printf("worker  >  forward  <  backward  s  sums what all hold  u  update  l  loads\n");
    if (s->layout.zero > 2)
        printf("layer   .  has its own part of the weights   g  all-gather   #  has a window\n");
    else
        printf("both    g  all-gather of updated weights\n");
    printf("%-7s s  reduce-scatter of its gradients%s\n\n", s->layout.zero > 2 ? "" : "layer",
           s->layout.zero > 1 ? "   %  a window has all its gradients" : "");
    print_scale(s, s->start, s->end);
    for (int r = 0; r < s->workers; r++) {
        char label[32];
        snprintf(label, sizeof label, "worker %d", r);
        line l = line_of_phases(s, &s->part[r]);
        print(label, &l);
        const gs_span *first;
        for (int u = 0; (first = first_of_unit(&s->part[r], u)); u++) {
            char layers[16];
            gs_step_children_of(s, first->first, first->count, layers, sizeof layers);
            snprintf(label, sizeof label, " layer %.5s", layers);
            l = line_of_unit(s, &s->part[r], u);
            print(label, &l);
        }
    }
}

/* ---- tensor parallelism ---- */

static void paint_layers(const gs_step_layout *s, const gs_timeline_part *p, line *l) {
    static const char marks[] = "=cirwwt", acts[] = "+gs"; /* of gs_tensor_role, gs_tensor_act */
    for (size_t i = 0; i < p->count; i++) {
        const gs_span *t = &p->span[i];
        if (t->kind != GS_SPAN_FORWARD_LAYER && t->kind != GS_SPAN_BACKWARD_LAYER) continue;
        const gs_layer *y = s->layer[t->index];
        if (y->children == 0) paint(l, t->start, t->end, marks[gs_tensor_role_of(y)], 0);
    }
    for (size_t i = 0; i < p->count; i++) {
        const gs_span *t = &p->span[i];
        if (t->kind == GS_SPAN_GROUP_CALL) paint(l, t->start, t->end, acts[t->index], 0);
    }
}

static void widen(const gs_step_layout *s, gs_span_kind kind, int number, double *from, double *to) {
    for (int r = 0; r < s->workers; r++)
        for (size_t i = 0; i < s->part[r].count; i++) {
            const gs_span *t = &s->part[r].span[i];
            if (t->kind != (int32_t)kind || t->index != number) continue;
            *from = fmin(*from, t->start);
            *to = fmax(*to, t->end);
        }
}

static void show_lines(const gs_step_layout *s, double from, double to) {
    print_scale(s, from, to);
    for (int r = 0; r < s->workers; r++) {
        char label[32];
        line l = line_of(from, to, '.');
        paint_layers(s, &s->part[r], &l);
        snprintf(label, sizeof label, "worker %d", r);
        print(label, &l);
    }
}

static void show_tensor(const gs_step_layout *s) {
    const int layers = (int)gs_layer_count(s->divided->net);
    int columns = 0, rows, each;
    const int tokens = gs_step_tokens_of(s, &each);
    while (columns < layers && gs_tensor_role_of(s->layer[columns]) != GS_TENSOR_COLUMNS) columns++;
    for (rows = columns; rows + 1 < layers && gs_tensor_role_of(s->layer[rows]) != GS_TENSOR_ROWS;) rows++;
    printf("c  columns: the first layer of a pair     i  between, on the worker's part\n"
           "r  rows: the second layer of a pair       +  sum in the group, with its wait\n"
           "%-42s.  sums gradients, updates, loads\n",
           tokens > 0 ? "t  computed for the worker's own tokens" : "=  computed by all workers alike");
    if (tokens > 0)
        printf("%-42s%s\n", "g  all-gather of what the others have", "s  reduce-scatter: a sum in parts");
    if (gs_tensor_outputs(s->divided->net)) printf("w  some of the words\n");
    printf("\n");
    show_lines(s, s->start, s->end);
    for (int back = 0; back < 2; back++) {
        double from = INFINITY, to = -INFINITY;
        const gs_span_kind kind = back ? GS_SPAN_BACKWARD_LAYER : GS_SPAN_FORWARD_LAYER;
        widen(s, kind, columns, &from, &to);
        widen(s, kind, rows, &from, &to);
        if (from > to) continue;
        printf("\n%s of the first pair, layers %s to %s\n", back ? "backward" : "forward",
               s->layer[columns]->name, s->layer[rows]->name);
        show_lines(s, from, to);
    }
}

/* ---- all ---- */

/* Columns as wide as their widest cell, two blanks apart; numbers to the right. */
static void print_table(const gs_step_facts *f) {
    int width[GS_STEP_CELLS] = {0};
    for (int c = 0; c < f->columns; c++)
        for (int i = -1; i < f->rows; i++) {
            const int n = (int)strlen(i < 0 ? f->head[c] : f->cell[i][c]);
            if (n > width[c]) width[c] = n;
        }
    for (int i = -1; i < f->rows; i++)
        for (int c = 0; c < f->columns; c++) {
            const char *text = i < 0 ? f->head[c] : f->cell[i][c];
            printf("%*s%s", c == 0 ? -width[c] : width[c] + 2, text, c + 1 == f->columns ? "\n" : "");
        }
}

static void print_sentences(const gs_step_facts *f) {
    for (int i = 0; i < f->sentences; i++) {
        printf("\n");
        gs_print_wrapped(0, f->sentence[i]);
    }
}

void gs_step_layout_show(const gs_step_layout *s) {
    static gs_step_facts facts;
    char name[GS_LAYOUT_TEXT];
    gs_step_facts_of(s, &facts);
    printf("%s: step %llu of %s, global batch %zu, %d workers\n\n", gs_layout_text(&s->layout, name),
           (unsigned long long)s->settings.steps,
           gs_model_is_name(s->settings.model) ? s->settings.model : "the model", s->memory.batch,
           s->workers);
    if (s->kind == GS_STEP_PIPELINE)
        show_pipeline(s);
    else if (s->kind == GS_STEP_TENSOR)
        show_tensor(s);
    else
        show_zero(s);
    printf("\n");
    print_table(&facts);
    print_sentences(&facts);
}
