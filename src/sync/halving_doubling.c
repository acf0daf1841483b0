/* Scheme "halving_doubling": Rabenseifner's algorithm. The partners are those of recursive_doubling.c, but a rank never
 * sends data that its partner does not need. With 4 ranks and the array cut into chunks a, b, c, d:
 *
 *     halving (reduce-scatter): keep one half of the current chunks, send the other half, add the incoming half
 *
 *     rank         0          1          2          3
 *     distance 1   keeps ab   keeps cd   keeps ab   keeps cd        0 <-> 1     2 <-> 3
 *     distance 2   keeps a    keeps c    keeps b    keeps d         0 <-> 2     1 <-> 3
 *
 *     doubling (all-gather): the same rounds in reverse, exchange and keep both
 *
 *     distance 2   has ab     has cd     has ab     has cd          0 <-> 2     1 <-> 3
 *     distance 1   has abcd   has abcd   has abcd   has abcd        0 <-> 1     2 <-> 3
 *
 * With N a power of two, L = log2 N, and an array of B bytes:
 *
 *     rounds             2 L
 *     each rank sends    2 L                     messages of B/2, B/4, ..., B/N, B/N, ..., B/4, B/2
 *     bytes              2 (N - 1) / N * B       if N divides the array
 *     time               2 L alpha  +  2 (N - 1) / N beta B  +  (N - 1) / N gamma B
 *
 * For other numbers of ranks, the extra ranks are folded in and out (fold.c): two more rounds of B each, and N is the
 * next lower power of two. Chunks that are empty because the array is small are not sent.
 *
 * It sends as few bytes as a ring, in as few rounds as a tree, so it is good for all sizes if N is a power of two.
 *
 * Source: Rabenseifner, "Optimization of collective reduction operations" (ICCS 2004, LNCS 3036); Thakur,
 * Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH" (IJHPCA 19, 2005). */
#include "sync/scheme.h"

/* Chunks first .. last-1 of the `places` chunks: those that a rank holds or sends. */
typedef struct window {
    int first, last;
} window;

static gs_chunk elements(const gs_fold *f, size_t count, window w) {
    return gs_chunk_range(count, f->places, w.first, w.last);
}

/* Find the half of w that a place keeps in the round of `distance`, and the half that it sends. */
static void halve(int place, int distance, window w, window *keep, window *send) {
    int middle = (w.first + w.last) / 2;
    window low = {w.first, middle}, high = {middle, w.last};
    *keep = place & distance ? high : low;
    *send = place & distance ? low : high;
}

/* The window of the partner at `distance` if this place has w. */
static window other_half(int place, int distance, window w) {
    int n = w.last - w.first;
    return place & distance ? (window){w.first - n, w.first} : (window){w.last, w.last + n};
}

static window both(window a, window b) {
    return a.first < b.first ? (window){a.first, b.last} : (window){b.first, a.last};
}

static gs_status exchange(gs_sync *s, const gs_fold *f, float *data, size_t count) {
    window has = {0, f->places}, keep, send;
    for (int distance = 1; distance < f->places; distance *= 2) { /* halving */
        gs_sync_round(s);
        if (f->place < 0) continue;
        int partner = gs_fold_rank(f, f->place ^ distance);
        halve(f->place, distance, has, &keep, &send);
        GS_TRY(gs_sync_send(s, data, elements(f, count, send), partner));
        GS_TRY(gs_sync_recv_add(s, data, elements(f, count, keep), partner));
        has = keep;
    }
    for (int distance = f->places / 2; distance > 0; distance /= 2) { /* doubling */
        gs_sync_round(s);
        if (f->place < 0) continue;
        int partner = gs_fold_rank(f, f->place ^ distance);
        window comes = other_half(f->place, distance, has);
        GS_TRY(gs_sync_send(s, data, elements(f, count, has), partner));
        GS_TRY(gs_sync_recv(s, data, elements(f, count, comes), partner));
        has = both(has, comes);
    }
    return GS_OK;
}

static gs_status halving_doubling_sum(gs_sync *s, float *data, size_t count) {
    gs_fold f = gs_fold_of(s->comm->size, s->comm->rank);
    GS_TRY(gs_fold_in(s, &f, data, count));
    GS_TRY(exchange(s, &f, data, count));
    return gs_fold_out(s, &f, data, count);
}

static gs_sync_cost halving_doubling_cost(int ranks, int rank, const gs_sync_array *a) {
    gs_fold f = gs_fold_of(ranks, rank);
    gs_sync_cost cost = {.rounds = 2 * (size_t)gs_log2_down(ranks)};
    window has = {0, f.places}, keep, send;
    for (int distance = 1; f.place >= 0 && distance < f.places; distance *= 2) {
        halve(f.place, distance, has, &keep, &send);
        gs_sync_cost_add(&cost, a, elements(&f, a->count, send)); /* halving */
        gs_sync_cost_add(&cost, a, elements(&f, a->count, keep)); /* doubling, at the same distance */
        has = keep;
    }
    gs_fold_cost(&f, rank, a, &cost);
    return cost;
}

static double halving_doubling_time(int ranks, double bytes, const gs_sync_model *m) {
    int places = 1 << gs_log2_down(ranks);
    double part = (places - 1) * bytes / places;
    return 2 * gs_log2_down(ranks) * m->alpha + 2 * m->beta * part + m->gamma * part +
           gs_fold_time(ranks, bytes, m);
}

const gs_sync_scheme gs_sync_halving_doubling = {
    .name = "halving_doubling",
    .what = "exchange halves, quarters, ..., and back (Rabenseifner)",
    .sum = halving_doubling_sum,
    .cost = halving_doubling_cost,
    .time = halving_doubling_time,
};
