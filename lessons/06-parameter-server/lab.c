/* Lab 6: the parameter server. See README.md, and tasks.h for what each function must do. */
#include "tasks.h"

/* ---- one server ---- */

gs_status collect(gs_sync *s, float *data, size_t count) {
    gs_chunk all = {0, count};
    gs_sync_round(s);
    /* task 6.1: rank 0 receives from rank 1, 2, ... and adds; the others send. */
    (void)data, (void)all;
    return lab_blank("6.1");
    /* end of task 6.1 */
}

gs_status give_back(gs_sync *s, float *data, size_t count) {
    gs_chunk all = {0, count};
    gs_sync_round(s);
    /* task 6.2: rank 0 sends the sum; all others receive it. */
    (void)data, (void)all;
    return lab_blank("6.2");
    /* end of task 6.2 */
}

gs_sync_cost server_cost(int ranks, int rank, const gs_sync_array *a) {
    gs_sync_cost cost = {0};
    /* task 6.3: cost.rounds, then gs_sync_cost_add for each message that this rank sends. Rank 0 and a worker
     * send different messages. */
    (void)ranks, (void)rank, (void)a;
    lab_blank("6.3 (server_cost)");
    return cost;
    /* end of task 6.3 */
}

double server_time(int ranks, double bytes, const gs_sync_model *m) {
    /* task 6.3: count the messages that rank 0 receives, with an addition each, and those that it sends. */
    (void)ranks, (void)bytes, (void)m;
    lab_blank("6.3 (server_time)");
    return 0;
    /* end of task 6.3 */
}

/* ---- every rank a server ---- */

gs_status sharded(gs_sync *s, float *data, size_t count) {
    int ranks = s->comm->size, me = s->comm->rank;
    /* task 6.4: first round: send every other rank its chunk, receive yours from every other rank. Second round: send
     * yours to all, receive theirs. Start with rank me + 1, so that not all ranks send to rank 0 first. */
    (void)ranks, (void)me, (void)data, (void)count;
    return lab_blank("6.4");
    /* end of task 6.4 */
}
