#include "parallel/cut.h"

#include <float.h>
#include <stdlib.h>

#include "core/text.h"
#include "layer/make.h"

void gs_pipeline_flops(const gs_layer *net, double *cost) {
    for (int i = 0; i < net->children; i++) {
        const gs_layer_flops flops = gs_layer_flops_of(net->child[i]);
        cost[i] = flops.forward + flops.backward;
    }
}

/* Find the slices of which runs consist: slice i is the children point[i] .. point[i + 1] - 1. Returns their number. */
static int cut_points(const gs_layer *net, int *point) {
    int count = 0;
    bool learns = false;
    point[count++] = 0;
    for (int i = 0; i < net->children; i++) {
        if (!gs_layer_learns(net->child[i])) continue;
        if (learns) point[count++] = i;
        learns = true;
    }
    point[count] = net->children;
    return count;
}

/* ---- the best cut ---- */

static double cost_of(const double *cost, int first, int last) {
    double sum = 0;
    for (int i = first; i < last; i++) sum += cost[i];
    return sum;
}

/* best[r][u] describes the best cut of the first u slices into r + 1 runs: the cost of the cut's most expensive run,
 * and the slice at which its last run begins. */
typedef struct best {
    double cost;
    int from;
} best;

static void find_best(const double *cost, const int *point, int slices, int runs, best *b) {
    const int row = slices + 1;
    for (int u = 0; u <= slices; u++) b[u].cost = u ? cost_of(cost, 0, point[u]) : DBL_MAX;
    for (int r = 1; r < runs; r++)
        for (int u = 0; u <= slices; u++) {
            best *of = &b[r * row + u];
            of->cost = DBL_MAX;
            for (int begin = r; begin < u; begin++) {
                const double last = cost_of(cost, point[begin], point[u]),
                             before = b[(r - 1) * row + begin].cost;
                const double most = last > before ? last : before;
                if (most <= of->cost) *of = (best){most, begin};
            }
        }
}

static gs_status check_slices(int slices, int runs) {
    if (runs <= slices && runs <= GS_RUNS) return GS_OK;
    return gs_fail(GS_E_USAGE,
                   "the model's outermost sequence has %d layer%s with parameters, and each of %d stages "
                   "(interleaved: chunks) needs one of its own; wanted at most %d in all",
                   slices, gs_s((unsigned)slices), runs, slices < GS_RUNS ? slices : GS_RUNS);
}

static gs_status cut_best(const double *cost, const int *point, int slices, int runs, int *first) {
    const size_t row = (size_t)slices + 1;
    best *b;
    GS_TRY(GS_NEW(b, row * (size_t)runs, "a cut of %d runs", runs));
    find_best(cost, point, slices, runs, b);
    first[runs] = point[slices];
    for (int r = runs - 1, u = slices; r >= 0; r--) {
        u = r > 0 ? b[r * (slices + 1) + u].from : 0;
        first[r] = point[u];
    }
    free(b);
    return GS_OK;
}

/* ---- a given cut ---- */

static bool is_cut_point(const int *point, int slices, int layer) {
    for (int i = 1; i < slices; i++)
        if (point[i] == layer) return true;
    return false;
}

/* Read a list of numbers such as "3,6" into layer, which has room for GS_RUNS. Returns their count; -1: no list. */
static int read_list(const char *list, int *layer) {
    int count = 0;
    for (const char *at = list;; at++) {
        const size_t digits = strspn(at, "0123456789");
        if (digits < 1 || digits > 6 || count == GS_RUNS) return -1;
        layer[count++] = atoi(at);
        at += digits;
        if (!*at) return count;
        if (*at != ',') return -1;
    }
}

static gs_status cut_as_told(const char *list, const int *point, int slices, int runs, int *first) {
    int layer[GS_RUNS];
    const int count = read_list(list, layer);
    if (count != runs - 1)
        return gs_fail(GS_E_USAGE,
                       "--pipeline-cut %s begins %d more run%s of layers after the first, and the stages "
                       "have %d in all; wanted %d number%s",
                       list, count, gs_s((unsigned)count), runs, runs - 1, gs_s((unsigned)runs - 1));
    first[0] = 0;
    for (int i = 0; i < count; i++) {
        char wanted[120] = "";
        first[i + 1] = layer[i];
        if (is_cut_point(point, slices, layer[i]) && layer[i] > first[i]) continue;
        for (int k = 1; k < slices; k++)
            gs_append(wanted, sizeof wanted, "%s%d", k > 1 ? ", " : "", point[k]);
        return gs_fail(GS_E_USAGE,
                       "--pipeline-cut %s: no run of layers can begin at layer %d there; wanted growing "
                       "numbers out of %s (layers without parameters stay with the one before them)",
                       list, layer[i], wanted);
    }
    first[runs] = point[slices];
    return GS_OK;
}

gs_status gs_pipeline_cut_check(const char *how) {
    int layer[GS_RUNS];
    if (gs_pipeline_is_measured(how) || strcmp(how, "flops") == 0 || read_list(how, layer) > 0) return GS_OK;
    return gs_fail(GS_E_USAGE,
                   "--pipeline-cut: '%s' is no cut; wanted measured, flops, or the numbers of the layers at "
                   "which runs begin after the first one, with commas: 3,6",
                   gs_printable(how));
}

const char *gs_pipeline_cut_text(int runs, const int *first, char text[GS_CUT_TEXT]) {
    text[0] = 0;
    for (int r = 1; r < runs; r++) gs_append(text, GS_CUT_TEXT, "%s%d", r > 1 ? "," : "", first[r]);
    return text;
}

gs_status gs_pipeline_cut(const gs_layer *net, const char *how, const double *cost, int runs, int *first) {
    const size_t children = (size_t)net->children;
    int *point;
    double *flops = NULL;
    gs_status status = GS_NEW(point, children + 1, "a cut of %zu layers", children);
    if (status == GS_OK) status = GS_NEW(flops, children, "a cut of %zu layers", children);
    const int slices = status == GS_OK ? cut_points(net, point) : 0;
    if (status == GS_OK) status = check_slices(slices, runs);
    if (status == GS_OK && !cost && how && *how >= '0' && *how <= '9') {
        status = cut_as_told(how, point, slices, runs, first);
    } else if (status == GS_OK) {
        if (!cost) gs_pipeline_flops(net, flops);
        status = cut_best(cost ? cost : flops, point, slices, runs, first);
    }
    free(point);
    free(flops);
    return status;
}

/* ---- a table shared by two runs ---- */

typedef struct tied {
    const gs_layer *lender, *borrower;
} tied;

static gs_status find_tied(gs_layer *l, void *found) {
    tied *t = found;
    if (l->lent) t->lender = l;
    if (l->borrowed) t->borrower = l;
    return GS_OK;
}

/* The run that contains layer `number`. Layer numbers grow from child to child. */
static int run_with(const gs_layer *net, int runs, const int *first, int number) {
    int r = 0;
    while (r + 1 < runs && net->child[first[r + 1]]->number <= number) r++;
    return r;
}

gs_status gs_pipeline_tied(gs_layer *net, int runs, const int *first, gs_tied_runs *out) {
    tied t = {0};
    *out = (gs_tied_runs){NULL, 0, 0};
    GS_TRY(gs_layer_walk(net, find_tied, &t));
    if (!t.borrower) return GS_OK;
    out->lender = run_with(net, runs, first, t.lender->number);
    out->borrower = run_with(net, runs, first, t.borrower->number);
    if (out->lender == out->borrower) return GS_OK;
    out->table = t.borrower->borrowed;
    if (out->lender == 0 && out->borrower == runs - 1) return GS_OK;
    return gs_fail(
        GS_E_USAGE,
        "layer %s (%s) uses the table of layer %s, and a cut lies between them; wanted one of them in "
        "the first of %d runs of layers and the other in the last; they are in %d and %d",
        t.borrower->name, t.borrower->ops->name, t.lender->name, runs, out->borrower + 1, out->lender + 1);
}
