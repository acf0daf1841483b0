#include "train/pipeline/cut.h"

#include <float.h>
#include <stdlib.h>

#include "layer/make.h"

static gs_status add_cost(gs_layer *l, void *cost) {
    *(double *)cost +=
        l->flops * (1 + l->needs_dx + (gs_layer_weights(l) > 0)); /* as gs_model_plan counts them */
    return GS_OK;
}

static double cost_of(const gs_model *plan, int first, int last) {
    double cost = 0;
    for (int i = first; i < last; i++) (void)gs_layer_walk(plan->net->child[i], add_cost, &cost);
    return cost;
}

double gs_pipeline_cost(const gs_model *plan, const int *first, int run) {
    return cost_of(plan, first[run], first[run + 1]);
}

/* Where a run may begin: place[0] = 0, and before each child with parameters but the first; place[count] is the end. */
static int find_places(const gs_model *plan, int *place) {
    int count = 0;
    bool learns = false;
    place[count++] = 0;
    for (int i = 0; i < plan->net->children; i++) {
        if (!gs_layer_learns(plan->net->child[i])) continue;
        if (learns) place[count++] = i;
        learns = true;
    }
    place[count] = plan->net->children;
    return count;
}

/* best[r][u]: the most expensive of r + 1 runs over the first u pieces, for the best cut; from[r][u]: where the last of
 * them begins. */
static void find_best(const gs_model *plan, const int *place, int pieces, int runs, double *best, int *from) {
    const int row = pieces + 1;
    for (int u = 0; u <= pieces; u++) best[u] = u ? cost_of(plan, 0, place[u]) : DBL_MAX;
    for (int r = 1; r < runs; r++)
        for (int u = 0; u <= pieces; u++) {
            best[r * row + u] = DBL_MAX;
            for (int begin = r; begin < u; begin++) {
                const double last = cost_of(plan, place[begin], place[u]),
                             before = best[(r - 1) * row + begin];
                const double most = last > before ? last : before;
                if (most > best[r * row + u]) continue;
                best[r * row + u] = most;
                from[r * row + u] = begin;
            }
        }
}

gs_status gs_pipeline_cut(const gs_model *plan, int runs, int *first) {
    const size_t row = (size_t)plan->net->children + 2;
    int *place = malloc(row * sizeof *place);
    const int pieces = place ? find_places(plan, place) : 0;
    gs_status status = place ? GS_OK : gs_fail(GS_E_MEMORY, "no memory to cut a model");
    if (status == GS_OK && (runs > pieces || runs > GS_RUNS))
        status =
            gs_fail(GS_E_USAGE,
                    "the model's outermost sequence has %d layer%s with parameters, and each stage (with "
                    "interleaved: each chunk) needs one of its own; wanted at most %d in all, not %d",
                    pieces, gs_s((unsigned)pieces), pieces < GS_RUNS ? pieces : GS_RUNS, runs);
    double *best = malloc(row * (size_t)runs * sizeof *best);
    int *from = calloc(row * (size_t)runs, sizeof *from);
    if (status == GS_OK && (!best || !from)) status = gs_fail(GS_E_MEMORY, "no memory to cut a model");
    if (status == GS_OK) {
        find_best(plan, place, pieces, runs, best, from);
        first[runs] = plan->net->children;
        for (int r = runs - 1, u = pieces; r >= 0; r--) {
            u = r > 0 ? from[r * (pieces + 1) + u] : 0;
            first[r] = place[u];
        }
    }
    free(place);
    free(best);
    free(from);
    return status;
}

/* ---- a table that two runs use ---- */

typedef struct search {
    const gs_layer *found;
} search;

static gs_status find_borrower(gs_layer *l, void *context) {
    search *s = context;
    if (l->borrowed) s->found = l;
    return GS_OK;
}

/* The run with this layer: numbers grow from child to child. */
static int run_with(const gs_model *plan, int runs, const int *first, int number) {
    int r = 0;
    while (r + 1 < runs && plan->net->child[first[r + 1]]->number <= number) r++;
    return r;
}

static const gs_layer *owner_of(const gs_model *plan, gs_layer *l, const gs_param *table) {
    const gs_layer *found = table >= l->param && table < l->param + GS_LAYER_PARAMS ? l : NULL;
    for (int i = 0; i < l->children && !found; i++) found = owner_of(plan, l->child[i], table);
    return found;
}

gs_status gs_pipeline_tied(const gs_model *plan, int runs, const int *first, gs_tied_runs *out) {
    search s = {NULL};
    *out = (gs_tied_runs){NULL, 0, 0};
    GS_TRY(gs_layer_walk(plan->net, find_borrower, &s));
    if (!s.found) return GS_OK;
    const gs_layer *owner = owner_of(plan, plan->net, s.found->borrowed);
    out->lender = run_with(plan, runs, first, owner->number);
    out->borrower = run_with(plan, runs, first, s.found->number);
    if (out->lender == out->borrower) return GS_OK;
    out->table = s.found->borrowed;
    if (out->lender == 0 && out->borrower == runs - 1) return GS_OK;
    return gs_fail(GS_E_USAGE,
                   "layer %s (%s) uses the table of layer %s, and a cut lies between them: that goes where "
                   "one of them is "
                   "in the first run of layers and the other in the last one, of %d; they are in %d and %d",
                   s.found->name, s.found->ops->name, owner->name, runs, out->borrower + 1, out->lender + 1);
}
