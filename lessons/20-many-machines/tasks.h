/* Lesson 20: the functions of lab.c.
 *
 *     20.1   lab_rendezvous      who tells whom which address
 *     20.2   hierarchical_sum    inside hosts, and between them
 *     20.3   lab_flat_time, lab_hierarchical_time     how long such sums take
 *     20.4   lab_hours, lab_in_time, lab_best         hours and money
 */
#pragma once

#include <stdio.h>
#include "lab.h"
#include "sync/scheme.h"

/* ---- 20.1 ---- */

enum { LAB_ADDRESS = 64 /* bytes of an address or of a key, with the final 0 */ };

/* The store, which all processes reach, keeps texts under keys. */

/* GS_E_USAGE: some process has already set this key. */
gs_status store_set(const char *key, const char *text);
/* Waits until some process sets this key. Fails if no process ever will, because all others wait too or have returned.
 */
gs_status store_get(const char *key, char text[LAB_ADDRESS]);

/* Task 20.1. A run of `nodes` machines, with ranks_of[n] processes on machine n. This process is number `local` (from
 * 0) on machine `node`, and others reach it at `address`. Each process knows only this; all call this function. Writes
 *
 *     *rank       the rank of this process: ranks are numbered machine by machine
 *     peer[r]     the address of rank r, including this one's; peer has room for all ranks
 *
 * Passes the failure of a call on. */
gs_status lab_rendezvous(int nodes, const int *ranks_of, int node, int local, const char *address, int *rank,
                         char (*peer)[LAB_ADDRESS]);

/* ---- 20.2 ---- */

/* Piece i of n of a part of an array, modulo n. */
static inline gs_chunk group_piece(gs_chunk part, int n, int i) {
    gs_chunk c = gs_chunk_of(part.count, n, i);
    c.first += part.first;
    return c;
}

/* The index of this rank in a group; -1: it is not in the group. */
static inline int group_place(const gs_sync *s, const int *rank, int n) {
    for (int i = 0; i < n; i++)
        if (rank[i] == s->comm->rank) return i;
    return -1;
}

/* The ring of lesson 7 in a group of ranks: rank[0 .. n-1], this one among them, sum this part of their arrays in n - 1
 * rounds. Then rank[i] holds the sum of group_piece(part, n, i), and the rest of the part is undefined. */
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

/* Before, rank[i] holds group_piece(part, n, i). After n - 1 rounds all of them hold the whole part. */
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

/* Task 20.2. All ranks sum `data`: afterwards each holds the sum over all. Each host has `each` ranks: ranks 0 ..
 * each-1 on the first, and so on. Messages inside a host are nearly free; between hosts send few bytes, in few rounds:
 *
 *     each of H hosts sends at most 2 (H - 1) / H times the array to others (except for rounding to whole floats)
 *     2 (each - 1) + 2 (H - 1) rounds, in each of which a rank sends at most one message (gs_sync_round begins one)
 *
 * You may call the two group functions above. */
gs_status hierarchical_sum(gs_sync *s, int each, float *data, size_t count);

/* ---- 20.3 ---- */

/* Two kinds of links. A message of B bytes takes latency + B / bandwidth. The ranks of a host share its line to the
 * other hosts: if k of them send at a time, each gets 1/k of `between.bandwidth`. Inside a host they do not slow each
 * other down. */
typedef struct lab_link {
    double latency, bandwidth; /* seconds, bytes a second */
} lab_link;

typedef struct lab_cluster {
    int hosts, each; /* each: ranks on a host; both >= 1, and more than one rank in all */
    lab_link inside, between;
} lab_cluster;

/* Task 20.3. The time of a sum of `bytes` in equal chunks: by one ring of all ranks, host after host, as in lesson 7
 * (reduce-scatter and all-gather: in each round each rank sends one chunk to the next, and all wait for the slowest);
 * and by 20.2. Adding takes no time. */
double lab_flat_time(const lab_cluster *, double bytes);
double lab_hierarchical_time(const lab_cluster *, double bytes);

/* ---- 20.4 ---- */

typedef struct lab_job {
    double samples;  /* needed with a small batch: epochs x samples of an epoch */
    double critical; /* the critical batch: batches of B need 1 + B / critical times as many samples */
    double price;    /* money for a worker and an hour */
} lab_job;

/* A measurement or simulation: `workers` compute a step of `batch` samples in `seconds`. */
typedef struct lab_row {
    int workers;
    double batch, seconds;
} lab_row;

/* Task 20.4. The hours that the job takes with these workers. */
double lab_hours(const lab_job *, const lab_row *);

/* Task 20.4. The row that does the job for the least money within `deadline` hours; of several the first. -1: no row
 * does. All workers are paid for all hours. */
int lab_in_time(const lab_job *, int rows, const lab_row *, double deadline);

/* Task 20.4. Each row has twice as many workers as the one before. Start at the first, and double the cluster as long
 * as the hours saved, at `worth` for an hour, are worth more than the additional money. Returns the row reached. */
int lab_best(const lab_job *, int rows, const lab_row *, double worth);
