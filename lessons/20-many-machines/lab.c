/* Lab 20: many machines. See README.md, and tasks.h for what each function must do. */
#include "tasks.h"

#include <math.h>
#include <string.h>

gs_status lab_rendezvous(int nodes, const int *ranks_of, int node, int local, const char *address, int *rank,
                         char (*peer)[LAB_ADDRESS]) {
    /* task 20.1: which ranks are on the machines before this one? What must be in the store before anyone waits? */
    (void)nodes, (void)ranks_of, (void)node, (void)local, (void)address, (void)rank, (void)peer;
    return lab_blank("20.1");
    /* end of task 20.1 */
}

gs_status hierarchical_sum(gs_sync *s, int each, float *data, size_t count) {
    int inside[LAB_GROUP], across[LAB_GROUP];
    const int hosts = s->comm->size / each, host = s->comm->rank / each, local = s->comm->rank % each;
    /* task 20.2: two groups: the ranks of this host, and one of each host. Who sums what with whom, in which order? */
    (void)inside, (void)across, (void)hosts, (void)host, (void)local, (void)data, (void)count;
    return lab_blank("20.2");
    /* end of task 20.2 */
}

double lab_flat_time(const lab_cluster *c, double bytes) {
    /* task 20.3: how many rounds? Which link is the slowest, with several hosts and with one? */
    (void)c, (void)bytes;
    lab_blank("20.3");
    return 0;
    /* end of task 20.3 */
}

double lab_hierarchical_time(const lab_cluster *c, double bytes) {
    /* task 20.3: how large is a chunk inside, and between? Who else uses the line at the same time? */
    (void)c, (void)bytes;
    lab_blank("20.3 (lab_hierarchical_time)");
    return 0;
    /* end of task 20.3 */
}

double lab_hours(const lab_job *j, const lab_row *row) {
    /* task 20.4: how many samples with such a batch, how many steps, how long? */
    (void)j, (void)row;
    lab_blank("20.4");
    return 0;
    /* end of task 20.4 */
}

int lab_in_time(const lab_job *j, int rows, const lab_row *row, double deadline) {
    /* task 20.4: among the rows in time, the least money. */
    (void)j, (void)rows, (void)row, (void)deadline;
    lab_blank("20.4 (lab_in_time)");
    return 0;
    /* end of task 20.4 */
}

int lab_best(const lab_job *j, int rows, const lab_row *row, double worth) {
    /* task 20.4: what does the next doubling save, and what more does it cost? */
    (void)j, (void)rows, (void)row, (void)worth;
    lab_blank("20.4 (lab_best)");
    return 0;
    /* end of task 20.4 */
}
