/* A rank's entry in the rendezvous folder or store: its identity, its address, and a nonce. The rank's secret is
 * derived from the nonce and the run's key (rendezvous/secret.h). An entry in a store can be overheard, but the key is
 * never sent. In a folder the key is 0, but only the owner can read the files, so there the nonce itself is secret.
 *
 *     rank 1 of 4, process 4711 on node7 5a1cf9c0-... pid:[4026531836]
 *     gradsum 0.1.0 to train over auto
 *     network 5a1cf9c0-... net:[4026531840], port 40123 at 10.0.0.7
 *     nonce 6f1d...
 *
 * Only for src/comm/. */
#pragma once

#include <sched.h>
#include "comm/create.h"
#include "comm/handshake.h"
#include "comm/waits.h"

typedef struct gs_rank_info {
    int rank, size;
    long pid;
    char machine[256];        /* gs_machine_id */
    char version[32];         /* of gradsum */
    char purpose[16];         /* "train"; "work" if not stated */
    char transport[64];       /* its name, and other settings on which all ranks must agree */
    char network[128];        /* where 127.0.0.1 is valid: a running kernel and its network namespace */
    char address[GS_ADDRESS]; /* where it listens, in numbers */
    int port;                 /* 0: it does not listen */
    unsigned char secret[GS_SECRET], nonce[GS_NONCE];
} gs_rank_info;

/* The info of this process, except address, port and secret. */
gs_status gs_rank_info_create(const gs_rendezvous *, gs_rank_info *);

/* Write the info as four lines of text. */
void gs_rank_info_text(const gs_rank_info *, char *text, size_t size);

/* Read the rank info of `rank` from the text `words`, which messages call `source`; the secret is not set. GS_E_FILE:
 * the text is not a rank info. GS_E_PEER: its world has a different size from that of `mine`. */
gs_status gs_rank_info_parse(const gs_rank_info *mine, int rank, const char *words, const char *source,
                             gs_rank_info *);

/* Set the rank's secret to HMAC-SHA256(key of the run; rank, nonce). */
void gs_rank_info_derive(gs_rank_info *, const unsigned char key[GS_SECRET]);

/* Where process ids are valid: a host, its running kernel, and its process namespace. The kernel's boot id
 * distinguishes machines of the same name, such as clones of one disk. */
void gs_machine_id(char *text, size_t size);

/* What a process tells the others about itself, once they are connected. */
typedef struct gs_process_info {
    char machine[256];
    int64_t pid;
    cpu_set_t cpus; /* the CPUs that it may use */
    double quota;   /* of CPU time (core/usable.h) */
} gs_process_info;

/* Exchange them. The caller frees (*all)[size], even after a failure. machine: this one's name; NULL: gs_machine_id. */
gs_status gs_processes_learn(gs_comm *, const char *machine, gs_process_info **all);

bool gs_is_same_machine(const gs_process_info *, const gs_process_info *);

/* Check that both ranks can belong to one run. GS_E_PEER: they differ in version or transport. GS_E_USAGE: they differ
 * in purpose, or cannot reach each other's addresses and need GRADSUM_ADDRESS. The message names both ranks. */
gs_status gs_rank_info_compare(const gs_rank_info *mine, const gs_rank_info *other);
