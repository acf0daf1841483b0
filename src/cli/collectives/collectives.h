/* The table of collectives: what cmd_collectives.c (running) and collectives_print.c (printing) share. */
#pragma once

#include "cli/cli.h"
#include "comm/call.h"

enum { GS_TABLE_RANKS = 64, GS_TABLE_TRANSPORTS = 3, GS_TABLE_KINDS = 2, GS_TABLE_RUNS = 20 };

/* Which cell of a row, in which table. */
typedef struct gs_table_column {
    int transport, kind;
} gs_table_column;

/* What one rank saw of one run of a cell. */
typedef struct gs_outcome {
    gs_error error;
    double seconds;
} gs_outcome;

typedef struct gs_table {
    const char *const *transports; /* the first one's comm also carries what the ranks tell each other */
    int transport_count;
    gs_rendezvous mpirun; /* size > 1: the ranks are processes, and this is one of them */
    int ranks;
    uint64_t size; /* bytes */
    double timeout;
    const char *device; /* OpenCL's name, for the second table */
    const char *spoil;  /* the operation whose results are made wrong; NULL: none */
    gs_link link;
    bool json, has_cl; /* has_cl: here, then on all ranks */
    bool bind;         /* each rank keeps to CPUs of its own */
    int runs;          /* of each cell, at least; */
    double seconds;    /* more, if these take less in all; not with a link */
    int cells, wrong;
    char folder[300]; /* where the ranks meet for Gloo */
    gs_outcome outcome[GS_TABLE_RANKS];
} gs_table;

/* The array that an operation moves or reduces has --size bytes, of f32, at least one for each rank. */
gs_call gs_table_call(const gs_table *, gs_operation, int rank);

/* What rank 0 prints: what stands above the table of a kind of buffer, and a cell, whose outcomes are known. */
void gs_table_print_head(const gs_table *, int kind);
void gs_table_print_cell(gs_table *, gs_operation, gs_table_column);
