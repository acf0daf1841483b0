#include "comm/virtual/play.h"
#include "comm/virtual/state.h"

#include <math.h>
#include <stdlib.h>

static const double PS = 1e12; /* in a second */

/* A rank goes on for so many moves at most before others get their turn: else the first ranks of a ring would run far
 * ahead, and what they have sent would fill the memory. */
enum { TURN = 256 };

enum { TOLD = 1 << 20 /* moves from one word of progress to the next: some 0.05 s */ };

/* ---- a rank goes on ---- */

typedef enum outcome { DONE, WAITS, PAUSES, FAILED } outcome;

/* A core for this rank's end of a message. False: it waits for one; it is asked again once it has had it. */
static bool has_had_core(gs_virtual *v, gs_virtual_rank *k, int r, int peer, double bytes) {
    const bool between = r / v->each != peer / v->each;
    const double takes = v->core && between ? ceil(bytes / GS_VIRTUAL_SEGMENT) * v->segment_core : 0;
    if (!(takes > 0)) return true;
    if (k->core_left < 0) {
        k->core_left = takes;
        gs_virtual_want_core(v, r, k->clock);
        return false;
    }
    k->core_left = -1;
    k->clock -= takes;
    return true;
}

static outcome send(gs_virtual *v, gs_virtual_rank *k, int r, int to, double bytes) {
    if (!has_had_core(v, k, r, to, bytes)) return WAITS;
    return gs_virtual_send(v, r, to, bytes) ? DONE : FAILED;
}

static outcome receive(gs_virtual *v, gs_virtual_rank *k, int r, int from, double bytes) {
    if (k->core_left < 0 && !gs_virtual_receive(v, r, from)) {
        k->waits_for = from;
        return WAITS;
    }
    return has_had_core(v, k, r, from, bytes) ? DONE : WAITS;
}

static outcome play_list(gs_virtual *v, gs_virtual_rank *k, int r, const gs_virtual_item *item, int *left) {
    const gs_virtual_list *l = item->list;
    const int size = l->ranks;
    for (; k->run < l->runs; k->run++, k->turn = 0) {
        const gs_virtual_run *u = &l->run[k->run];
        const gs_virtual_move *moves = l->move + u->first;
        for (; k->turn < u->times; k->turn++, k->place = 0) {
            if (*left <= 0) return PAUSES;
            for (; k->place < u->period; k->place++) {
                const gs_virtual_move *m = &moves[k->place];
                if (m->deed == GS_VIRTUAL_ADD) {
                    k->clock += gs_ps((double)m->bytes * v->gamma);
                    continue;
                }
                int peer = m->peer;
                if (m->step) peer = (int)(((uint64_t)peer + k->turn * (uint64_t)m->step) % (uint64_t)size);
                peer = item->base + peer * item->stride;
                --*left;
                const outcome o = m->deed == GS_VIRTUAL_SEND ? send(v, k, r, peer, (double)m->bytes)
                                                             : receive(v, k, r, peer, (double)m->bytes);
                if (o != DONE) return o;
            }
            v->moved += u->period;
        }
    }
    k->run = k->place = 0;
    k->turn = 0;
    return DONE;
}

/* Seconds pass; where cores are shared, once there is one. */
static outcome pass(gs_virtual *v, gs_virtual_rank *k, int r, const gs_virtual_item *item) {
    double *clock = gs_virtual_clock_of(v, r);
    const double takes = gs_ps(item->seconds * PS);
    if (v->core && item->what != GS_VIRTUAL_BEGIN && takes > 0 && k->core_left < 0) {
        k->core_left = takes;
        k->work_began = *clock;
        gs_virtual_want_core(v, r, *clock);
        return WAITS;
    }
    if (k->core_left < 0) {
        k->work_began = *clock;
        *clock += takes;
    }
    k->core_left = -1;
    k->account.passed += item->seconds;
    if (item->what == GS_VIRTUAL_BEGIN) k->work = k->clock;
    if (item->what == GS_VIRTUAL_WORK && v->watch && *clock > k->work_began)
        v->watch(v->context, r, item, k->work_began / PS, *clock / PS);
    return DONE;
}

/* The two threads of a rank. */
static void meet(gs_virtual_rank *k, const gs_virtual_item *item) {
    if (item->what == GS_VIRTUAL_NOTE)
        k->noted[item->base] = k->clock;
    else if (item->what == GS_VIRTUAL_AWAIT)
        k->work = k->work < k->noted[item->base] ? k->noted[item->base] : k->work;
    else if (k->clock < k->work) /* ASK, JOIN */
        k->clock = k->work;
    if (item->what == GS_VIRTUAL_JOIN) k->work = k->clock;
}

static outcome play_item(gs_virtual *v, gs_virtual_rank *k, int r, const gs_virtual_item *item, int *left) {
    switch (item->what) {
    case GS_VIRTUAL_BEGIN:
    case GS_VIRTUAL_PASS:
    case GS_VIRTUAL_WORK:
        return pass(v, k, r, item);
    case GS_VIRTUAL_ASK:
    case GS_VIRTUAL_NOTE:
    case GS_VIRTUAL_AWAIT:
    case GS_VIRTUAL_JOIN:
        meet(k, item);
        return DONE;
    case GS_VIRTUAL_LIST:
        return play_list(v, k, r, item, left);
    case GS_VIRTUAL_SEND_ONE:
        return send(v, k, r, item->base, (double)item->bytes);
    default:
        return receive(v, k, r, item->base, (double)item->bytes);
    }
}

static bool communicates(const gs_virtual_item *item) {
    return item->what >= GS_VIRTUAL_LIST;
}

static outcome play_rank(gs_virtual *v, int r) {
    gs_virtual_rank *k = &v->rank[r];
    const gs_virtual_script *s = &v->script[r];
    int left = TURN;
    k->waits_for = -1;
    for (; k->at < s->items; k->at++) {
        const gs_virtual_item *item = &s->item[k->at];
        if (k->item_began < 0) k->item_began = k->clock;
        const outcome o = play_item(v, k, r, item, &left);
        if (o != DONE) return o;
        if (communicates(item)) {
            if (k->account.first_sum < 0) k->account.first_sum = k->item_began / PS;
            k->account.communicating += (k->clock - k->item_began) / PS;
        }
        if (v->watch && k->clock > k->item_began && (communicates(item) || item->what <= GS_VIRTUAL_PASS))
            v->watch(v->context, r, item, k->item_began / PS, k->clock / PS);
        k->item_began = -1;
    }
    return DONE;
}

/* ---- all ranks ---- */

static double count_moves(const gs_virtual *v) {
    double moves = 0;
    for (int r = 0; r < v->ranks; r++)
        for (int i = 0; i < v->script[r].items; i++) {
            const gs_virtual_list *l = v->script[r].item[i].list;
            for (uint32_t k = 0; l && k < l->runs; k++) moves += (double)l->run[k].times * l->run[k].period;
        }
    return moves;
}

static void tell_progress(gs_virtual *v) {
    if (!v->progress || v->moved < v->told + TOLD) return;
    v->told = v->moved;
    v->progress(v->progress_context, v->moved / v->moves);
}

static gs_status is_stuck(const gs_virtual *v) {
    for (int r = 0; r < v->ranks; r++)
        if (v->rank[r].at < v->script[r].items)
            return gs_fail(GS_E_USAGE, "a deadlock: rank %d waits for ever for a message from rank %d", r,
                           v->rank[r].waits_for);
    return GS_OK;
}

static int next_ready(gs_virtual *v) {
    const int r = v->ready[v->ready_first];
    v->ready_first = v->ready_first + 1 < v->ranks ? v->ready_first + 1 : 0;
    v->ready_count--;
    v->rank[r].ready = false;
    return r;
}

static void begin(gs_virtual *v, const gs_virtual_script *scripts) {
    v->script = scripts;
    v->failed = GS_OK;
    v->moves = v->progress ? count_moves(v) : 0;
    v->moved = v->told = 0;
    for (int h = 0; h < v->cluster.hosts; h++) v->line[h] = (gs_virtual_line){0, 0};
    for (int r = 0; r < v->ranks; r++) {
        gs_virtual_rank *k = &v->rank[r];
        k->at = 0;
        k->run = k->place = 0;
        k->turn = 0;
        k->item_began = k->core_left = -1;
        k->account = (gs_virtual_account){.began = k->clock / PS, .first_sum = -1};
        gs_virtual_wake(v, r);
    }
}

gs_status gs_virtual_play(gs_virtual *v, const gs_virtual_script *scripts) {
    begin(v, scripts);
    do {
        while (v->ready_count > 0) {
            const int r = next_ready(v);
            const outcome o = play_rank(v, r);
            if (o == FAILED) return v->failed;
            if (o == PAUSES) gs_virtual_wake(v, r);
            tell_progress(v);
        }
    } while (gs_virtual_let_through(v));
    GS_TRY(is_stuck(v));
    for (int h = 0; h < v->cluster.hosts; h++) {
        v->line[h].out /= PS;
        v->line[h].in /= PS;
    }
    for (int r = 0; r < v->ranks; r++) {
        v->account[r] = v->rank[r].account;
        v->account[r].ended = v->rank[r].clock / PS;
        if (v->account[r].first_sum < 0) v->account[r].first_sum = v->account[r].ended;
    }
    return GS_OK;
}

const gs_virtual_account *gs_virtual_accounts(const gs_virtual *v) {
    return v->account;
}

const gs_virtual_line *gs_virtual_lines(const gs_virtual *v) {
    return v->line;
}

void gs_virtual_watched(gs_virtual *v, gs_virtual_watch watch, void *context) {
    v->watch = watch;
    v->context = context;
}

void gs_virtual_told(gs_virtual *v, gs_virtual_progress progress, void *context) {
    v->progress = progress;
    v->progress_context = context;
}

/* ---- making and freeing ---- */

static gs_status check(const gs_virtual_cluster *c) {
    if (c->ranks < 1) return gs_fail(GS_E_USAGE, "a cluster of %d workers; wanted 1 or more", c->ranks);
    if (c->hosts < 1 || c->hosts > c->ranks || c->ranks % c->hosts != 0)
        return gs_fail(
            GS_E_USAGE,
            "%d workers on %d hosts: every host has as many workers, so the hosts must divide them", c->ranks,
            c->hosts);
    if (c->cores > 0 && (c->pools < 1 || c->pools > c->ranks || c->ranks % c->pools != 0))
        return gs_fail(GS_E_USAGE, "%d workers cannot be divided among %d pools of cores", c->ranks,
                       c->pools);
    if (!(c->segment_core >= 0))
        return gs_fail(GS_E_USAGE, "a segment keeps a core busy for %g s; wanted 0 or more", c->segment_core);
    if (!gs_link_is_valid(&c->between) || !gs_link_is_valid(&c->inside) || !(c->gamma >= 0))
        return gs_fail(GS_E_USAGE, "a link takes at most 10 s, and 1 to 10^12 bytes a second");
    return GS_OK;
}

static void set_link(const gs_link *l, double *alpha, double *beta) {
    *alpha = gs_ps(l->latency * PS);
    *beta = l->bandwidth > 0 ? PS / l->bandwidth : 0;
}

static bool allocate(gs_virtual *v) {
    const size_t n = (size_t)v->ranks, hosts = (size_t)v->cluster.hosts;
    v->rank = calloc(n, sizeof *v->rank);
    v->ready = calloc(n, sizeof *v->ready);
    v->out_free = calloc(hosts, sizeof *v->out_free);
    v->in_free = calloc(hosts, sizeof *v->in_free);
    v->owed = calloc(hosts, sizeof *v->owed);
    v->busy = calloc(hosts, sizeof *v->busy);
    v->carried = calloc(hosts, sizeof *v->carried);
    v->source = calloc(n + hosts, sizeof *v->source);
    v->heap = calloc(2 * n + hosts, sizeof *v->heap);
    v->line = calloc(hosts, sizeof *v->line);
    v->account = calloc(n, sizeof *v->account);
    if (v->cluster.tcp && !(v->in_port = calloc(hosts, sizeof *v->in_port))) return false;
    if (v->cluster.cores > 0 && v->cluster.cores < v->ranks / v->cluster.pools) {
        v->core = calloc((size_t)v->cluster.cores * (size_t)v->cluster.pools, sizeof *v->core);
        if (!v->core) return false;
    }
    return v->rank && v->ready && v->out_free && v->in_free && v->owed && v->busy && v->carried &&
           v->source && v->heap && v->line && v->account;
}

gs_status gs_virtual_create(const gs_virtual_cluster *c, gs_virtual **out) {
    GS_TRY(check(c));
    gs_virtual *v = calloc(1, sizeof *v);
    if (!v) return gs_fail(GS_E_MEMORY, "no memory for a cluster of %d workers", c->ranks);
    v->cluster = *c;
    v->ranks = c->ranks;
    v->each = c->ranks / c->hosts;
    set_link(&c->between, &v->alpha, &v->beta);
    set_link(&c->inside, &v->alpha_inside, &v->beta_inside);
    v->piece = gs_ps(gs_virtual_tcp_piece(&c->between) * v->beta);
    v->gamma = c->gamma * PS;
    v->segment_core = gs_ps(c->segment_core * PS);
    if (!allocate(v)) {
        gs_virtual_free(v);
        return gs_fail(GS_E_MEMORY, "no memory for a cluster of %d workers", c->ranks);
    }
    *out = v;
    return GS_OK;
}

void gs_virtual_free(gs_virtual *v) {
    if (!v) return;
    for (int r = 0; v->rank && r < v->ranks; r++) gs_virtual_free_inbox(&v->rank[r].inbox);
    free(v->rank);
    free(v->message);
    free(v->ready);
    free(v->out_free);
    free(v->in_free);
    free(v->owed);
    free(v->busy);
    free(v->carried);
    free(v->core);
    free(v->in_port);
    free(v->source);
    free(v->heap);
    free(v->line);
    free(v->account);
    free(v);
}
