#include "explain/digests.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/memory.h"
#include "core/text.h"
#include "io/file.h"

/* A file being read. */
typedef struct reader {
    gs_digests *run;
    gs_digest_rank *rank;
    const char *path;
    int of_rank; /* the rank that wrote it; only rank 0's head is read, because all heads are the same */
    size_t line;
    size_t begun;                               /* the number of rows of earlier steps */
    bool scored;                                /* this step's score has been read */
    bool started;                               /* the head has been read */
    size_t option_room, layer_room, param_room; /* capacities of the run's arrays */
} reader;

static gs_status wrong(const reader *r, const char *what) {
    return gs_fail(GS_E_FORMAT, "%s: line %zu %s", r->path, r->line, what);
}

static gs_status grow(const reader *r, void *array, size_t used, size_t *room, size_t size) {
    if (gs_grow(array, used, room, size)) return GS_OK;
    return gs_fail(GS_E_MEMORY, "%s: no memory for line %zu", r->path, r->line);
}

static bool begins(const char *line, const char *word) {
    return strncmp(line, word, strlen(word)) == 0;
}

/* ---- the head of a file ---- */

static gs_status read_option(reader *r, const char *line) {
    gs_digests *run = r->run;
    const char *option = line + strlen("option ");
    if (!strchr(option, ' ')) return wrong(r, "is an option without a value");
    GS_TRY(grow(r, &run->option, (size_t)run->options, &r->option_room, sizeof *run->option));
    GS_TRY(GS_NEW(run->option[run->options], strlen(option) + 1, "line %zu of %s", r->line, r->path));
    strcpy(run->option[run->options++], option);
    return GS_OK;
}

/* Names are printed, so they must not contain a terminal's control sequences. */
static bool can_be_shown(const char *name) {
    char shown[4 * 64];
    return strcmp(gs_printable_into(shown, sizeof shown, name, ""), name) == 0;
}

static gs_status read_layer(reader *r, const char *line) {
    gs_digests *run = r->run;
    gs_layer_name l;
    int number, end = 0;
    if (sscanf(line, "layer %d %31s %63s%n", &number, l.op, l.name, &end) != 3 || line[end] ||
        number != run->layers || !can_be_shown(l.op) || !can_be_shown(l.name))
        return wrong(r, "is not 'layer NUMBER OPERATOR NAME', with the next number");
    if (strcmp(l.name, "-") == 0) l.name[0] = 0;
    GS_TRY(grow(r, &run->layer, (size_t)run->layers, &r->layer_room, sizeof l));
    run->layer[run->layers++] = l;
    return GS_OK;
}

static gs_status read_param(reader *r, const char *line) {
    gs_digests *run = r->run;
    gs_param_name p;
    int number, state, end = 0;
    if (sscanf(line, "param %d %zu %zu %d %d %63s%n", &number, &p.at, &p.count, &state, &p.layer, p.name,
               &end) != 6 ||
        line[end] || number != run->params || p.layer < 0 || p.layer >= run->layers || !can_be_shown(p.name))
        return wrong(r, "is not 'param NUMBER PLACE COUNT STATE LAYER NAME', with the next number");
    p.state = state != 0;
    GS_TRY(grow(r, &run->param, (size_t)run->params, &r->param_room, sizeof p));
    run->param[run->params++] = p;
    return GS_OK;
}

static gs_status read_head(reader *r, const char *line) {
    r->started = strcmp(line, "start") == 0;
    if (r->started)
        return r->run->layers > 0 && r->run->params > 0 ? GS_OK : wrong(r, "comes before any layer");
    if (r->of_rank > 0) return GS_OK;
    if (begins(line, "option ")) return read_option(r, line);
    if (begins(line, "layer ")) return read_layer(r, line);
    if (begins(line, "param ")) return read_param(r, line);
    if (begins(line, "set "))
        return sscanf(line, "set %zu", &r->run->set) == 1 ? GS_OK : wrong(r, "has no count");
    return wrong(r, "begins with a word that is none of option, set, layer, param and start");
}

/* ---- the steps ---- */

static int kind_named(const char *name) {
    for (int k = 0; k < GS_DIGEST_KINDS_COUNT; k++)
        if (strcmp(gs_digest_names[k], name) == 0) return k;
    return -1;
}

static gs_status read_row(reader *r, const char *line) {
    gs_digest_row row = {0};
    gs_digest_rank *rank = r->rank;
    char name[16];
    double *a = row.x.along;
    int end = 0;
    if (sscanf(line, "%15s %" SCNu64 " %d %d %lf %lf %lf %lf %lf %lf %lf %" SCNx64 "%n", name, &row.step,
               &row.number, &row.part, &row.x.n, &row.x.sum, &row.x.squares, &a[0], &a[1], &a[2], &a[3],
               &row.x.bits, &end) != 12 ||
        line[end] || (row.kind = kind_named(name)) < 0)
        return wrong(r, "is not 'QUANTITY STEP NUMBER PART' and eight numbers");
    const int most = r->run->layers > r->run->params ? r->run->layers : r->run->params;
    if (row.number < 0 || row.number >= most || row.part < 0 || row.part >= GS_DIGEST_PARTS)
        return wrong(r, "names a layer, parameter or part that there is not");
    GS_TRY(grow(r, &rank->row, rank->rows, &rank->room, sizeof *rank->row));
    rank->row[rank->rows++] = row;
    return GS_OK;
}

static gs_status read_score(reader *r, const char *line) {
    gs_digest_rank *rank = r->rank;
    gs_digest_score s;
    uint64_t step;
    if (sscanf(line, "score %" SCNu64 " %lf %lf %lf %lf %lf %lf %lf %lf %lf %lf", &step, &s.loss, &s.correct,
               &s.samples, &s.lr, &s.scale, &s.norm, &s.updates, &s.loss_scale, &s.skipped, &s.held) != 11)
        return wrong(r, "is not 'score STEP' and ten numbers");
    if (rank->steps == 0 && r->of_rank == 0) r->run->first = step;
    if (step != r->run->first + rank->steps) return wrong(r, "is of a step that is not the next one");
    for (size_t i = r->begun; i < rank->rows; i++)
        if (rank->row[i].step != step) return wrong(r, "ends a step with rows of another one");
    GS_TRY(grow(r, &rank->step, rank->steps, &rank->step_room, sizeof *rank->step));
    rank->step[rank->steps] = (gs_digest_of_step){r->begun, rank->rows - r->begun, s};
    r->scored = true;
    return GS_OK;
}

/* A missing row would not be compared, and so would pass as equal. A record written by hand may lack the count. */
static gs_status read_end(reader *r, const char *line) {
    const size_t rows = r->rank->rows - r->begun;
    uint64_t step;
    size_t wanted;
    int end = 0;
    const int read = sscanf(line, "end %" SCNu64 "%n %zu%n", &step, &end, &wanted, &end);
    if (!r->scored) return wrong(r, "ends a step that has no score");
    if (read < 1 || line[end] || step != r->run->first + r->rank->steps)
        return wrong(r, "is not 'end STEP ROWS' of the step that it ends");
    if (read == 2 && wanted != rows)
        return wrong(r, "counts other rows than there are: the file was changed");
    r->scored = false;
    r->rank->steps++;
    r->begun = r->rank->rows;
    return GS_OK;
}

/* ---- a file, and all files of a run ---- */

static gs_status read_first_line(reader *r, const char *line) {
    int version, rank, workers;
    if (sscanf(line, "gradsum digest %d rank %d of %d", &version, &rank, &workers) != 3 || workers < 1)
        return gs_fail(GS_E_FORMAT, "%s is no record of gradsum train --digest", r->path);
    if (version != GS_DIGEST_VERSION)
        return gs_fail(GS_E_FORMAT,
                       "%s is a digest of version %d; wanted version %d: train again with this gradsum",
                       r->path, version, GS_DIGEST_VERSION);
    if (workers > GS_DIGEST_RANKS)
        return gs_fail(GS_E_FORMAT, "%s is of %d workers; wanted at most %d", r->path, workers,
                       GS_DIGEST_RANKS);
    if (r->of_rank == 0) r->run->workers = workers;
    if (rank != r->of_rank || workers != r->run->workers)
        return gs_fail(GS_E_FORMAT, "%s is of rank %d of %d; wanted rank %d of %d", r->path, rank, workers,
                       r->of_rank, r->run->workers);
    return GS_OK;
}

static gs_status read_line(reader *r, const char *line) {
    if (r->line == 1) return read_first_line(r, line);
    if (!r->started) return read_head(r, line);
    if (begins(line, "score ")) return read_score(r, line);
    return begins(line, "end ") ? read_end(r, line) : read_row(r, line);
}

static gs_status read_lines(reader *r, FILE *file) {
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    gs_status status = GS_OK;
    while (status == GS_OK && (length = getline(&line, &room, file)) > 0) {
        r->line++;
        if (line[length - 1] != '\n') break; /* the writer was killed while writing this line */
        line[length - 1] = 0;
        status = read_line(r, line);
    }
    free(line);
    if (status == GS_OK && !r->started)
        return r->line == 0 ? gs_fail(GS_E_FORMAT, "%s is no record of gradsum train --digest", r->path)
                            : gs_fail(GS_E_FORMAT, "%s ends before its first step", r->path);
    return status;
}

static gs_status read_rank(gs_digests *run, int rank) {
    char path[4200];
    uint64_t size;
    FILE *file;
    snprintf(path, sizeof path, "%s/rank-%d.digest", run->folder, rank);
    reader r = {.run = run, .rank = &run->rank[rank], .path = path, .of_rank = rank};
    gs_status status = gs_file_open_stream(path, &file, &size);
    if (status == GS_E_FILE && rank == 0)
        return gs_fail(status, "%s; wanted a folder that gradsum train --digest has written", gs_message());
    GS_TRY(status);
    status = read_lines(&r, file);
    fclose(file);
    const uint64_t steps = run->rank[rank].steps;
    if (run->first + steps > run->last + 1) run->last = run->first + steps - 1;
    if (rank > 0 && steps >= run->steps) return status;
    run->steps = steps;
    run->shortest = rank;
    return status;
}

gs_status gs_digests_read(const char *folder, gs_digests *run) {
    *run = (gs_digests){.folder = folder};
    gs_status status = read_rank(run, 0);
    for (int r = 1; status == GS_OK && r < run->workers; r++) status = read_rank(run, r);
    if (status == GS_OK && run->steps == 0)
        status = gs_fail(GS_E_FORMAT, "%s holds no whole step of all %d ranks", folder, run->workers);
    if (status != GS_OK) gs_digests_free(run);
    return status;
}

void gs_digests_free(gs_digests *run) {
    for (int i = 0; i < run->options; i++) free(run->option[i]);
    for (int r = 0; r < GS_DIGEST_RANKS; r++) {
        free(run->rank[r].row);
        free(run->rank[r].step);
    }
    free(run->option);
    free(run->layer);
    free(run->param);
    *run = (gs_digests){0};
}

/* ---- queries ---- */

const char *const gs_digests_deciding[] = {
    "model", "data", "labels", "tokens", "context", "size", "loss", "precision", "batch", "optimizer",
    "momentum", "beta1", "beta2", "epsilon", "weight-decay", "clip", "label-smoothing", "seed", "augment",
    "lr", "lr-rule", "schedule", "final-lr", "warmup", "warmup-steps", "batch-norm",
    /* the first GS_DIGESTS_EQUAL options end here */
    "tokenizer", "mean", "std", "load", "epochs", "steps", "base-batch", "exact"};

const char *gs_digests_option(const gs_digests *run, const char *name) {
    const size_t length = strlen(name);
    for (int i = 0; i < run->options; i++)
        if (strncmp(run->option[i], name, length) == 0 && run->option[i][length] == ' ')
            return run->option[i] + length + 1;
    return "";
}

double gs_digests_number(const gs_digests *run, const char *name) {
    const double x = strtod(gs_digests_option(run, name), NULL);
    return x < 0 || x > 0 ? x : 0; /* NaN is not a valid value: return 0 */
}

int gs_digests_count(const gs_digests *run, const char *name) {
    const double x = gs_digests_number(run, name);
    return x >= 1 && x <= 1e6 ? (int)x : 0;
}

bool gs_digests_is_exact(const gs_digests *run) {
    return strcmp(gs_digests_option(run, "exact"), "yes") == 0;
}

static int compare(const void *of_a, const void *of_b) {
    const gs_digest_row *a = of_a, *b = of_b;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (a->number != b->number) return a->number < b->number ? -1 : 1;
    return a->part < b->part ? -1 : a->part > b->part;
}

const gs_sketch *gs_digests_find(const gs_digests *run, int rank, uint64_t step, int kind, int number,
                                 int part) {
    const gs_digest_of_step *s = &run->rank[rank].step[step - run->first];
    const gs_digest_row wanted = {.kind = kind, .number = number, .part = part}, *row = NULL;
    if (s->rows > 0) row = bsearch(&wanted, run->rank[rank].row + s->first, s->rows, sizeof *row, compare);
    return row ? &row->x : NULL;
}

const gs_digest_score *gs_digests_score(const gs_digests *run, int rank, uint64_t step) {
    return &run->rank[rank].step[step - run->first].score;
}
