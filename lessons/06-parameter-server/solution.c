/* Lab 6: the parameter server. See README.md, and tasks.h for what each function must do. */
#include "tasks.h"

/* ---- one server ---- */

gs_status collect(gs_sync *s, float *data, size_t count) {
    gs_chunk all = {0, count};
    gs_sync_round(s);
    /* task 6.1: rank 0 receives from rank 1, 2, ... and adds; the others send. */
    if (s->comm->rank > 0) return gs_sync_send(s, data, all, 0);
    for (int worker = 1; worker < s->comm->size; worker++) GS_TRY(gs_sync_recv_add(s, data, all, worker));
    return GS_OK;
    /* end of task 6.1 */
}

gs_status give_back(gs_sync *s, float *data, size_t count) {
    gs_chunk all = {0, count};
    gs_sync_round(s);
    /* task 6.2: rank 0 sends the sum; all others receive it. */
    if (s->comm->rank > 0) return gs_sync_recv(s, data, all, 0);
    for (int worker = 1; worker < s->comm->size; worker++) GS_TRY(gs_sync_send(s, data, all, worker));
    return GS_OK;
    /* end of task 6.2 */
}

gs_sync_cost server_cost(int ranks, int rank, const gs_sync_array *a) {
    gs_sync_cost cost = {0};
    /* task 6.3: cost.rounds, then gs_sync_cost_add for each message that this rank sends. Rank 0 and a worker
     * send different messages. */
    cost.rounds = 2;
    for (int message = 0; message < (rank == 0 ? ranks - 1 : 1); message++)
        gs_sync_cost_add(&cost, a, (gs_chunk){0, a->count});
    return cost;
    /* end of task 6.3 */
}

double server_time(int ranks, double bytes, const gs_sync_model *m) {
    /* task 6.3: count the messages that rank 0 receives, with an addition each, and those that it sends. */
    double message = m->alpha + m->beta * bytes;
    return (ranks - 1) * (message + m->gamma * bytes) + (ranks - 1) * message;
    /* end of task 6.3 */
}

/* ---- every rank a server ---- */

gs_status sharded(gs_sync *s, float *data, size_t count) {
    int ranks = s->comm->size, me = s->comm->rank;
    /* task 6.4: first round: send every other rank its chunk, receive yours from every other rank. Second round: send
     * yours to all, receive theirs. Start with rank me + 1, so that not all ranks send to rank 0 first. */
    gs_chunk mine = gs_chunk_of(count, ranks, me);
    gs_sync_round(s);
    for (int k = 1; k < ranks; k++) {
        int to = (me + k) % ranks;
        GS_TRY(gs_sync_send(s, data, gs_chunk_of(count, ranks, to), to));
    }
    for (int k = 1; k < ranks; k++) GS_TRY(gs_sync_recv_add(s, data, mine, (me + k) % ranks));
    gs_sync_round(s);
    for (int k = 1; k < ranks; k++) GS_TRY(gs_sync_send(s, data, mine, (me + k) % ranks));
    for (int k = 1; k < ranks; k++) {
        int from = (me + k) % ranks;
        GS_TRY(gs_sync_recv(s, data, gs_chunk_of(count, ranks, from), from));
    }
    return GS_OK;
    /* end of task 6.4 */
}
