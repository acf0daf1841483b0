/* trace.json in Chrome's trace format, for Perfetto and chrome://tracing. A worker is a "process", each of its threads
 * a "thread", and a span a complete event ("X", times in microseconds). A message is an arrow from the span that sends
 * it ("s") to the span that receives it ("f").
 *
 * Source: "Trace Event Format" of the Chromium project.
 */
#include "log/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "io/file.h"
#include "parallel/tensor.h"

/* Counts the messages that a worker sent to one other worker in a step, or received from it. */
typedef struct counted {
    uint64_t step;
    int messages;
} counted;

typedef struct writer {
    FILE *file;
    const gs_worker *rank0;
    const gs_rank_timeline *parts;
    int workers;
    gs_layer **layer; /* indexed by the layer's number */
    counted *counted; /* [worker][received, sent][the other worker] */
    bool has_one;     /* an event has been written, so the next one needs a comma */
} writer;

static void event(writer *w, const char *phase, int rank, int row) {
    fprintf(w->file, "%s{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d", w->has_one ? ",\n" : "\n", phase, rank, row);
    w->has_one = true;
}

/* Whole nanoseconds, so that rounding keeps nested spans nested. */
static int64_t nanoseconds(double seconds) {
    return llround(1e9 * seconds);
}

static void add_time(const writer *w, const char *name, int64_t ns) {
    fprintf(w->file, ",\"%s\":%.3f", name, (double)ns / 1e3);
}

/* ---- names ---- */

static void name_rows(writer *w, int rank) {
    const gs_rank_timeline *p = &w->parts[rank];
    int rows = GS_ROW_SERVER + w->workers;
    event(w, "M", rank, 0);
    fprintf(w->file, ",\"name\":\"process_name\",\"args\":{\"name\":\"worker %d (%s)\"}}", rank,
            w->rank0->devices[rank].device);
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

/* "send 2.0 kB to 1": the word, the size in bytes if the span has one, and the words before the index. */
static const struct {
    const char *category, *word, *of;
    bool sized;
} span_names[GS_SPANS] = {[GS_SPAN_STEP] = {"step", "step", NULL, false},
                          [GS_SPAN_FORWARD_LAYER] = {"forward", "forward", NULL, false},
                          [GS_SPAN_BACKWARD_LAYER] = {"backward", "backward", NULL, false},
                          [GS_SPAN_SEND] = {"message", "send", "to", true},
                          [GS_SPAN_RECEIVE] = {"message", "receive", "from", true},
                          [GS_SPAN_BUCKET] = {"sync", "sum", "of bucket", false},
                          [GS_SPAN_GATHER] = {"load", "gather", NULL, true},
                          [GS_SPAN_STAGE_FORWARD] = {"forward", "forward", "of micro-batch", false},
                          [GS_SPAN_STAGE_BACKWARD] = {"backward", "backward", "of micro-batch", false},
                          [GS_SPAN_UNIT_GATHER] = {"gather", "all-gather", "of unit", false},
                          [GS_SPAN_UNIT_REDUCE] = {"sync", "reduce-scatter", "of unit", false},
                          [GS_SPAN_UNIT_WEIGHTS] = {"window", "weights", "of unit", false},
                          [GS_SPAN_UNIT_GRADIENTS] = {"window", "gradients", "of unit", false},
                          [GS_SPAN_FETCH] = {"fetch", "fetch", NULL, true},
                          [GS_SPAN_OFFLOAD] = {"fetch", "offload", NULL, true}};

static void name_span(const writer *w, const gs_span *s) {
    static const char *const phases[GS_PHASES] = {"load", "forward", "backward", "sync", "update"};
    const char *category = span_names[s->kind].category, *word = span_names[s->kind].word,
               *of = span_names[s->kind].of;
    if (s->kind == GS_SPAN_PHASE) category = word = phases[s->index];
    if (s->kind == GS_SPAN_TP_CALL) category = "sync", word = gs_tensor_collective_names[s->index];
    fprintf(w->file, ",\"cat\":\"%s\",\"name\":\"%s", category, word);
    if (span_names[s->kind].sized) fprintf(w->file, " %s", size_text(s->bytes));
    if (of) fprintf(w->file, " %s %d", of, s->index);
    if (s->kind == GS_SPAN_STEP) fprintf(w->file, " %" PRIu64, s->step);
    if (s->kind == GS_SPAN_TP_CALL) fprintf(w->file, " in the group");
    if (s->kind == GS_SPAN_FORWARD_LAYER || s->kind == GS_SPAN_BACKWARD_LAYER) {
        const gs_layer *l = w->layer[s->index];
        fprintf(w->file, " %s%s%s", l->name, l->name[0] ? "." : "", l->ops->name);
    }
    if (s->kind == GS_SPAN_FETCH || s->kind == GS_SPAN_OFFLOAD)
        fprintf(w->file, " of %s", gs_memory_word((gs_memory_kind)s->index));
    if ((s->kind == GS_SPAN_STAGE_FORWARD || s->kind == GS_SPAN_STAGE_BACKWARD) && s->round > 0)
        fprintf(w->file, ", run %d", s->round);
    fputc('"', w->file);
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

/* Write the memory in use as a counter, whose values Perfetto draws. */
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

/* Write one end of an arrow, which leads from the start of sending to the end of receiving. Each end must lie within a
 * span, not at the span's end. The messages of one step between one pair of workers arrive in the order in which they
 * were sent, so both sides count the same arrow number. If spans were lost, an arrow may have only one end. */
static void write_arrow_end(writer *w, int rank, const gs_span *s) {
    enum { MOST = 1 << 16 }; /* maximum number of messages between a pair in a step */
    const bool sent = s->kind == GS_SPAN_SEND;
    counted *with = &w->counted[(2 * rank + sent) * w->workers + s->index];
    const int64_t begin = nanoseconds(s->start), end = nanoseconds(s->end);
    const uint64_t workers = (uint64_t)w->workers, from = (uint64_t)(sent ? rank : s->index),
                   to = (uint64_t)(sent ? s->index : rank);
    if (with->step != s->step) *with = (counted){.step = s->step};
    event(w, sent ? "s" : "f", rank, s->row);
    fprintf(w->file, ",\"cat\":\"message\",\"name\":\"message\",\"id\":%" PRIu64,
            ((s->step * workers + from) * workers + to) * MOST + (uint64_t)with->messages++);
    if (!sent) fprintf(w->file, ",\"bp\":\"e\"");
    add_time(w, "ts", sent ? begin : end > begin ? end - 1 : end);
    fprintf(w->file, ",\"args\":{\"step\":%" PRIu64 "}}", s->step);
}

/* ---- the file ---- */

static gs_status note_one(gs_layer *l, void *context) {
    ((gs_layer **)context)[l->number] = l;
    return GS_OK;
}

static void write_all(writer *w) {
    uint64_t lost = 0;
    fprintf(w->file, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    for (int r = 0; r < w->workers; r++) {
        const gs_rank_timeline *p = &w->parts[r];
        name_rows(w, r);
        for (size_t i = 0; i < p->count; i++) {
            write_span(w, r, &p->span[i]);
            if (is_message(&p->span[i])) write_arrow_end(w, r, &p->span[i]);
        }
        for (size_t i = 0; i < p->samples; i++) write_memory(w, r, &p->memory[i]);
        lost += p->lost;
    }
    fprintf(w->file, "\n],\"otherData\":{\"steps\":\"%" PRIu64 "-%" PRIu64 "\",\"lost\":%" PRIu64 "}}\n",
            w->rank0->settings->trace.first, w->rank0->settings->trace.last, lost);
}

gs_status gs_trace_write(const char *path, const gs_worker *rank0, const gs_rank_timeline *parts) {
    const int workers = rank0->comm->size;
    writer w = {.rank0 = rank0, .parts = parts, .workers = workers};
    gs_file_writer file;
    GS_TRY(GS_NEW(w.layer, gs_layer_count(rank0->model->net), "a trace"));
    gs_layer_walk(rank0->model->net, note_one, w.layer);
    gs_status status = GS_NEW(w.counted, 2 * workers * workers, "the messages of a trace");
    if (status == GS_OK) status = gs_file_writer_open(path, &file);
    if (status == GS_OK) {
        w.file = file.file;
        write_all(&w);
        status = gs_file_writer_commit(&file);
    }
    free(w.counted);
    free(w.layer);
    return status;
}
