/* Lab 20: many machines. See README.md, and tasks.h for what each function must do. */
#include "tasks.h"

#include <math.h>
#include <string.h>

gs_status lab_rendezvous(int nodes, const int *ranks_of, int node, int local, const char *address, int *rank,
                         char (*peer)[LAB_ADDRESS]) {
    /* task 20.1: which ranks are on the machines before this one? What must be in the store before anyone waits? */
    char key[LAB_ADDRESS];
    int all = 0;
    *rank = local;
    for (int n = 0; n < node; n++) *rank += ranks_of[n];
    for (int n = 0; n < nodes; n++) all += ranks_of[n];
    snprintf(key, sizeof key, "%d", *rank);
    GS_TRY(store_set(key, address));
    for (int r = 0; r < all; r++) {
        snprintf(key, sizeof key, "%d", r);
        GS_TRY(store_get(key, peer[r]));
    }
    return GS_OK;
    /* end of task 20.1 */
}

gs_status hierarchical_sum(gs_sync *s, int each, float *data, size_t count) {
    int inside[LAB_GROUP], across[LAB_GROUP];
    const int hosts = s->comm->size / each, host = s->comm->rank / each, local = s->comm->rank % each;
    /* task 20.2: two groups: the ranks of this host, and one of each host. Who sums what with whom, in which order? */
    for (int i = 0; i < each; i++) inside[i] = host * each + i;
    for (int h = 0; h < hosts; h++) across[h] = h * each + local;
    const gs_chunk all = {0, count}, mine = group_piece(all, each, local);
    GS_TRY(group_reduce_scatter(s, inside, each, data, all));
    GS_TRY(group_reduce_scatter(s, across, hosts, data, mine));
    GS_TRY(group_all_gather(s, across, hosts, data, mine));
    return group_all_gather(s, inside, each, data, all);
    /* end of task 20.2 */
}

double lab_flat_time(const lab_cluster *c, double bytes) {
    /* task 20.3: how many rounds? Which link is the slowest, with several hosts and with one? */
    const int ranks = c->hosts * c->each;
    const double chunk = bytes / ranks, in = c->inside.latency + chunk / c->inside.bandwidth,
                 out = c->between.latency + chunk / c->between.bandwidth;
    if (c->hosts == 1) return 2 * (ranks - 1) * in;
    return 2 * (ranks - 1) * (c->each == 1 ? out : fmax(in, out));
    /* end of task 20.3 */
}

double lab_hierarchical_time(const lab_cluster *c, double bytes) {
    /* task 20.3: how large is a chunk inside, and between? Who else uses the line at the same time? */
    const double inside = c->inside.latency + bytes / c->each / c->inside.bandwidth,
                 between = c->between.latency + bytes / c->hosts / c->between.bandwidth;
    return 2 * (c->each - 1) * inside + 2 * (c->hosts - 1) * between;
    /* end of task 20.3 */
}

double lab_hours(const lab_job *j, const lab_row *row) {
    /* task 20.4: how many samples with such a batch, how many steps, how long? */
    return j->samples * (1 + row->batch / j->critical) / row->batch * row->seconds / 3600;
    /* end of task 20.4 */
}

int lab_in_time(const lab_job *j, int rows, const lab_row *row, double deadline) {
    /* task 20.4: among the rows in time, the least money. */
    int best = -1;
    double least = INFINITY;
    for (int i = 0; i < rows; i++) {
        const double hours = lab_hours(j, &row[i]), money = hours * row[i].workers * j->price;
        if (hours > deadline || money >= least) continue;
        least = money;
        best = i;
    }
    return best;
    /* end of task 20.4 */
}

int lab_best(const lab_job *j, int rows, const lab_row *row, double worth) {
    /* task 20.4: what does the next doubling save, and what more does it cost? */
    int at = 0;
    while (at + 1 < rows) {
        const double now = lab_hours(j, &row[at]), then = lab_hours(j, &row[at + 1]),
                     more = j->price * (then * row[at + 1].workers - now * row[at].workers);
        if ((now - then) * worth <= more) break;
        at++;
    }
    return at;
    /* end of task 20.4 */
}
