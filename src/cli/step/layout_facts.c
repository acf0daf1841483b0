#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/step/layout.h"
#include "core/text.h"
#include "layer/parallel/tensor.h"

static const double MB = 1e6;

/* ---- building ---- */

static void head(gs_step_facts *f, const char *const *words) {
    for (; words[f->columns]; f->columns++)
        snprintf(f->head[f->columns], GS_STEP_CELL, "%s", words[f->columns]);
}

GS_PRINTF(3, 4) static void cell(gs_step_facts *f, int column, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(f->cell[f->rows][column], GS_STEP_CELL, format, list);
    va_end(list);
}

GS_PRINTF(2, 3) static void say(gs_step_facts *f, const char *format, ...) {
    va_list list;
    va_start(list, format);
    if (f->sentences < GS_STEP_SENTENCES)
        vsnprintf(f->sentence[f->sentences++], GS_STEP_SENTENCE, format, list);
    va_end(list);
}

/* Of a worker's spans of one kind: how many, seconds and bytes. */
typedef struct sum {
    int count;
    double seconds, bytes;
} sum;

static sum sum_of(const gs_step_layout *l, int rank, gs_span_kind kind) {
    sum all = {0};
    for (size_t i = 0; i < l->part[rank].count; i++) {
        const gs_span *s = &l->part[rank].span[i];
        if (s->kind != (int32_t)kind || s->row == GS_ROW_LOADER) continue;
        all.count++;
        all.seconds += s->end - s->start;
        all.bytes += (double)s->bytes;
    }
    return all;
}

void gs_step_children_of(const gs_step_layout *l, uint64_t first, uint64_t count, char *text, size_t size) {
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

const char *gs_step_place_text(const gs_layout *l, int rank, char text[GS_STEP_PLACE]) {
    const gs_place place = gs_place_of(l, rank);
    const bool alone = l->dp == 1 && l->tp == 1;
    snprintf(text, GS_STEP_PLACE, alone ? "%d, stage %d" : "%d, s%d", rank, place.stage);
    if (l->dp > 1) gs_append(text, GS_STEP_PLACE, " r%d", place.replica);
    if (l->tp > 1) gs_append(text, GS_STEP_PLACE, " p%d", place.part);
    return text;
}

/* ---- who has which tokens ---- */

int gs_step_tokens_of(const gs_step_layout *l, int *each) {
    const int layers = l->divided ? (int)gs_layer_count(l->divided->net) : 0;
    for (int i = 0; i < layers; i++)
        if (gs_tensor_role_of(l->layer[i]) == GS_TENSOR_TOKENS && l->layer[i]->children == 0)
            return (*each = gs_shape_tokens(l->layer[i]->out)) * l->layout.tp;
    return *each = 0;
}

/* Which part has which, of at most so many. */
static void say_tokens(const gs_step_layout *l, gs_step_facts *f) {
    enum { NAMED = 4 };
    char text[200] = "";
    int each;
    const int tokens = gs_step_tokens_of(l, &each), parts = l->layout.tp;
    if (tokens == 0) return;
    for (int r = 0; r < parts && r < NAMED; r++)
        gs_append(text, sizeof text, "%spart %d has %d to %d", r > 0 ? ", " : "", r, r * each,
                  (r + 1) * each - 1);
    say(f, "Outside of pairs a worker has some of the %d tokens of each sequence: %s%s.", tokens, text,
        parts > NAMED ? ", and so on" : "");
}

/* ---- pipelines ---- */

/* From the first forward to the last backward of all stages: what the formula is about. */
static double time_of_pipeline(const gs_step_layout *l) {
    double from = INFINITY, to = -INFINITY;
    for (int r = 0; r < l->workers; r++)
        for (size_t i = 0; i < l->part[r].count; i++) {
            const gs_span *s = &l->part[r].span[i];
            if (s->kind != GS_SPAN_STAGE_FORWARD && s->kind != GS_SPAN_STAGE_BACKWARD) continue;
            from = fmin(from, s->start);
            to = fmax(to, s->end);
        }
    return to > from ? to - from : 0;
}

/* Runs of layers in each stage. */
static int chunks_of(const gs_step_layout *l) {
    int most = 0;
    for (size_t i = 0; i < l->part[0].count; i++) {
        const gs_span *s = &l->part[0].span[i];
        if (s->kind == GS_SPAN_STAGE_FORWARD && s->round > most) most = s->round;
    }
    return most + 1;
}

/* micro: forward passes of a stage. */
static void say_bubble(const gs_step_layout *l, gs_step_facts *f, int micro) {
    const gs_bubble *b = &l->result.bubble_last;
    const int chunks = chunks_of(l);
    f->measured = b->measured;
    f->formula = b->formula;
    f->bubble = b;
    say(f,
        "The bubble, in which stages wait: %.1f %% of the time of forward and backward in this step, the sum "
        "of: fill and drain %.1f %%, stages of unequal times %.1f %%, uneven times of a pass %.1f %%, "
        "messages, wake-ups and loads %.1f %%.",
        gs_percent(b->measured), gs_percent(b->fill), gs_percent(b->unequal), gs_percent(b->uneven),
        gs_percent(b->messages));
    say(f,
        "Fill and drain alone would be %.1f %%; by the formula (p - 1) / (%sm + p - 1), with p = %d stages%s "
        "and m = %d micro-batches, %.1f %%. With the mean times of these stages and messages that take none, "
        "stages wait %.1f %% in virtual time.",
        gs_percent(b->alone), chunks > 1 ? "v " : "", l->layout.pp, chunks > 1 ? " of v runs" : "",
        micro / chunks, gs_percent(b->formula), gs_percent(b->virtual_time));
}

static void pipeline(const gs_step_layout *l, gs_step_facts *f) {
    const bool groups = l->layout.tp > 1; /* which send beside that what their sums take */
    const char *const words[] = {"worker",
                                 "layers",
                                 "forward ms",
                                 "backward ms",
                                 "waits ms",
                                 "sends B",
                                 groups ? "group sums B" : NULL,
                                 NULL};
    const double all = time_of_pipeline(l);
    char place[GS_STEP_PLACE];
    int micro = 0;
    head(f, words);
    for (int r = 0; r < l->workers; r++) {
        gs_layout_share share;
        const sum forward = sum_of(l, r, GS_SPAN_STAGE_FORWARD),
                  backward = sum_of(l, r, GS_SPAN_STAGE_BACKWARD);
        if (forward.count > micro) micro = forward.count;
        if (f->rows == GS_STEP_ROWS ||
            gs_layout_share_of(&l->settings, l->plan, l->workers, r, &share) != GS_OK)
            continue;
        cell(f, 0, "%s", gs_step_place_text(&l->layout, r, place));
        cell(f, 1, "%.20s", share.layers);
        cell(f, 2, "%.1f", 1e3 * forward.seconds);
        cell(f, 3, "%.1f", 1e3 * backward.seconds);
        cell(f, 4, "%.1f", 1e3 * (all - forward.seconds - backward.seconds));
        cell(f, 5, "%s", gs_thousands(sum_of(l, r, GS_SPAN_SEND).bytes));
        if (groups) cell(f, 6, "%s", gs_thousands(sum_of(l, r, GS_SPAN_GROUP_CALL).bytes));
        f->rows++;
    }
    say_bubble(l, f, micro);
    say_tokens(l, f);
}

/* ---- ZeRO ---- */

static void zero(const gs_step_layout *l, gs_step_facts *f) {
    static const char *const words[] = {"worker",     "all-gathers", "bytes sent", "reduce-scatters",
                                        "bytes sent", "together",    NULL};
    const gs_zero_report *z = &l->result.zero;
    head(f, words);
    for (int r = 0; r < l->workers && r < GS_STEP_ROWS; r++) {
        const sum gathers = sum_of(l, r, GS_SPAN_UNIT_GATHER), sums = sum_of(l, r, GS_SPAN_UNIT_REDUCE);
        cell(f, 0, "%d", r);
        cell(f, 1, "%d", gathers.count);
        cell(f, 2, "%s", gs_thousands(gathers.bytes));
        cell(f, 3, "%d", sums.count);
        cell(f, 4, "%s", gs_thousands(sums.bytes));
        cell(f, 5, "%s", gs_thousands(gathers.bytes + sums.bytes));
        if (r == 0) f->measured = gathers.bytes + sums.bytes;
        f->rows++;
    }
    f->formula = z->formula;
    say(f,
        "By the formula a worker sends %d (N - 1) / N times the %s bytes of the weights, with N = %d: %s. "
        "What does not divide by N, the layers' state and the counts are summed besides: all in all %s bytes "
        "a step.",
        z->stage > 2 ? 3 : 2, gs_thousands(z->model), l->workers, gs_thousands(z->formula),
        gs_thousands(l->result.sent));
    say(f,
        "A worker holds at most %.3f MB of weights, %.3f MB of gradients (windows included) and %.3f MB of "
        "the optimiser's vectors; alone it would hold %.3f MB of each.",
        z->weights / MB, z->gradients / MB, z->vectors / MB, z->model / MB);
}

/* ---- tensor parallelism ---- */

/* What worker 0 sends to its group. */
typedef struct group_sums {
    int sums, gathers;
    double floats, bytes, formula;
} group_sums;

static group_sums together(group_sums a, group_sums b) {
    return (group_sums){a.sums + b.sums, a.gathers + b.gathers, a.floats + b.floats, a.bytes + b.bytes,
                        a.formula + b.formula};
}

/* Within the spans of one layer. */
static group_sums sums_in(const gs_step_layout *l, int number, gs_span_kind kind) {
    group_sums all = {0};
    const gs_timeline_part *p = &l->part[0];
    for (size_t i = 0; i < p->count; i++) {
        const gs_span *layer = &p->span[i];
        if (layer->kind != (int32_t)kind || layer->index != number) continue;
        for (size_t k = 0; k < p->count; k++) {
            const gs_span *s = &p->span[k];
            if (s->kind != GS_SPAN_GROUP_CALL || s->start < layer->start || s->end > layer->end) continue;
            *(s->index == GS_TENSOR_GATHERS ? &all.gathers : &all.sums) += 1;
            all.bytes += (double)s->bytes;
            all.floats += (double)s->count;
            all.formula += gs_tensor_times_sent((gs_tensor_act)s->index, l->layout.tp, l->settings.exact) *
                           (double)s->count * sizeof(float);
        }
    }
    return all;
}

static group_sums sums_of_layer(const gs_step_layout *l, int number) {
    return together(sums_in(l, number, GS_SPAN_FORWARD_LAYER), sums_in(l, number, GS_SPAN_BACKWARD_LAYER));
}

static void say_pairs(const gs_step_layout *l, gs_step_facts *f) {
    static const char parts[] =
        "In the first layer of a pair a worker computes some of the outputs, and in the second layer these "
        "are its inputs. With y = x w^T it has rows of the first w (columns of w^T), and columns of the "
        "second "
        "(rows of w^T). So each pair ";
    if (!l->settings.sequence)
        say(f, "%stakes a sum of y in forward and, where a layer before it learns, one of dx in backward.",
            parts);
    else
        say(f,
            "%stakes an all-gather of x in forward and one more in backward, an all-gather of dy, and %s y "
            "and, where a layer before it learns, of dx.",
            parts, l->settings.exact ? "sums of" : "reduce-scatters of");
}

static void say_others(const gs_step_layout *l, gs_step_facts *f, int in_pairs) {
    const sum all = sum_of(l, 0, GS_SPAN_GROUP_CALL);
    const bool sequence = l->settings.sequence;
    if (all.count > in_pairs)
        say(f, "Layers outside of pairs (%s), and the loss, take %d more%s, of %s bytes sent.",
            sequence ? "an embedding, positions, layer_norm, the last layer"
                     : "an embedding, the layer tied to it",
            all.count - in_pairs, sequence ? "" : " sums", gs_thousands(all.bytes - f->measured));
}

static void tensor(const gs_step_layout *l, gs_step_facts *f) {
    const bool sequence = l->settings.sequence;
    const char *const words[] = {"columns",    "rows",           "sums", "floats summed",
                                 "bytes sent", "by the formula", NULL},
                      *const of_tokens[] = {"columns", "rows",       "sums",           "all-gathers",
                                            "floats",  "bytes sent", "by the formula", NULL};
    const int layers = (int)gs_layer_count(l->divided->net);
    int columns = -1, in_pairs = 0;
    head(f, sequence ? of_tokens : words);
    for (int i = 0; i < layers; i++) {
        const gs_layer *y = l->layer[i];
        if (gs_tensor_role_of(y) == GS_TENSOR_COLUMNS) columns = i;
        if (gs_tensor_role_of(y) != GS_TENSOR_ROWS || columns < 0) continue;
        const group_sums a = together(sums_of_layer(l, columns), sums_of_layer(l, i));
        int c = 0;
        in_pairs += a.sums + a.gathers;
        f->measured += a.bytes;
        f->formula += a.formula;
        if (f->rows == GS_STEP_ROWS) continue;
        cell(f, c++, "%s", l->layer[columns]->name);
        cell(f, c++, "%s", y->name);
        cell(f, c++, "%d", a.sums);
        if (sequence) cell(f, c++, "%d", a.gathers);
        cell(f, c++, "%s", gs_thousands(a.floats));
        cell(f, c++, "%s", gs_thousands(a.bytes));
        cell(f, c++, "%s", gs_thousands(a.formula));
        f->rows++;
    }
    say_pairs(l, f);
    say_tokens(l, f);
    say(f, "By the formula a worker sends %s times what is %s: %s bytes here; %s were counted.",
        sequence            ? "(T - 1) / T"
        : l->settings.exact ? "log2 T"
                            : "2 (T - 1) / T",
        !sequence           ? "summed"
        : l->settings.exact ? "gathered, and log2 T times what is summed"
                            : "gathered or summed",
        gs_thousands(f->formula), gs_thousands(f->measured));
    say_others(l, f, in_pairs);
    say(f, "A worker holds %.3f MB of weights, of the model's %.3f MB.", l->result.tensor.held / MB,
        l->result.tensor.model / MB);
}

void gs_step_facts_of(const gs_step_layout *l, gs_step_facts *f) {
    *f = (gs_step_facts){.columns = 0};
    if (l->kind == GS_STEP_PIPELINE)
        pipeline(l, f);
    else if (l->kind == GS_STEP_TENSOR)
        tensor(l, f);
    else
        zero(l, f);
}
