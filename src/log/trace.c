/* trace.json, in Chrome's trace format, as Perfetto and chrome://tracing open it: a worker is a "process", each of its
 * threads a "thread", a span a complete event ("X", times in microseconds), and a message an arrow from the span that
 * sends it ("s") to the one that receives it ("f").
 *
 * Source: "Trace Event Format" of the Chromium project.
 */
#include "log/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/file.h"
#include "parallel/tensor.h"
#include "layer/watch.h"

typedef struct writer {
    FILE *file;
    const gs_worker *rank0;
    const gs_device_report *devices;
    const gs_rank_timeline *parts;
    int workers;
    gs_layer **layer; /* by its number */
    bool has_one;     /* an event is written, so that the next one wants a comma */
} writer;

static void event(writer *w, const char *phase, int rank, int row) {
    fprintf(w->file, "%s{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d", w->has_one ? ",\n" : "\n", phase, rank, row);
    w->has_one = true;
}

/* Nanoseconds, so that rounding keeps what lies in one another there. */
static int64_t nanoseconds(double seconds) {
    return llround(1e9 * seconds);
}

static void add_time(const writer *w, const char *name, int64_t ns) {
    bool negative = ns < 0;
    uint64_t n = (uint64_t)(negative ? -ns : ns);
    fprintf(w->file, ",\"%s\":%s%" PRIu64 ".%03" PRIu64, name, negative ? "-" : "", n / 1000, n % 1000);
}

/* ---- names ---- */

static void name_rows(writer *w, int rank) {
    const gs_rank_timeline *p = &w->parts[rank];
    int rows = GS_ROW_SERVER + w->workers;
    event(w, "M", rank, 0);
    fprintf(w->file, ",\"name\":\"process_name\",\"args\":{\"name\":\"worker %d (%s)\"}}", rank,
            w->devices[rank].device);
    event(w, "M", rank, 0);
    fprintf(w->file, ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%d}}", rank);
    for (int row = 0; row < rows; row++) {
        bool used = row == GS_ROW_COMPUTE;
        for (size_t i = 0; i < p->count && !used; i++) used = p->span[i].row == row;
        if (!used) continue;
        static const char *const names[] = {"compute", "sync", "loader", "fetcher"};
        char name[40];
        if (row < GS_ROW_WEIGHTS)
            snprintf(name, sizeof name, "%s", names[row]);
        else if (row < GS_ROW_GRADIENTS)
            snprintf(name, sizeof name, "weights %d", row - GS_ROW_WEIGHTS);
        else if (row < GS_ROW_SERVER)
            snprintf(name, sizeof name, "gradients %d", row - GS_ROW_GRADIENTS);
        else
            snprintf(name, sizeof name, "server for worker %d", row - GS_ROW_SERVER);
        event(w, "M", rank, row);
        fprintf(w->file, ",\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}}", name);
        event(w, "M", rank, row);
        fprintf(w->file, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%d}}", row);
    }
}

static const char *size_text(uint64_t bytes) {
    static char text[32];
    if (bytes < 1000)
        snprintf(text, sizeof text, "%" PRIu64 " B", bytes);
    else if (bytes < 1000000)
        snprintf(text, sizeof text, "%.1f kB", (double)bytes / 1e3);
    else
        snprintf(text, sizeof text, "%.1f MB", (double)bytes / 1e6);
    return text;
}

static void name_layer(const writer *w, const char *direction, int number) {
    const gs_layer *l = w->layer[number];
    fprintf(w->file, ",\"cat\":\"%s\",\"name\":\"%s %s%s%s\"", direction, direction, l->name,
            l->name[0] ? "." : "", l->ops->name);
}

static void name_stage(const writer *w, const gs_span *s) {
    const char *direction = s->kind == GS_SPAN_STAGE_FORWARD ? "forward" : "backward";
    fprintf(w->file, ",\"cat\":\"%s\",\"name\":\"%s of micro-batch %d", direction, direction, s->index);
    if (s->round > 0) fprintf(w->file, ", run %d", s->round);
    fprintf(w->file, "\"");
}

static void name_span(const writer *w, const gs_span *s) {
    static const char *const phases[GS_PHASES] = {"load", "forward", "backward", "sync", "update"};
    switch ((gs_span_kind)s->kind) {
    case GS_SPAN_STEP:
        fprintf(w->file, ",\"cat\":\"step\",\"name\":\"step %" PRIu64 "\"", s->step);
        return;
    case GS_SPAN_PHASE:
        fprintf(w->file, ",\"cat\":\"%s\",\"name\":\"%s\"", phases[s->index], phases[s->index]);
        return;
    case GS_SPAN_FORWARD_LAYER:
        name_layer(w, "forward", s->index);
        return;
    case GS_SPAN_BACKWARD_LAYER:
        name_layer(w, "backward", s->index);
        return;
    case GS_SPAN_SEND:
        fprintf(w->file, ",\"cat\":\"message\",\"name\":\"send %s to %d\"", size_text(s->bytes), s->index);
        return;
    case GS_SPAN_RECEIVE:
        fprintf(w->file, ",\"cat\":\"message\",\"name\":\"receive %s from %d\"", size_text(s->bytes),
                s->index);
        return;
    case GS_SPAN_BUCKET:
        fprintf(w->file, ",\"cat\":\"sync\",\"name\":\"sum of bucket %d\"", s->index);
        return;
    case GS_SPAN_GATHER:
        fprintf(w->file, ",\"cat\":\"load\",\"name\":\"gather %s\"", size_text(s->bytes));
        return;
    case GS_SPAN_STAGE_FORWARD:
    case GS_SPAN_STAGE_BACKWARD:
        name_stage(w, s);
        return;
    case GS_SPAN_UNIT_GATHER:
        fprintf(w->file, ",\"cat\":\"gather\",\"name\":\"all-gather of unit %d\"", s->index);
        return;
    case GS_SPAN_UNIT_REDUCE:
        fprintf(w->file, ",\"cat\":\"sync\",\"name\":\"reduce-scatter of unit %d\"", s->index);
        return;
    case GS_SPAN_UNIT_WEIGHTS:
    case GS_SPAN_UNIT_GRADIENTS:
        fprintf(w->file, ",\"cat\":\"window\",\"name\":\"%s of unit %d\"",
                s->kind == GS_SPAN_UNIT_WEIGHTS ? "weights" : "gradients", s->index);
        return;
    case GS_SPAN_TP_CALL:
        fprintf(w->file, ",\"cat\":\"sync\",\"name\":\"%s in the group\"",
                gs_tensor_collective_names[s->index]);
        return;
    case GS_SPAN_FETCH:
    case GS_SPAN_OFFLOAD:
        fprintf(w->file, ",\"cat\":\"fetch\",\"name\":\"%s %s of %s\"",
                s->kind == GS_SPAN_FETCH ? "fetch" : "offload", size_text(s->bytes),
                gs_memory_word((gs_memory_kind)s->index));
        return;
    case GS_SPANS:
        return;
    }
}

/* ---- spans ---- */

static bool is_message(const gs_span *s) {
    return s->kind == GS_SPAN_SEND || s->kind == GS_SPAN_RECEIVE;
}

static void write_span(writer *w, int rank, const gs_span *s) {
    int64_t start = nanoseconds(s->start), end = nanoseconds(s->end);
    event(w, "X", rank, s->row);
    name_span(w, s);
    add_time(w, "ts", start);
    add_time(w, "dur", end - start);
    fprintf(w->file, ",\"args\":{\"step\":%" PRIu64, s->step);
    if (is_message(s)) {
        bool sent = s->kind == GS_SPAN_SEND;
        int server = s->row >= GS_ROW_SERVER ? s->row - GS_ROW_SERVER : -1;
        fprintf(w->file, ",\"from\":%d,\"to\":%d,\"bytes\":%" PRIu64, sent ? rank : s->index,
                sent ? s->index : rank, s->bytes);
        if (s->round) fprintf(w->file, ",\"round\":%d", s->round);
        if (s->count) fprintf(w->file, ",\"first\":%" PRIu64 ",\"count\":%" PRIu64, s->first, s->count);
        if (server >= 0) fprintf(w->file, ",\"serves\":%d", server);
    }
    if (!is_message(s) && s->kind >= GS_SPAN_UNIT_GATHER) fprintf(w->file, ",\"bytes\":%" PRIu64, s->bytes);
    fprintf(w->file, "}}");
}

/* What lies in memory, as a counter: Perfetto draws its values. */
static void write_memory(writer *w, int rank, const gs_memory_sample *m) {
    event(w, "C", rank, 0);
    fprintf(w->file, ",\"name\":\"memory\"");
    add_time(w, "ts", nanoseconds(m->at));
    fprintf(w->file, ",\"args\":{");
    for (int k = 0; k < GS_MEMORY_KINDS; k++) {
        const bool split = k == GS_MEMORY_ACTIVATIONS;
        fprintf(w->file, "%s\"%s%s\":%.0f", k > 0 ? "," : "", gs_memory_word((gs_memory_kind)k),
                split ? ", free" : "", m->use.bytes[k] - (split ? m->needed : 0));
    }
    fprintf(w->file, ",\"activations\":%.0f}}", m->needed);
}

/* ---- arrows ---- */

typedef struct message {
    const gs_span *span;
    int from, to;
    size_t order;
} message;

/* Messages of one step between one pair arrive in the order in which they were sent. */
static int compare(const void *a, const void *b) {
    const message *x = a, *y = b;
    if (x->span->step != y->span->step) return x->span->step < y->span->step ? -1 : 1;
    if (x->from != y->from) return x->from - y->from;
    if (x->to != y->to) return x->to - y->to;
    return x->order < y->order ? -1 : x->order > y->order;
}

static bool fits(const message *a, const message *b) {
    return a->span->step == b->span->step && a->from == b->from && a->to == b->to;
}

static size_t collect(const writer *w, int kind, message *out) {
    size_t n = 0;
    for (int r = 0; r < w->workers; r++)
        for (size_t i = 0; i < w->parts[r].count; i++) {
            const gs_span *s = &w->parts[r].span[i];
            if (s->kind != kind) continue;
            bool sent = kind == GS_SPAN_SEND;
            if (out) out[n] = (message){s, sent ? r : s->index, sent ? s->index : r, n};
            n++;
        }
    if (out) qsort(out, n, sizeof *out, compare);
    return n;
}

static void arrow_end(writer *w, const char *phase, int rank, const gs_span *s, size_t id, int64_t at) {
    event(w, phase, rank, s->row);
    fprintf(w->file, ",\"cat\":\"message\",\"name\":\"message\",\"id\":%zu", id);
    if (*phase == 'f') fprintf(w->file, ",\"bp\":\"e\"");
    add_time(w, "ts", at);
    fprintf(w->file, ",\"args\":{\"step\":%" PRIu64 "}}", s->step);
}

/* From where sending begins to where receiving ends; an arrow's end must lie within a span, and not at its very end. */
static void write_arrow(writer *w, const message *send, const message *receive, size_t id) {
    int64_t begin = nanoseconds(receive->span->start), end = nanoseconds(receive->span->end);
    arrow_end(w, "s", send->from, send->span, id, nanoseconds(send->span->start));
    arrow_end(w, "f", receive->to, receive->span, id, end > begin ? end - 1 : end);
}

static gs_status write_arrows(writer *w) {
    size_t sends = collect(w, GS_SPAN_SEND, NULL), receives = collect(w, GS_SPAN_RECEIVE, NULL), id = 0;
    message *s = calloc(sends + 1, sizeof *s), *r = calloc(receives + 1, sizeof *r);
    if (s && r) {
        collect(w, GS_SPAN_SEND, s);
        collect(w, GS_SPAN_RECEIVE, r);
        for (size_t i = 0, k = 0; i < sends && k < receives;) { /* what has only one end gets no arrow */
            if (fits(&s[i], &r[k]))
                write_arrow(w, &s[i++], &r[k++], ++id);
            else if (compare(&s[i], &r[k]) < 0)
                i++;
            else
                k++;
        }
    }
    bool whole = s && r;
    free(s);
    free(r);
    return whole ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for the messages of a trace");
}

/* ---- the file ---- */

static gs_status note_one(gs_layer *l, void *context) {
    ((gs_layer **)context)[l->number] = l;
    return GS_OK;
}

static gs_status write_all(writer *w) {
    uint64_t lost = 0;
    fprintf(w->file, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    for (int r = 0; r < w->workers; r++) {
        name_rows(w, r);
        for (size_t i = 0; i < w->parts[r].count; i++) write_span(w, r, &w->parts[r].span[i]);
        for (size_t i = 0; i < w->parts[r].samples; i++) write_memory(w, r, &w->parts[r].memory[i]);
        lost += w->parts[r].lost;
    }
    gs_status status = write_arrows(w);
    fprintf(w->file, "\n],\"otherData\":{\"steps\":\"%" PRIu64 "-%" PRIu64 "\",\"lost\":%" PRIu64 "}}\n",
            w->rank0->settings->trace.first, w->rank0->settings->trace.last, lost);
    return status;
}

gs_status gs_trace_write(const char *path, const gs_worker *rank0, const gs_device_report *devices,
                         const gs_rank_timeline *parts, int workers) {
    writer w = {.rank0 = rank0, .devices = devices, .parts = parts, .workers = workers};
    gs_file_writer file;
    GS_TRY(GS_NEW(w.layer, gs_layer_count(rank0->model->net), "a trace"));
    gs_layer_walk(rank0->model->net, note_one, w.layer);
    gs_status status = gs_file_writer_open(path, &file);
    if (status == GS_OK) {
        w.file = file.file;
        status = write_all(&w);
        if (status == GS_OK)
            status = gs_file_writer_commit(&file);
        else
            gs_file_writer_discard(&file);
    }
    free(w.layer);
    return status;
}
