/* A rank's entry in the rendezvous folder or store: its identity, its address, and a nonce, from which its secret is
 * derived with the run's key (rendezvous/secret.h). An entry in a store can be overheard, but the key is never sent. In
 * a folder the key is 0, and only the owner can read the files: there the nonce is as secret as the secret.
 *
 *     rank 1 of 4, process 4711 on node7 5a1cf9c0-... pid:[4026531836]
 *     gradsum 0.1.0 to train over auto
 *     network 5a1cf9c0-... net:[4026531840], port 40123 at 10.0.0.7
 *     nonce 6f1d...
 *
 * Only for src/comm/.
 */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include "comm/create.h"
#include "comm/handshake.h"
#include "comm/waits.h"

typedef struct gs_rank_info {
    int rank, size;
    long pid;
    char machine[256];        /* gs_machine_id */
    char version[32];         /* of gradsum */
    char purpose[16];         /* "train"; "work" if not stated */
    char transport[64];       /* its name, and other settings that must be the same */
    char network[128];        /* the scope of 127.0.0.1: a running kernel and its network namespace */
    char address[GS_ADDRESS]; /* where it listens, in numbers */
    int port;                 /* 0: it does not listen */
    unsigned char secret[GS_SECRET], nonce[GS_NONCE];
} gs_rank_info;

/* The info of this process, except address, port and secret. */
gs_status gs_rank_info_create(const gs_rendezvous *, gs_rank_info *);

/* Its four lines. */
void gs_rank_info_text(const gs_rank_info *, char *text, size_t size);

/* Read the rank info of `rank` from the text `words`, which messages call `source`; the secret is not set. GS_E_FILE:
 * it is no rank info. GS_E_PEER: its world has another size than that of `mine`. */
gs_status gs_rank_info_parse(const gs_rank_info *mine, int rank, const char *words, const char *source,
                             gs_rank_info *);

/* Its secret is HMAC-SHA256(key of the run; rank, nonce). */
void gs_rank_info_derive(gs_rank_info *, const unsigned char key[GS_SECRET]);

/* The scope of process ids: a host, its running kernel, and its process namespace. The kernel's boot id distinguishes
 * machines of the same name, such as clones of one disk. */
void gs_machine_id(char *text, size_t size);

/* What a process tells the others about itself, once they are connected. */
typedef struct gs_process_info {
    char machine[256];
    int64_t pid;
    cpu_set_t cpus; /* that it may use */
    double quota;   /* of CPU time (core/usable.h) */
} gs_process_info;

/* (*all)[size], which the caller frees, even after a failure. machine: this machine's name; NULL: gs_machine_id. */
gs_status gs_processes_learn(gs_comm *, const char *machine, gs_process_info **all);

bool gs_is_same_machine(const gs_process_info *, const gs_process_info *);

/* Check that both can belong to one run. GS_E_PEER: they differ in version or transport. GS_E_USAGE: they differ in
 * purpose, or cannot be connected at their addresses, and need GRADSUM_ADDRESS. The message names both. */
gs_status gs_rank_info_compare(const gs_rank_info *mine, const gs_rank_info *other);
