/* Lesson 20: the functions of lab.c.
 *
 *     20.1   lab_rendezvous      who tells whom which address
 *     20.2   hierarchical_sum    inside of hosts, and between them
 *     20.3   lab_flat_time, lab_hierarchical_time     how long such sums take
 *     20.4   lab_hours, lab_in_time, lab_best         hours and money
 */
#pragma once

#include <stdio.h>
#include "lab.h"
#include "sync/scheme.h"

/* ---- 20.1 ---- */

enum { LAB_ADDRESS = 64 /* bytes of an address or of a key, with the final 0 */ };

/* A store that all processes reach: in it are texts, each under a key. */

/* GS_E_USAGE: there is one under this key, by another process or this one. */
gs_status store_set(const char *key, const char *text);
/* Waits until some process has set this key. It fails where nobody will ever do so, since all others wait too, or have
 * returned. */
gs_status store_get(const char *key, char text[LAB_ADDRESS]);

/* Task 20.1. A run of `nodes` machines, ranks_of[n] processes on machine n. This process is number `local` (from 0) on
 * machine `node`, and others reach it at `address`. Each process knows this much, and no more; all call this function.
 *
 *     *rank       this process: ranks are numbered machine by machine
 *     peer[r]     the address of rank r, this one's too; there is room for all ranks
 *
 * A failure of a call is passed on. */
gs_status lab_rendezvous(int nodes, const int *ranks_of, int node, int local, const char *address, int *rank,
                         char (*peer)[LAB_ADDRESS]);

/* ---- 20.2 ---- */

/* Piece i of n of a part of an array, modulo n. */
static inline gs_chunk group_piece(gs_chunk part, int n, int i) {
    gs_chunk c = gs_chunk_of(part.count, n, i);
    c.first += part.first;
    return c;
}

static inline int group_place(const gs_sync *s, const int *rank, int n) {
    for (int i = 0; i < n; i++)
        if (rank[i] == s->comm->rank) return i;
    return -1;
}

/* The ring of lesson 7, of a group of ranks: rank[0 .. n-1], this one among them, sum this part of their arrays, in
 * n - 1 rounds. After that rank[i] has the sum of group_piece(part, n, i), and the rest of the part is of no use. */
static inline gs_status group_reduce_scatter(gs_sync *s, const int *rank, int n, float *data, gs_chunk part) {
    const int me = group_place(s, rank, n);
    if (me < 0)
        return gs_fail(GS_E_USAGE, "group_reduce_scatter: rank %d is not in the group", s->comm->rank);
    for (int k = 1; k < n; k++) {
        gs_sync_round(s);
        GS_TRY(gs_sync_send(s, data, group_piece(part, n, me - k), rank[(me + 1) % n]));
        GS_TRY(gs_sync_recv_add(s, data, group_piece(part, n, me - k - 1), rank[(me + n - 1) % n]));
    }
    return GS_OK;
}

/* Before: rank[i] has group_piece(part, n, i); after n - 1 rounds: all of them have all of the part. */
static inline gs_status group_all_gather(gs_sync *s, const int *rank, int n, float *data, gs_chunk part) {
    const int me = group_place(s, rank, n);
    if (me < 0) return gs_fail(GS_E_USAGE, "group_all_gather: rank %d is not in the group", s->comm->rank);
    for (int k = 0; k < n - 1; k++) {
        gs_sync_round(s);
        GS_TRY(gs_sync_send(s, data, group_piece(part, n, me - k), rank[(me + 1) % n]));
        GS_TRY(gs_sync_recv(s, data, group_piece(part, n, me - k - 1), rank[(me + n - 1) % n]));
    }
    return GS_OK;
}

enum { LAB_GROUP = 4096 /* ranks in a group, at most */ };

/* Task 20.2. All ranks sum `data`: afterwards each has the sum over all. `each` ranks are on each host: ranks 0 ..
 * each-1 on the first, and so on; all hosts have the same number. Messages inside a host are nearly free; what goes
 * from host to host is to be little, and in few rounds:
 *
 *     each host sends out no more than 2 (H - 1) / H times the array (H hosts; but for rounding to whole floats)
 *     2 (each - 1) + 2 (H - 1) rounds, in each of which a rank sends one message at most (gs_sync_round begins one)
 *
 * You may call the two group functions above. */
gs_status hierarchical_sum(gs_sync *s, int each, float *data, size_t count);

/* ---- 20.3 ---- */

/* Two kinds of links. A message of B bytes takes latency + B / bandwidth. The ranks of a host share its line to the
 * other hosts: if k of them send at a time, each gets a k-th of `between.bandwidth`. Inside of a host they do not
 * disturb each other. */
typedef struct lab_link {
    double latency, bandwidth; /* seconds, bytes a second */
} lab_link;

typedef struct lab_cluster {
    int hosts, each; /* each: ranks on a host; both >= 1, and more than one rank in all */
    lab_link inside, between;
} lab_cluster;

/* Task 20.3. How long the sum of `bytes` takes, all chunks being equal: by one ring of all ranks, host after host, as
 * in lesson 7 (reduce-scatter and all-gather: in each round each rank sends one chunk to the next one, and all wait for
 * the slowest); and by 20.2. Adding takes no time. */
double lab_flat_time(const lab_cluster *, double bytes);
double lab_hierarchical_time(const lab_cluster *, double bytes);

/* ---- 20.4 ---- */

/* What is to be done. */
typedef struct lab_job {
    double samples;  /* that a small batch needs in all: epochs x samples of an epoch */
    double critical; /* the critical batch: with batches of B, 1 + B / critical times as many */
    double price;    /* money for a worker and an hour */
} lab_job;

/* What was measured, or simulated: so many workers make a step of `batch` samples in `seconds`. */
typedef struct lab_row {
    int workers;
    double batch, seconds;
} lab_row;

/* Task 20.4. Three functions.
 *
 * How many hours does the job take with these workers? */
double lab_hours(const lab_job *, const lab_row *);

/* The row of the workers that do it for the least money within `deadline` hours; of several the first. -1: none does
 * it in time. All workers are paid for all hours. */
int lab_in_time(const lab_job *, int rows, const lab_row *, double deadline);

/* Each row has twice as many workers as the one before. Begin with the first, and double the cluster as long as that
 * pays: as long as the hours that it saves are worth more than the money that it costs in addition. An hour earlier is
 * worth `worth`. Return the row at which to stop. */
int lab_best(const lab_job *, int rows, const lab_row *, double worth);
