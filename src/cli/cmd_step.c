#include "cli/step/step.h"

#include <unistd.h>

/* ---- tables in 80 columns: a row for each worker, a column for each chunk ---- */

enum { COLUMNS = 80, CELL = 64 };

typedef struct table {
    const gs_step_record *step;
    bool counts; /* cells show the number of gradients in a sum, because a list would be too wide */
    int label;   /* the width of "worker 12" */
    int width;   /* the width of a cell, including the space before it */
    const gs_step_event *held[GS_STEP_WORKERS]; /* each worker's array as last shown */
} table;

/* ---- text of cells ---- */

/* 0b1011 -> "0+1+3"; three or more consecutive workers: "0-2" */
static void workers_text(uint32_t workers, char text[CELL]) {
    snprintf(text, CELL, "%s", workers ? "" : "?");
    for (int r = 0; r < GS_STEP_WORKERS; r++) {
        if (!(workers >> r & 1)) continue;
        int last = r;
        while (workers >> (last + 1) & 1) last++;
        gs_append(text, CELL, "%s%d", *text ? "+" : "", r);
        if (last - r < 2) continue;
        gs_append(text, CELL, "-%d", last);
        r = last;
    }
}

static void cell_text(const table *t, uint32_t workers, char text[CELL]) {
    if (t->counts)
        snprintf(text, CELL, "%d", __builtin_popcount(workers));
    else if (workers == ((uint32_t)1 << t->step->workers) - 1 && t->step->workers > 1)
        snprintf(text, CELL, "all");
    else
        workers_text(workers, text);
}

/* a, b, ..., z, a1, b1, ... */
static void chunk_name(int chunk, char text[16]) {
    if (chunk < 26)
        snprintf(text, 16, "%c", 'a' + chunk);
    else
        snprintf(text, 16, "%c%d", 'a' + chunk % 26, chunk / 26);
}

/* Prints words in lines of 80 columns, with two spaces between words. */
typedef struct line {
    int margin, column;
    int padding; /* spaces still to be printed after the last word */
} line;

static void print_word(line *l, const char *word, int width) {
    if (l->column > l->margin && l->column + l->padding + 2 + width > COLUMNS) {
        printf("\n");
        l->column = l->padding = 0;
    }
    int gap = l->column > l->margin ? l->padding + 2 : l->margin - l->column;
    int length = printf("%*s%s", gap, "", word) - gap;
    l->column += gap + length;
    l->padding = width - length;
}

/* ---- cells ---- */

static uint32_t content(const table *t, const gs_step_event *e, int chunk) {
    return gs_step_part_at(e, t->step->bounds[chunk])->workers;
}

/* In all tables the columns are as wide as the widest cell requires. */
static void find_width(table *t) {
    const gs_step_record *s = t->step;
    int widest = t->counts ? 1 : 3; /* "all" */
    char text[CELL];
    for (int i = 0; i < s->count; i++)
        for (int p = 0; p < s->events[i].count; p++) {
            cell_text(t, s->events[i].parts[p].workers, text);
            if ((int)strlen(text) > widest) widest = (int)strlen(text);
        }
    t->width = widest + 2; /* a space before the text, and a star after it */
    t->label = s->workers > 10 ? 9 : 8;
    int room = COLUMNS - t->label - t->width * t->step->chunks;
    if (room >= 2) t->label += 2;
    if (room >= 0 || t->counts) return;
    t->counts = true;
    find_width(t);
}

/* ---- the rounds ---- */

static void show_head(const table *t) {
    const gs_step_record *s = t->step;
    line l = {.margin = 8};
    printf("%s: %s\n", s->scheme->name, s->scheme->what);
    if (s->asked != s->scheme) {
        const char *more = strstr(s->why, " ("); /* printed on its own line */
        int half = more ? (int)(more - s->why) : (int)strlen(s->why);
        printf("chosen by %s: %.*s\n", s->asked->name, half, s->why);
        if (more) printf("       %s\n", more);
    }
    printf("%d worker%s, %zu float%s; each worker begins with its own gradient\n", s->workers,
           s->workers == 1 ? "" : "s", s->size, s->size == 1 ? "" : "s");
    if (s->wire != GS_WIRE_F32)
        printf("values travel as %s, in 2 bytes each; they are summed in f32\n", gs_wire_name(s->wire));
    l.column = printf(t->step->chunks == 1 ? "chunk" : "chunks");
    for (int c = 0; c < t->step->chunks; c++) {
        char name[16], word[80];
        size_t first = t->step->bounds[c], last = t->step->bounds[c + 1] - 1;
        chunk_name(c, name);
        if (first == last)
            snprintf(word, sizeof word, "%s = %zu", name, first);
        else
            snprintf(word, sizeof word, "%s = %zu..%zu", name, first, last);
        print_word(&l, word, (int)strlen(word));
    }
    if (s->workers == 1)
        printf("\ncells   0: the gradient of worker 0, which is the sum\n");
    else if (t->counts)
        printf("\ncells   5: the sum of 5 workers' gradients   *: just changed\n");
    else
        printf("\ncells   0+1: the sum of these workers' gradients   all: of all   *: just changed\n");
}

static void show_holds(table *t, int round) {
    const gs_step_record *s = t->step;
    const gs_step_event *now[GS_STEP_WORKERS] = {0};
    for (int i = 0; i < s->count; i++)
        if (s->events[i].to < 0 && s->events[i].round == round) now[s->events[i].from] = &s->events[i];
    int fit = (COLUMNS - t->label) / t->width;
    for (int from = 0; from < t->step->chunks; from += fit) {
        int to = from + fit < t->step->chunks ? from + fit : t->step->chunks;
        printf("%-*s", t->label, round == 0 ? "before" : "after");
        for (int c = from; c < to; c++) {
            char name[16];
            chunk_name(c, name);
            printf(" %-*s", c + 1 < to ? t->width - 1 : 0, name);
        }
        printf("\n");
        for (int r = 0; r < s->workers && now[r]; r++) {
            printf("worker %-*d", t->label - 7, r);
            for (int c = from; c < to; c++) {
                char text[CELL];
                cell_text(t, content(t, now[r], c), text);
                bool changed = round > 0 && content(t, now[r], c) != content(t, t->held[r], c);
                int padding = c + 1 < to ? t->width - 1 - (int)strlen(text) - changed : 0;
                printf(" %s%s%*s", text, changed ? "*" : "", padding, "");
            }
            printf("\n");
        }
    }
    memcpy(t->held, now, sizeof now);
}

/* Show "0 -> 1: a-b" for each message of a round, as many per line as fit. */
static void show_messages(const table *t, int round) {
    const gs_step_record *s = t->step;
    int widest = 0;
    line l = {.margin = 2};
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < s->count; i++) {
            const gs_step_event *e = &s->events[i];
            if (e->to < 0 || e->round != round) continue;
            const gs_step_part *end = &e->parts[e->count - 1];
            int first = gs_step_chunk_at(s, e->parts[0].first),
                last = gs_step_chunk_at(s, end->first + end->count) - 1;
            char from[16], to[16], word[80];
            chunk_name(first, from);
            chunk_name(last, to);
            int length = snprintf(word, sizeof word, "%d -> %d: %s%s%s", e->from, e->to, from,
                                  first < last ? "-" : "", first < last ? to : "");
            if (length > widest) widest = length;
            if (pass == 1) print_word(&l, word, widest);
        }
    printf(l.column > 0 ? "\n" : "  nobody sends\n");
}

static void show_rounds(table *t, bool pause) {
    const gs_step_record *s = t->step;
    if (!s->scheme->cost)
        printf("\nThe transport makes these two exchanges: all workers hand each owner its "
               "chunk\n(all_to_all), each owner sums its chunk, and all get all sums (all_gather). "
               "The\nmessages show what is handed over, not how the transport moves it.\n");
    for (int round = 1; round <= s->rounds; round++) {
        if (pause) {
            printf("\nEnter: next round ");
            fflush(stdout);
            for (int c = getchar(); c != '\n' && pause; c = getchar()) pause = c != EOF;
        }
        printf("\nround %d of %d\n", round, s->rounds);
        show_messages(t, round);
        show_holds(t, round);
    }
}

/* Explain why no messages were recorded: none went through gs_sync_send. */
static void show_unwatched(table *t) {
    if (t->step->workers == 1) {
        printf("\nOne worker has nothing to sum: no message is sent.\n");
        return;
    }
    printf(
        "\nThis is the transport's own all_reduce: there are no messages to show.\nThese workers are threads "
        "of one process, so no message is sent: each thread\nsums one slice of all arrays in shared memory, "
        "and writes the sum to all.\nProcesses of one machine pass slices through memory that they share. "
        "Over Gloo,\ntwo exchange their arrays, and more send in a ring: --sync ring shows how.\n\n");
    show_holds(t, 1);
}

static void show_totals(const table *t) {
    const gs_step_record *s = t->step;
    gs_sync_cost formula;
    if (!gs_sync_cost_of(s->scheme, s->workers, 0, gs_step_array(s), &formula)) {
        printf("\nThreads send nothing here: there are no rounds, messages or bytes to count.\n");
        return;
    }
    printf("\n%-*s %15s  %17s  %25s\n", t->label, "sent by", "rounds", "messages", "bytes");
    printf("%-*s %7s %7s  %8s %8s  %12s %12s\n", t->label, "", "counted", "formula", "counted", "formula",
           "counted", "formula");
    for (int r = 0; r < s->workers; r++) {
        const gs_sync_cost *c = &s->counted[r];
        gs_sync_cost_of(s->scheme, s->workers, r, gs_step_array(s), &formula);
        printf("worker %-*d %7zu %7zu  %8zu %8zu  %12zu %12zu\n", t->label - 7, r, c->rounds, formula.rounds,
               c->messages, formula.messages, c->bytes, formula.bytes);
    }
}

/* pause: wait for Enter between rounds. */
static void show_text(const gs_step_record *step, bool pause) {
    table t = {.step = step};
    find_width(&t);
    show_head(&t);
    printf("\n");
    show_holds(&t, 0);
    if (step->watched)
        show_rounds(&t, pause);
    else
        show_unwatched(&t);
    show_totals(&t);
}

static gs_status show(gs_step_record *s, bool pause) {
    GS_TRY(gs_step_run(s));
    show_text(s, pause);
    if (!s->correct)
        return gs_fail(GS_E_SHAPE, "%s is wrong: not every worker has the sum of all", s->scheme->name);
    if (!gs_step_counts_agree(s))
        return gs_fail(GS_E_SHAPE, "%s: the counts differ from its formula", s->scheme->name);
    return GS_OK;
}

static void print_schemes(void) {
    printf("\nschemes (--sync, here and in train):\n");
    for (const gs_sync_scheme *const *s = gs_sync_schemes(); *s; s++)
        printf("  %-20s %s\n", (*s)->name, (*s)->what);
}

static const gs_help help = {
    "step [options]",
    "Sum one array over some workers (threads), and show it round by round: who sends\n"
    "which chunk to whom, and what each worker then holds. At a terminal, Enter shows\n"
    "the next round. Worker r's gradient is 2^r in every element, so that each sum\n"
    "shows whose gradients are in it.\n\n"
    "With -o the gradients are those of a model's first step, and a page for the\n"
    "browser shows all schemes: one file, which needs no network.\n\n"
    "With --pipeline P, --tensor T, --zero STAGE or --layout LIST, and the options of\n"
    "train: a real step of a run whose workers share the model, as it went\n"
    "(gradsum step --zero 3 --help).",
    "gradsum step --sync ring --workers 4 -o step.html", print_schemes};

typedef struct wish {
    const char *sync, *out;
    bool no_pause;
    int workers;
    gs_wire wire;
    uint64_t size, batch;     /* 0: not given */
    const char *model, *data; /* NULL: not given */
} wish;

static gs_status show_in_terminal(const wish *w, const gs_sync_scheme *scheme) {
    gs_step_record step = {
        .asked = scheme, .workers = w->workers, .size = w->size ? (size_t)w->size : 8, .wire = w->wire};
    const char *extra = w->model ? "model" : w->data ? "data" : w->batch ? "batch" : NULL;
    if (extra) return gs_fail(GS_E_USAGE, "--%s is for a page: -o FILE is required too", extra);
    gs_status status = show(&step, !w->no_pause && isatty(STDOUT_FILENO));
    gs_step_record_free(&step);
    return status;
}

static gs_status show_on_page(const wish *w, const gs_sync_scheme *scheme) {
    gs_settings s = gs_settings_default();
    if (w->size)
        return gs_fail(GS_E_USAGE, "--size is for the terminal: with -o the model decides how many floats");
    if (w->wire != GS_WIRE_F32) return gs_fail(GS_E_USAGE, "--wire is for the terminal: a page shows f32");
    s.model = w->model ? w->model : "softmax";
    s.data = w->data ? w->data : "fashion-mnist-small";
    s.batch = w->batch ? (size_t)w->batch : 8 * (size_t)w->workers;
    GS_TRY(gs_step_page(w->out, scheme, &s, w->workers));
    gs_print_line("%s: %s over %d workers, and the other schemes; open it in a browser", w->out, scheme->name,
                  w->workers);
    return GS_OK;
}

int gs_cmd_step(int argc, char **argv) {
    if (gs_step_is_of_layout(argc, argv)) return gs_step_layout_command(argc, argv);
    wish w = {.sync = "ring", .workers = 4};
    int exit_status;
    const gs_sync_scheme *scheme;
    const gs_option options[] = {
        {"sync", GS_OPTION_TEXT, &w.sync, 0, 0, "NAME", "the scheme"},
        {"workers", GS_OPTION_INT, &w.workers, 1, GS_STEP_WORKERS, "N", "number of threads"},
        {"size", GS_OPTION_COUNT, &w.size, 1, GS_STEP_FLOATS, "N", "floats to sum (default 8)"},
        {"wire", GS_OPTION_WIRE, &w.wire, 0, 0, "TYPE", "values travel as f32, f16 or bf16"},
        {"no-pause", GS_OPTION_FLAG, &w.no_pause, 0, 0, NULL, "show all rounds at once"},
        {"out", GS_OPTION_TEXT, &w.out, 0, 0, "FILE", "a page (.html) instead"},
        {"model", GS_OPTION_TEXT, &w.model, 0, 0, "NAME|TEXT", "with -o: as in train (default: softmax)"},
        {"data", GS_OPTION_TEXT, &w.data, 0, 0, "NAME|DIR", "with -o: as in train"},
        {"batch", GS_OPTION_COUNT, &w.batch, 1, 1e9, "B",
         "with -o: the global batch (default: 8 per worker)"},
        {0},
    };
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    gs_status status = gs_sync_find(w.sync, &scheme);
    if (status == GS_OK) status = w.out ? show_on_page(&w, scheme) : show_in_terminal(&w, scheme);
    return gs_exit_status("step", status);
}
