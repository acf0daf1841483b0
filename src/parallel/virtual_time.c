#include "parallel/virtual_time.h"

#include <stdlib.h>

enum { UNDER_WAY = 2 /* a send waits while this many messages to its peer are unreceived (comm.h) */ };

typedef struct message {
    gs_instruction sent;
    double arrives, taken; /* taken: when it was received; below 0: not yet received */
    bool used;             /* its receiver has asked for it */
} message;

/* All messages from one stage to another, in the order sent. */
typedef struct channel {
    message *messages;
    size_t sent, taken;
    size_t used; /* all messages before this one are used */
} channel;

typedef struct stage_clock {
    size_t next; /* index of the next instruction */
    double now, busy;
} stage_clock;

typedef struct simulation {
    const gs_pipeline *pipeline;
    const gs_instructions *lists;
    const gs_pipeline_times *times;
    stage_clock *stage; /* [stages] */
    channel *channels;  /* [from][to] */
    size_t early;
    bool moved; /* something has happened since this was set to false */
} simulation;

static channel *channel_of(const simulation *s, int from, int to) {
    return &s->channels[from * s->pipeline->stages + to];
}

static double duration(const simulation *s, const gs_instruction *i, int stage) {
    const gs_pipeline_times *t = s->times;
    const int run = i->chunk * s->pipeline->stages + stage;
    if (i->action == GS_DO_FORWARD) return t->forward ? t->forward[run] : 1;
    if (i->action == GS_DO_BACKWARD) return t->backward ? t->backward[run] : 2;
    return 0;
}

static bool try_send(simulation *s, int stage, const gs_instruction *i) {
    channel *c = channel_of(s, stage, i->peer);
    if (c->sent - c->taken >= UNDER_WAY) return false;
    if (c->sent >= UNDER_WAY && c->messages[c->sent - UNDER_WAY].taken > s->stage[stage].now)
        s->stage[stage].now = c->messages[c->sent - UNDER_WAY].taken;
    c->messages[c->sent++] = (message){*i, s->stage[stage].now + s->times->message, -1, false};
    return true;
}

/* Receive messages until the wanted one has arrived, and keep the others. */
static bool try_receive(simulation *s, int stage, const gs_instruction *i) {
    channel *c = channel_of(s, i->peer, stage);
    const gs_instruction wanted = gs_instruction_sent(s->pipeline, i, stage);
    for (size_t m = c->used; m < c->sent; m++) {
        message *k = &c->messages[m];
        const bool found = !k->used && gs_instruction_is(&k->sent, &wanted);
        if (m >= c->taken) { /* not received yet */
            if (k->arrives > s->stage[stage].now) s->stage[stage].now = k->arrives;
            k->taken = s->stage[stage].now;
            c->taken++;
            s->moved = true;
            s->early += !found;
        }
        if (!found) continue;
        k->used = true;
        while (c->used < c->taken && c->messages[c->used].used) c->used++;
        return true;
    }
    return false;
}

static bool try_next(simulation *s, int stage) {
    const gs_instruction *i = &s->lists[stage].list[s->stage[stage].next];
    if (gs_action_sends(i->action) && !try_send(s, stage, i)) return false;
    if (gs_action_receives(i->action) && !try_receive(s, stage, i)) return false;
    const double takes = duration(s, i, stage);
    s->stage[stage].now += takes;
    s->stage[stage].busy += takes;
    s->stage[stage].next++;
    s->moved = true;
    return true;
}

static gs_status is_stuck(const simulation *s) {
    for (int stage = 0; stage < s->pipeline->stages; stage++) {
        if (s->stage[stage].next == s->lists[stage].count) continue;
        const gs_instruction *i = &s->lists[stage].list[s->stage[stage].next];
        return gs_fail(GS_E_USAGE,
                       "a deadlock: stage %d waits forever in '%s' of micro-batch %d, chunk %d, %s stage %d",
                       stage, gs_action_names[i->action], i->micro_batch, i->chunk,
                       gs_action_sends(i->action) ? "to" : "from", i->peer);
    }
    return GS_OK;
}

static gs_status make(simulation *s) {
    const size_t p = (size_t)s->pipeline->stages;
    GS_TRY(GS_NEW(s->stage, p, "a pipeline of %zu stages", p));
    GS_TRY(GS_NEW(s->channels, p * p, "messages between %zu stages", p));
    for (size_t from = 0; from < p; from++)
        for (size_t i = 0; i < s->lists[from].count; i++) {
            const gs_instruction *sends = &s->lists[from].list[i];
            if (!gs_action_sends(sends->action)) continue;
            channel *c = channel_of(s, (int)from, sends->peer);
            const size_t most = s->lists[from].count;
            if (!c->messages) GS_TRY(GS_NEW(c->messages, most, "%zu messages", most));
        }
    return GS_OK;
}

static void free_simulation(simulation *s) {
    const int p = s->pipeline->stages;
    for (int c = 0; s->channels && c < p * p; c++) free(s->channels[c].messages);
    free(s->channels);
    free(s->stage);
}

static void tell(const simulation *s, gs_pipeline_run *out) {
    const int p = s->pipeline->stages;
    double busy = 0;
    out->took = 0;
    out->early = s->early;
    for (int stage = 0; stage < p; stage++) {
        if (out->end) out->end[stage] = s->stage[stage].now;
        if (out->busy) out->busy[stage] = s->stage[stage].busy;
        if (s->stage[stage].now > out->took) out->took = s->stage[stage].now;
        busy += s->stage[stage].busy;
    }
    out->bubble = out->took > 0 ? 1 - busy / (p * out->took) : 0;
}

gs_status gs_pipeline_in_virtual_time(const gs_pipeline *pipeline, const gs_instructions *lists,
                                      const gs_pipeline_times *times, gs_pipeline_run *out) {
    simulation s = {.pipeline = pipeline, .lists = lists, .times = times};
    gs_status status = make(&s);
    s.moved = status == GS_OK;
    while (s.moved) {
        s.moved = false;
        for (int stage = 0; stage < pipeline->stages; stage++)
            while (s.stage[stage].next < lists[stage].count && try_next(&s, stage)) continue;
    }
    if (status == GS_OK) status = is_stuck(&s);
    if (status == GS_OK) tell(&s, out);
    free_simulation(&s);
    return status;
}
