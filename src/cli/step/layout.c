/* Shows a real step of a run whose workers share the model: `gradsum step --pipeline 2`, `--zero 3`, `--tensor 2`, with
 * the options of train. The run takes a few steps and traces the last one (train/timeline.h), which is shown in 80
 * columns, as JSON, or as a page (src/page/layout.js).
 */
#include "cli/step/step.h"
#include "io/json.h"
#include "parallel/tensor.h"
#include "model/model_text.h"
#include "page/page.h"
#include "predict/layout_plan.h"
#include "parallel/schedule.h"
#include "train/timeline.h"
#include "train/settings.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

/* What to show of a layout: the first of these kinds that it contains. */
typedef enum kind { PIPELINE, TENSOR, ZERO } kind;

typedef struct traced {
    gs_settings settings; /* resolved: every option has its final value */
    kind kind;
    gs_layout layout;
    char name[GS_LAYOUT_TEXT]; /* "pp2" */
    int workers;
    gs_memory_plan memory;
    gs_model *plan;         /* the whole model */
    gs_model *divided;      /* with tp: the model whose layers have tensor roles; else NULL */
    gs_layer **layer;       /* indexed by the layer's number in the trained model */
    gs_rank_timeline *part; /* indexed by worker */
    bool whole;             /* no span was lost */
    gs_result result;
    double start, end; /* of the traced step, over all workers */
} traced;

/* A worker's next span of one kind after `s` (NULL: its first span); index -1: any. Returns NULL if there is none. */
static const gs_span *next_span(const gs_rank_timeline *p, const gs_span *s, gs_span_kind kind, int index) {
    for (s = s ? s + 1 : p->span; s < p->span + p->count; s++)
        if (s->kind == (int32_t)kind && (index < 0 || s->index == index)) return s;
    return NULL;
}

/* ---- the run ---- */

/* Called once, in worker 0's thread. */
static void on_timeline(void *context, const gs_rank_timeline *parts, int workers) {
    traced *l = context;
    l->part = calloc((size_t)workers, sizeof *l->part);
    l->whole = l->part != NULL;
    for (int r = 0; r < workers && l->whole; r++) {
        const size_t bytes = parts[r].count * sizeof(gs_span);
        gs_span *copy = malloc(bytes + 1);
        if (copy && bytes > 0) memcpy(copy, parts[r].span, bytes);
        l->part[r] = (gs_rank_timeline){.span = copy, .count = copy ? parts[r].count : 0};
        l->whole = copy && parts[r].lost == 0;
    }
}

static gs_status run(traced *l) {
    const gs_observer observer = {.context = l, .timeline = on_timeline};
    gs_settings s = l->settings;
    s.record = true;
    s.trace = (gs_step_range){s.steps, s.steps};
    GS_TRY(gs_train(&s, &observer, &l->result));
    return l->whole ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for the timelines of %d workers", l->workers);
}

static gs_status note_one(gs_layer *layer, void *context) {
    ((gs_layer **)context)[layer->number] = layer;
    return GS_OK;
}

static gs_status name_layers(traced *l) {
    if (l->layout.tp > 1) GS_TRY(gs_layout_tp_model(&l->settings, l->plan, 0, &l->divided));
    gs_layer *net = (l->divided ? l->divided : l->plan)->net;
    GS_TRY(GS_NEW(l->layer, gs_layer_count(net), "a list of layers"));
    return gs_layer_walk(net, note_one, l->layer);
}

static gs_status find_kind(traced *l) {
    const gs_layout *y = &l->layout;
    if (l->workers % (y->pp * y->tp) != 0)
        return gs_fail(GS_E_USAGE,
                       "there are %d workers; wanted a multiple of %d (--pipeline %d, --tensor %d)",
                       l->workers, y->pp * y->tp, y->pp, y->tp);
    l->kind = y->pp > 1 ? PIPELINE : y->tp > 1 ? TENSOR : ZERO;
    if (y->pp > 1 || y->tp > 1 || y->zero > 0) return GS_OK;
    return gs_fail(GS_E_USAGE, "every worker holds the whole model, so there is no layout to show; wanted "
                               "--pipeline P, --tensor T, --zero 1 to 3, or a --layout with one of them");
}

/* Widen *from .. *to to contain all workers' spans of this kind and index (-1: any index). */
static void widen(const traced *l, gs_span_kind kind, int index, double *from, double *to) {
    for (int r = 0; r < l->workers; r++)
        for (const gs_span *s = NULL; (s = next_span(&l->part[r], s, kind, index));) {
            *from = fmin(*from, s->start);
            *to = fmax(*to, s->end);
        }
}

/* Run the steps of the resolved `settings`, as train does, and keep the trace of the last one. Free *l even after a
 * failure. Fails like gs_train; GS_E_USAGE: every worker holds the whole model. */
static gs_status create(const gs_settings *settings, int workers, traced *l) {
    *l = (traced){.settings = *settings, .workers = workers};
    l->layout = gs_layout_of(&l->settings, workers);
    GS_TRY(find_kind(l));
    l->settings.layout = gs_layout_text(&l->layout, l->name);
    GS_TRY(gs_layout_settled(&l->settings, workers, &l->memory, &l->plan));
    GS_TRY(run(l));
    if (!l->settings.model) l->settings.model = l->memory.settings.model; /* the default, or --load's */
    GS_TRY(name_layers(l));
    l->start = INFINITY;
    l->end = -INFINITY;
    widen(l, GS_SPAN_STEP, -1, &l->start, &l->end);
    return GS_OK;
}

static void free_layout(traced *l) {
    gs_rank_timelines_free(l->part, l->workers);
    gs_result_free(&l->result);
    gs_model_free(l->plan);
    gs_model_free(l->divided);
    gs_memory_plan_free(&l->memory);
    free(l->layer);
}

/* ---- the step's counts, compared with the formulas ---- */

static const double MB = 1e6;

/* Counts of the step next to their formulas: {head: [text], rows: [[text]], sentences: [text]}. */
typedef struct facts {
    cJSON *head, *rows, *sentences;
    /* A pipeline's bubble as a share of its time; for other layouts, the bytes that worker 0 sent. */
    double measured, formula;
    const gs_bubble *bubble; /* a pipeline's bubble by cause; for other layouts NULL */
} facts;

/* Append a sentence to a list, or cells, separated by tabs, to a row. */
GS_PRINTF(2, 3) static void add(cJSON *to, const char *format, ...) {
    char text[400], *rest = text;
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    while (rest) cJSON_AddItemToArray(to, cJSON_CreateString(strsep(&rest, "\t")));
}

static cJSON *new_row(facts *f) {
    cJSON *row = cJSON_CreateArray();
    cJSON_AddItemToArray(f->rows, row);
    return row;
}

/* The number of a worker's spans of one kind, and their total seconds and bytes. */
typedef struct sum {
    int count;
    double seconds, bytes;
} sum;

static sum sum_of(const traced *l, int rank, gs_span_kind kind) {
    sum all = {0};
    for (const gs_span *s = NULL; (s = next_span(&l->part[rank], s, kind, -1));) {
        all.count++;
        all.seconds += s->end - s->start;
        all.bytes += (double)s->bytes;
    }
    return all;
}

/* The layers of the outermost sequence that hold parameters first .. first + count - 1, as text: "1" or "2-4". */
static void children_of(const traced *l, uint64_t first, uint64_t count, char *text, size_t size) {
    const gs_model *m = l->divided ? l->divided : l->plan;
    const gs_layer *net = m->net;
    int begin = -1, last = -1;
    for (int i = 0; i < net->children; i++) {
        const size_t at = net->child[i]->at, end = i + 1 < net->children ? net->child[i + 1]->at : m->params;
        if (at == end || at < first || at >= first + count) continue;
        if (begin < 0) begin = i;
        last = i;
    }
    if (begin == last)
        snprintf(text, size, "%d", begin);
    else
        snprintf(text, size, "%d-%d", begin, last);
}

enum { PLACE = 32 };

/* A worker's coordinates: "3, stage 1", or with replicas or parts "3, s1 r0 p1" (stage, replica, part). */
static const char *place_text(const gs_layout *l, int rank, char text[PLACE]) {
    const gs_coordinates coordinates = gs_coordinates_of(l, rank);
    const bool alone = l->dp == 1 && l->tp == 1;
    snprintf(text, PLACE, alone ? "%d, stage %d" : "%d, s%d", rank, coordinates.pp);
    if (l->dp > 1) gs_append(text, PLACE, " r%d", coordinates.dp);
    if (l->tp > 1) gs_append(text, PLACE, " p%d", coordinates.tp);
    return text;
}

/* The number of tokens in a sequence, 0 without --sequence. Part r holds *each of them, beginning at r * *each. */
static int tokens_of(const traced *l, int *each) {
    const int layers = l->divided ? (int)gs_layer_count(l->divided->net) : 0;
    for (int i = 0; i < layers; i++)
        if (gs_tensor_role_of(l->layer[i]) == GS_TENSOR_TOKENS && l->layer[i]->children == 0)
            return (*each = gs_shape_tokens(l->layer[i]->out)) * l->layout.tp;
    return *each = 0;
}

static void say_tokens(const traced *l, facts *f) {
    enum { NAMED = 4 };
    char text[200] = "";
    int each;
    const int tokens = tokens_of(l, &each), parts = l->layout.tp;
    if (tokens == 0) return;
    for (int r = 0; r < parts && r < NAMED; r++)
        gs_append(text, sizeof text, "%spart %d has %d to %d", r > 0 ? ", " : "", r, r * each,
                  (r + 1) * each - 1);
    add(f->sentences, "Outside of pairs a worker has some of the %d tokens of each sequence: %s%s.", tokens,
        text, parts > NAMED ? ", and so on" : ""); /* lists at most NAMED parts */
}

/* ---- pipelines ---- */

/* The time from the first forward to the last backward over all stages, which is what the formula describes. */
static double time_of_pipeline(const traced *l) {
    double from = INFINITY, to = -INFINITY;
    widen(l, GS_SPAN_STAGE_FORWARD, -1, &from, &to);
    widen(l, GS_SPAN_STAGE_BACKWARD, -1, &from, &to);
    return to > from ? to - from : 0;
}

/* The number of chunks (runs of layers) per stage. */
static int chunks_of(const traced *l) {
    int most = 0;
    for (const gs_span *s = NULL; (s = next_span(&l->part[0], s, GS_SPAN_STAGE_FORWARD, -1));)
        if (s->round > most) most = s->round;
    return most + 1;
}

/* micro: the number of forward passes of a stage. */
static void say_bubble(const traced *l, facts *f, int micro) {
    const gs_bubble *b = &l->result.bubble_last;
    const int chunks = chunks_of(l);
    f->measured = b->measured;
    f->formula = b->formula;
    f->bubble = b;
    add(f->sentences,
        "The bubble, in which stages wait: %.1f %% of forward and backward in this step. Fill and drain: "
        "%.1f %%; stages of unequal times: %.1f %%; messages, wake-ups, loads and uneven passes: %.1f %%.",
        gs_percent(b->measured), gs_percent(b->fill), gs_percent(b->unequal), gs_percent(b->rest));
    add(f->sentences,
        "Fill and drain alone would be %.1f %%; by the formula (p - 1) / (%sm + p - 1), with p = %d stages%s "
        "and m = %d micro-batches, %.1f %%. With the mean times of these stages and instant messages, "
        "stages wait %.1f %% in virtual time.",
        gs_percent(b->alone), chunks > 1 ? "v " : "", l->layout.pp, chunks > 1 ? " of v runs" : "",
        micro / chunks, gs_percent(b->formula), gs_percent(b->virtual_time));
}

static void pipeline(const traced *l, facts *f) {
    const bool groups = l->layout.tp > 1; /* the all-reduces of the groups send bytes, too */
    const double all = time_of_pipeline(l);
    char place[PLACE];
    int micro = 0;
    add(f->head, "worker\tlayers\tforward ms\tbackward ms\twaits ms\tsends B%s",
        groups ? "\tgroup sums B" : "");
    for (int r = 0; r < l->workers; r++) {
        gs_layout_share share;
        const sum forward = sum_of(l, r, GS_SPAN_STAGE_FORWARD),
                  backward = sum_of(l, r, GS_SPAN_STAGE_BACKWARD);
        if (forward.count > micro) micro = forward.count;
        if (gs_layout_share_of(&l->settings, l->plan, l->workers, r, &share) != GS_OK) continue;
        cJSON *row = new_row(f);
        add(row, "%s\t%.20s\t%.1f\t%.1f\t%.1f\t%s", place_text(&l->layout, r, place), share.layers,
            1e3 * forward.seconds, 1e3 * backward.seconds, 1e3 * (all - forward.seconds - backward.seconds),
            gs_thousands(sum_of(l, r, GS_SPAN_SEND).bytes));
        if (groups) add(row, "%s", gs_thousands(sum_of(l, r, GS_SPAN_TP_CALL).bytes));
    }
    say_bubble(l, f, micro);
    say_tokens(l, f);
}

/* ---- ZeRO ---- */

static void zero(const traced *l, facts *f) {
    const gs_zero_report *z = &l->result.zero;
    add(f->head, "worker\tall-gathers\tbytes sent\treduce-scatters\tbytes sent\ttogether");
    for (int r = 0; r < l->workers; r++) {
        const sum gathers = sum_of(l, r, GS_SPAN_UNIT_GATHER), sums = sum_of(l, r, GS_SPAN_UNIT_REDUCE);
        add(new_row(f), "%d\t%d\t%s\t%d\t%s\t%s", r, gathers.count, gs_thousands(gathers.bytes), sums.count,
            gs_thousands(sums.bytes), gs_thousands(gathers.bytes + sums.bytes));
        if (r == 0) f->measured = gathers.bytes + sums.bytes;
    }
    f->formula = z->formula;
    add(f->sentences,
        "By the formula a worker sends %d (N - 1) / N times the %s bytes of the weights, with N = %d: %s. "
        "What N does not divide, the layers' state and the counts are also summed: %s bytes a step in total.",
        z->stage > 2 ? 3 : 2, gs_thousands(z->model), l->workers, gs_thousands(z->formula),
        gs_thousands(l->result.sent));
    add(f->sentences,
        "A worker holds at most %.3f MB of weights, %.3f MB of gradients (windows included) and %.3f MB of "
        "the optimiser's vectors; alone it would hold %.3f MB of each.",
        z->weights / MB, z->gradients / MB, z->vectors / MB, z->model / MB);
}

/* ---- tensor parallelism ---- */

/* The collectives of worker 0's group: their number, and the bytes that they send. */
typedef struct group_sums {
    int sums, gathers;
    double floats, bytes, formula;
} group_sums;

/* Counts only spans that lie within a forward or backward span of one of the two layers. */
static group_sums sums_of_pair(const traced *l, int columns, int rows) {
    group_sums all = {0};
    const gs_rank_timeline *p = &l->part[0];
    for (int k = 0; k < 4; k++) {
        const gs_span_kind kind = k % 2 ? GS_SPAN_BACKWARD_LAYER : GS_SPAN_FORWARD_LAYER;
        for (const gs_span *layer = NULL; (layer = next_span(p, layer, kind, k < 2 ? columns : rows));)
            for (const gs_span *s = NULL; (s = next_span(p, s, GS_SPAN_TP_CALL, -1));) {
                const gs_tensor_collective collective = (gs_tensor_collective)s->index;
                if (s->start < layer->start || s->end > layer->end) continue;
                *(collective == GS_TENSOR_ALL_GATHER ? &all.gathers : &all.sums) += 1;
                all.bytes += (double)s->bytes;
                all.floats += (double)s->count;
                all.formula += gs_tensor_times_sent(collective, l->layout.tp, l->settings.exact) *
                               (double)s->count * sizeof(float);
            }
    }
    return all;
}

static void say_pairs(const traced *l, facts *f) {
    static const char parts[] =
        "In the first layer of a pair a worker computes some of the outputs, and in the second layer these "
        "are its inputs. In y = x w^T it holds rows of the first w, and columns of the second. So each pair ";
    if (!l->settings.sequence)
        add(f->sentences,
            "%sneeds a sum of y in forward and, where a layer before it learns, one of dx in backward.",
            parts);
    else
        add(f->sentences,
            "%sneeds an all-gather of x in forward and one more in backward, an all-gather of dy, and %s y "
            "and, where a layer before it learns, of dx.",
            parts, l->settings.exact ? "sums of" : "reduce-scatters of");
}

static void say_others(const traced *l, facts *f, int in_pairs) {
    const sum all = sum_of(l, 0, GS_SPAN_TP_CALL);
    const bool sequence = l->settings.sequence;
    if (all.count > in_pairs)
        add(f->sentences, "Layers outside of pairs (%s), and the loss, need %d more%s, sending %s bytes.",
            sequence ? "an embedding, positions, layer_norm, the last layer"
                     : "an embedding, the layer tied to it",
            all.count - in_pairs, sequence ? "" : " sums", gs_thousands(all.bytes - f->measured));
}

static void tensor(const traced *l, facts *f) {
    const bool sequence = l->settings.sequence;
    const int layers = (int)gs_layer_count(l->divided->net);
    int columns = -1, in_pairs = 0;
    add(f->head, "first\tsecond\tsums\t%s\tbytes sent\tby the formula",
        sequence ? "all-gathers\tfloats" : "floats summed");
    for (int i = 0; i < layers; i++) {
        const gs_layer *y = l->layer[i];
        if (gs_tensor_role_of(y) == GS_TENSOR_COLUMNS) columns = i;
        if (gs_tensor_role_of(y) != GS_TENSOR_ROWS || columns < 0) continue;
        const group_sums a = sums_of_pair(l, columns, i);
        in_pairs += a.sums + a.gathers;
        f->measured += a.bytes;
        f->formula += a.formula;
        cJSON *row = new_row(f);
        add(row, "%s\t%s\t%d", l->layer[columns]->name, y->name, a.sums);
        if (sequence) add(row, "%d", a.gathers);
        add(row, "%s\t%s\t%s", gs_thousands(a.floats), gs_thousands(a.bytes), gs_thousands(a.formula));
    }
    say_pairs(l, f);
    say_tokens(l, f);
    add(f->sentences, "By the formula a worker sends %s times what is %s: %s bytes here; %s were counted.",
        sequence            ? "(T - 1) / T"
        : l->settings.exact ? "log2 T"
                            : "2 (T - 1) / T",
        !sequence           ? "summed"
        : l->settings.exact ? "gathered, and log2 T times what is summed"
                            : "gathered or summed",
        gs_thousands(f->formula), gs_thousands(f->measured));
    say_others(l, f, in_pairs);
    add(f->sentences, "A worker holds %.3f of the model's %.3f MB of weights.", l->result.tensor.held / MB,
        l->result.tensor.model / MB);
}

/* ---- pictures in 80 columns ---- */

enum { LABEL = 12, WIDTH = 66 };

/* A line of the picture: each character stands for one of WIDTH equal parts of the time from..to. */
typedef struct line {
    double from, to;
    char text[WIDTH + 1];
} line;

static line line_of(double from, double to, char with) {
    line l = {.from = from, .to = to};
    memset(l.text, with, WIDTH);
    return l;
}

static int cell_of(const line *l, double at) {
    const double part = (at - l->from) / (l->to > l->from ? l->to - l->from : 1);
    return part <= 0 ? 0 : part >= 1 ? WIDTH - 1 : (int)(part * WIDTH);
}

/* Paint at least one cell, so that every span is visible; `mark`, unless 0, goes into the first cell. */
static void paint(line *l, double start, double end, char with, char mark) {
    if (end < l->from || start > l->to) return;
    const int first = cell_of(l, start), behind = cell_of(l, end), last = behind > first ? behind - 1 : first;
    for (int i = first; i <= last; i++) l->text[i] = with;
    if (mark) l->text[first] = mark;
}

static void paint_spans(line *l, const gs_rank_timeline *p, gs_span_kind kind, int index, char with) {
    for (const gs_span *s = NULL; (s = next_span(p, s, kind, index));) paint(l, s->start, s->end, with, 0);
}

static void print(const char *label, line *l) {
    int end = WIDTH;
    while (end > 0 && l->text[end - 1] == ' ') end--;
    l->text[end] = 0;
    printf("%-*s%s%s\n", end > 0 ? LABEL : 0, label, end > 0 ? " " : "", l->text);
}

static void print_scale(const traced *s, double from, double to) {
    printf("%-*s from %.1f ms of the step to %.1f ms, a place is %.2f ms\n", LABEL, "time",
           1e3 * (from - s->start), 1e3 * (to - s->start), 1e3 * (to - from) / WIDTH);
}

static char digit(int n) {
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    return digits[n % 36];
}

/* ---- pipelines ---- */

static void show_pipeline(const traced *s) {
    printf("0>>  forward of micro-batch 0     0<<  its backward     .  waits\n"
           "s    sums gradients               u    update           l  loads samples\n");
    if (s->layout.dp > 1 || s->layout.tp > 1)
        printf("s1%s%s  stage 1%s%s\n", s->layout.dp > 1 ? " r0" : "", s->layout.tp > 1 ? " p0" : "",
               s->layout.dp > 1 ? ", replica 0" : "",
               s->layout.tp > 1 ? ", part 0 of its layers, with the sums in their group" : "");
    printf("\n");
    print_scale(s, s->start, s->end);
    for (int r = 0; r < s->workers; r++) {
        line l = line_of(s->start, s->end, '.');
        char label[PLACE];
        const gs_rank_timeline *p = &s->part[r];
        double computed = s->start;
        const gs_span *t = NULL; /* painted by kind: in a shared cell, backward hides forward */
        paint_spans(&l, p, GS_SPAN_PHASE, GS_PHASE_DATA, 'l');
        paint_spans(&l, p, GS_SPAN_PHASE, GS_PHASE_UPDATE, 'u');
        while ((t = next_span(p, t, GS_SPAN_STAGE_BACKWARD, -1))) computed = fmax(computed, t->end);
        while (s->layout.dp > 1 && (t = next_span(p, t, GS_SPAN_PHASE, GS_PHASE_SYNC)))
            if (t->start >= computed) paint(&l, t->start, t->end, 's', 0);
        while ((t = next_span(p, t, GS_SPAN_STAGE_FORWARD, -1)))
            paint(&l, t->start, t->end, '>', digit(t->index));
        while ((t = next_span(p, t, GS_SPAN_STAGE_BACKWARD, -1)))
            paint(&l, t->start, t->end, '<', digit(t->index));
        print(place_text(&s->layout, r, label), &l);
    }
}

/* ---- ZeRO ---- */

/* Paint everything that a worker does with one unit; later paint hides earlier paint. */
static line line_of_unit(const traced *s, const gs_rank_timeline *p, int unit) {
    line l = line_of(s->start, s->end, s->layout.zero > 2 ? '.' : ' ');
    paint_spans(&l, p, GS_SPAN_UNIT_GRADIENTS, unit, '%');
    paint_spans(&l, p, GS_SPAN_UNIT_WEIGHTS, unit, '#');
    paint_spans(&l, p, GS_SPAN_UNIT_GATHER, unit, 'g');
    paint_spans(&l, p, GS_SPAN_UNIT_REDUCE, unit, 's');
    return l;
}

static const gs_span *first_of_unit(const gs_rank_timeline *p, int unit) {
    const gs_span *reduce = next_span(p, NULL, GS_SPAN_UNIT_REDUCE, unit);
    return reduce ? reduce : next_span(p, NULL, GS_SPAN_UNIT_GATHER, unit);
}

static line line_of_phases(const traced *s, const gs_rank_timeline *p) {
    static const char marks[GS_PHASES] = {'l', '>', '<', 's', 'u'};
    line l = line_of(s->start, s->end, '.');
    bool updated = false; /* after the update, a sync is an all-gather */
    for (const gs_span *t = NULL; (t = next_span(p, t, GS_SPAN_PHASE, -1));) {
        paint(&l, t->start, t->end,
              updated && t->index == GS_PHASE_SYNC && s->layout.zero < 3 ? 'g' : marks[t->index], 0);
        updated |= t->index == GS_PHASE_UPDATE;
    }
    return l;
}

static void show_zero(const traced *s) {
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
            children_of(s, first->first, first->count, layers, sizeof layers);
            snprintf(label, sizeof label, " layer %.5s", layers);
            l = line_of_unit(s, &s->part[r], u);
            print(label, &l);
        }
    }
}

/* ---- tensor parallelism ---- */

static void paint_layers(const traced *s, const gs_rank_timeline *p, line *l) {
    static const char marks[] = "=1i2wwt", acts[] = "+gs"; /* by gs_tensor_role, gs_tensor_collective */
    for (size_t i = 0; i < gs_layer_count(s->divided->net); i++) {
        if (s->layer[i]->children > 0) continue; /* by kind: in a shared cell, backward hides forward */
        paint_spans(l, p, GS_SPAN_FORWARD_LAYER, (int)i, marks[gs_tensor_role_of(s->layer[i])]);
        paint_spans(l, p, GS_SPAN_BACKWARD_LAYER, (int)i, marks[gs_tensor_role_of(s->layer[i])]);
    }
    for (int act = 0; acts[act]; act++) paint_spans(l, p, GS_SPAN_TP_CALL, act, acts[act]);
}

static void show_lines(const traced *s, double from, double to) {
    print_scale(s, from, to);
    for (int r = 0; r < s->workers; r++) {
        char label[32];
        line l = line_of(from, to, '.');
        paint_layers(s, &s->part[r], &l);
        snprintf(label, sizeof label, "worker %d", r);
        print(label, &l);
    }
}

static void show_tensor(const traced *s) {
    const int layers = (int)gs_layer_count(s->divided->net);
    int columns = 0, rows, each;
    const int tokens = tokens_of(s, &each);
    while (columns < layers && gs_tensor_role_of(s->layer[columns]) != GS_TENSOR_COLUMNS) columns++;
    for (rows = columns; rows + 1 < layers && gs_tensor_role_of(s->layer[rows]) != GS_TENSOR_ROWS;) rows++;
    printf("1  first layer of a pair: rows of w       i  between, on the worker's part\n"
           "2  second layer of a pair: columns        +  sum in the group, with its wait\n"
           "%-42s.  sums gradients, updates, loads\n",
           tokens > 0 ? "t  computed for the worker's own tokens" : "=  computed by all workers alike");
    if (tokens > 0)
        printf("%-42s%s\n", "g  all-gather of what the others have", "s  reduce-scatter: a sum in parts");
    if (gs_tensor_outputs(s->divided->net)) printf("w  vocabulary shard\n");
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

/* ---- choosing by kind ---- */

static const struct {
    const char *name;
    void (*count)(const traced *, facts *);
    void (*show)(const traced *);
} kinds[] = {[PIPELINE] = {"pipeline", pipeline, show_pipeline},
             [TENSOR] = {"tensor", tensor, show_tensor},
             [ZERO] = {"zero", zero, show_zero}};

static facts facts_of(const traced *l) {
    facts all = {.head = cJSON_CreateArray(), .rows = cJSON_CreateArray(), .sentences = cJSON_CreateArray()};
    kinds[l->kind].count(l, &all);
    return all;
}

/* Columns are as wide as their widest cell and separated by two blanks; numbers are right-aligned. */
static void print_table(facts *f) {
    enum { COLUMNS = 8 };
    int width[COLUMNS] = {0};
    const cJSON *row, *c;
    cJSON_InsertItemInArray(f->rows, 0, f->head);
    cJSON_ArrayForEach(row, f->rows) {
        int *w = width;
        cJSON_ArrayForEach(c, row) {
            const int n = (int)strlen(c->valuestring);
            if (n > *w) *w = n;
            w++;
        }
    }
    cJSON_ArrayForEach(row, f->rows) {
        const int *w = width;
        cJSON_ArrayForEach(c, row) {
            printf("%*s%s", w == width ? -*w : *w + 2, c->valuestring, c->next ? "" : "\n");
            w++;
        }
    }
}

static void print_all(const traced *s) {
    facts f = facts_of(s);
    const cJSON *sentence;
    printf("%s: step %llu of %s, global batch %zu, %d workers\n\n", s->name,
           (unsigned long long)s->settings.steps,
           gs_model_named(s->settings.model) ? s->settings.model : "the model", s->memory.batch, s->workers);
    kinds[s->kind].show(s);
    printf("\n");
    print_table(&f);
    cJSON_ArrayForEach(sentence, f.sentences) {
        printf("\n");
        gs_print_wrapped(0, sentence->valuestring);
    }
    cJSON_Delete(f.rows);
    cJSON_Delete(f.sentences);
}

/* ---- as JSON, and as a page ---- */

/* Microseconds since the start of the step, rounded to tenths. */
static cJSON *time_of(const traced *l, double at) {
    return cJSON_CreateNumber(round(1e7 * (at - l->start)) / 10);
}

/* [worker, row, kind, index, round, start, end, bytes, count] */
static void add_spans(cJSON *o, const traced *l) {
    cJSON *spans = cJSON_AddArrayToObject(o, "spans");
    for (int r = 0; r < l->workers; r++)
        for (const gs_span *s = l->part[r].span, *end = s + l->part[r].count; s < end; s++) {
            if (s->row == GS_ROW_LOADER) continue;
            cJSON_AddItemToArray(spans,
                                 GS_JSON_ARRAY(GS_JSON(r), GS_JSON(s->row), GS_JSON(s->kind),
                                               GS_JSON(s->index), GS_JSON(s->round), time_of(l, s->start),
                                               time_of(l, s->end), GS_JSON(s->bytes), GS_JSON(s->count)));
        }
}

static void add_layers(cJSON *o, const traced *l) {
    static const char *const roles[] = {"", "first", "inner", "second", "table", "outputs", "tokens"};
    cJSON *layers = cJSON_AddArrayToObject(o, "layers");
    const size_t count = gs_layer_count((l->divided ? l->divided : l->plan)->net);
    for (size_t i = 0; i < count; i++) {
        const gs_layer *y = l->layer[i];
        char name[100];
        snprintf(name, sizeof name, "%s%s%s", y->name, y->name[0] ? "." : "", y->ops->name);
        cJSON_AddItemToArray(layers,
                             GS_JSON_ARRAY(GS_JSON((const char *)name), GS_JSON(roles[gs_tensor_role_of(y)]),
                                           GS_JSON((bool)(y->children > 0))));
    }
}

static void add_workers(cJSON *o, const traced *l) {
    cJSON *workers = cJSON_AddArrayToObject(o, "workers");
    int each;
    const bool sequence = tokens_of(l, &each) > 0;
    for (int r = 0; r < l->workers; r++) {
        const gs_coordinates coordinates = gs_coordinates_of(&l->layout, r);
        gs_layout_share share = {.layers = ""};
        if (gs_layout_share_of(&l->settings, l->plan, l->workers, r, &share) != GS_OK) share.layers[0] = 0;
        cJSON *worker =
            GS_JSON_OBJECT(GS_FIELD("stage", coordinates.pp), GS_FIELD("replica", coordinates.dp),
                           GS_FIELD("part", coordinates.tp), GS_FIELD("layers", (const char *)share.layers));
        if (sequence)
            GS_JSON_ADD(worker, GS_FIELD("first_token", coordinates.tp * each), GS_FIELD("tokens", each));
        cJSON_AddItemToArray(workers, worker);
    }
}

static void add_units(cJSON *o, const traced *l) {
    cJSON *units = cJSON_AddArrayToObject(o, "units");
    for (const gs_span *s = NULL; (s = next_span(&l->part[0], s, GS_SPAN_UNIT_REDUCE, -1));) {
        char layers[16];
        while (cJSON_GetArraySize(units) <= s->index) cJSON_AddItemToArray(units, cJSON_CreateNull());
        children_of(l, s->first, s->count, layers, sizeof layers);
        cJSON_ReplaceItemInArray(
            units, s->index,
            GS_JSON_OBJECT(GS_FIELD("layers", (const char *)layers), GS_FIELD("floats", s->count)));
    }
}

static void add_facts(cJSON *o, const traced *l) {
    const facts f = facts_of(l);
    GS_JSON_ADD(o, GS_FIELD("head", f.head), GS_FIELD("rows", f.rows), GS_FIELD("sentences", f.sentences),
                GS_FIELD("measured", f.measured), GS_FIELD("formula", f.formula));
    if (f.bubble)
        GS_JSON_ADD(o, GS_FIELD("fill_and_drain", f.bubble->fill),
                    GS_FIELD("fill_and_drain_alone", f.bubble->alone),
                    GS_FIELD("unequal_stages", f.bubble->unequal), GS_FIELD("rest", f.bubble->rest));
}

static cJSON *json_of_layout(const traced *l) {
    const char *const schedule = l->settings.pipeline_schedule ? l->settings.pipeline_schedule : "1f1b";
    const gs_pipeline_schedule *const *named = gs_pipeline_schedules();
    while (strncmp((*named)->name, schedule, strcspn(schedule, ":")) != 0) named++; /* the name is valid */
    cJSON *o = GS_JSON_OBJECT(
        GS_FIELD("kind", kinds[l->kind].name), GS_FIELD("layout", l->name),
        GS_FIELD("model", gs_model_named(l->settings.model) ? l->settings.model : "a model of your own"),
        GS_FIELD("data", l->settings.data), GS_FIELD("batch", l->memory.batch),
        GS_FIELD("step", l->settings.steps), GS_FIELD("zero", l->layout.zero), GS_FIELD("pp", l->layout.pp),
        GS_FIELD("schedule", schedule), GS_FIELD("schedule_title", (*named)->title),
        GS_FIELD("tp", l->layout.tp), GS_FIELD("dp", l->layout.dp), GS_FIELD("version", GRADSUM_VERSION),
        GS_FIELD("took", time_of(l, l->end)));
    add_workers(o, l);
    add_layers(o, l);
    add_units(o, l);
    add_facts(o, l);
    add_spans(o, l);
    return o;
}

static gs_status write_page(const traced *l, const char *path) {
    char title[200];
    cJSON *data = json_of_layout(l);
    snprintf(title, sizeof title, "gradsum: a step of %s", l->name);
    const gs_page page = {.title = title,
                          .style = {gs_page_layout_css},
                          .body = gs_page_layout_html,
                          .script = {gs_page_layout_js}};
    const gs_status status = gs_page_write(path, &page, data);
    cJSON_Delete(data);
    return status;
}

enum { WORKERS_MOST = 64 }; /* the table has a row for each worker */

typedef struct wish {
    gs_settings settings;
    int workers; /* 0: as many as the layout needs */
    const char *out;
    bool json;
} wish;

bool gs_step_is_of_layout(int argc, char **argv) {
    static const char *const options[] = {"pipeline", "tensor", "zero", "layout"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (gs_option_is_given(options[i], argc, argv)) return true;
    return false;
}

/* Set defaults for options that are not given: text data for a language model, and a batch large enough to measure. In
 * a pipeline --accumulate sets the number of micro-batches. */
static void fill_in(wish *w, int argc, char **argv) {
    gs_settings *s = &w->settings;
    if (!gs_option_is_given("data", argc, argv) && s->model && gs_model_is_language(s->model))
        s->data = "jargon";
    if (!gs_option_is_given("batch", argc, argv)) s->batch = 32;
    if (!gs_option_is_given("steps", argc, argv)) s->steps = 3;
    if (s->pipeline > 1 && s->accumulate > 1 && !s->micro_batches) {
        s->micro_batches = s->accumulate;
        s->accumulate = 0;
    }
}

/* The number of workers with which a resolved layout is shown: `given`, else the number of devices, else what the
 * layout needs; 2 for ZeRO alone. */
static int workers_of(const gs_settings *s, int given) {
    const int named = gs_devices_count(s->devices), stages = s->pipeline > 1 ? s->pipeline : 1,
              parts = s->tensor > 1 ? s->tensor : 1;
    gs_layout l;
    if (given) return given;
    if (named > 1) return named;
    if (s->layout && gs_layout_read(s->layout, &l) == GS_OK) return l.dp * l.tp * l.pp;
    return stages * parts > 1 ? stages * parts : 2;
}

static gs_status show(wish *w, int argc, char **argv) {
    traced step;
    char *devices = NULL;
    if (w->json && w->out) return gs_fail(GS_E_USAGE, "--json is for the terminal: -o writes a page");
    if (w->out) GS_TRY(gs_file_check_target(w->out, GS_FILE_PAGE));
    GS_TRY(gs_layout_settle(&w->settings));
    fill_in(w, argc, argv);
    const int workers = workers_of(&w->settings, w->workers);
    GS_TRY(gs_devices_for(&w->settings, workers, WORKERS_MOST, &devices));
    w->settings.devices = devices;
    gs_status status = create(&w->settings, workers, &step);
    if (status == GS_OK && w->json) gs_json_print(json_of_layout(&step));
    if (status == GS_OK && w->out) status = write_page(&step, w->out);
    if (status == GS_OK && w->out)
        gs_print_line("%s: a step of %d workers; open it in a browser", w->out, workers);
    if (status == GS_OK && !w->json && !w->out) print_all(&step);
    free_layout(&step);
    free(devices);
    return status;
}

int gs_step_layout_command(int argc, char **argv) {
    wish w = {.settings = gs_settings_default()};
    bool unused;
    int exit_status;
    const gs_option own[] = {
        GS_RUN_OPTION("micro-batches",
                      "with --pipeline: cut a pipeline's part of the batch into M (default 4 P; "
                      "same as --accumulate here)"),
        GS_RUN_OPTION("steps", "the step that is shown (default 3): the first ones are slower"),
        GS_REFUSED("save", "step keeps no weights"),
        GS_REFUSED("epochs", "use --steps: step shows one"),
        {"workers", GS_OPTION_INT, &w.workers, 2, WORKERS_MOST, "N",
         "workers that share the run (default: as many as the layout needs)"},
        {"no-pause", GS_OPTION_FLAG, &unused, 0, 0, NULL, "changes nothing here"},
        {"json", GS_OPTION_FLAG, &w.json, 0, 0, NULL, "one JSON object: all spans, in us"},
        {"out", GS_OPTION_TEXT, &w.out, 0, 0, "FILE", "a page (.html) instead"},
        {0},
    };
    const gs_option *options = gs_run_options(&w.settings, GS_TRAINING | GS_LEARNING | GS_BY_STEP, own);
    const gs_help help = {"step --pipeline P | --tensor T | --zero STAGE | --layout LIST [options of train]",
                          "Run a few steps whose workers share the model, and show the last one: when each\n"
                          "worker computes which micro-batch, where the weights are, and what is sent, with\n"
                          "the bubble and the bytes beside the formulas. -o writes a page.",
                          "gradsum step --model gpt --pipeline 2 --micro-batches 4", NULL};
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    return gs_exit_status("step", show(&w, argc, argv));
}
