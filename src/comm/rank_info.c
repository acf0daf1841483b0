#include "comm/rank_info.h"
#include "comm/rendezvous/route.h"
#include "comm/rendezvous/secret.h"
#include "core/shard.h"
#include "core/text.h"
#include "core/usable.h"
#include "core/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char BOOT[] = "/proc/sys/kernel/random/boot_id"; /* of the running kernel */

/* ---- this process ---- */

/* The first line of a file; "" if there is none. */
static void first_line(const char *path, char *line, size_t size) {
    FILE *f = fopen(path, "re");
    if (!f || !fgets(line, (int)size, f)) line[0] = '\0';
    if (f) fclose(f);
    line[strcspn(line, "\n")] = '\0';
}

static void link_text(const char *path, char *text, size_t size) {
    ssize_t n = readlink(path, text, size - 1);
    text[n < 0 ? 0 : n] = '\0';
}

void gs_machine_id(char *text, size_t size) {
    char host[128] = "", boot[64], space[64];
    const char *machine = getenv("GRADSUM_MACHINE"); /* simulates a separate machine */
    if (machine)
        snprintf(host, sizeof host, "%s", machine);
    else if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    first_line(BOOT, boot, sizeof boot);
    link_text("/proc/self/ns/pid", space, sizeof space);
    snprintf(text, size, "%s %s %s", host, boot, space);
}

gs_status gs_rank_info_create(const gs_rendezvous *r, gs_rank_info *p) {
    char boot[64], space[48];
    *p = (gs_rank_info){.rank = r->rank, .size = r->size, .pid = getpid(), .version = GRADSUM_VERSION};
    gs_machine_id(p->machine, sizeof p->machine);
    first_line(BOOT, boot, sizeof boot);
    link_text("/proc/self/ns/net", space, sizeof space);
    snprintf(p->network, sizeof p->network, "%s %s", boot, space);
    snprintf(p->purpose, sizeof p->purpose, "%s", r->purpose && *r->purpose ? r->purpose : "work");
    snprintf(p->transport, sizeof p->transport, "%.40s%s", r->transport ? r->transport : "auto",
             r->gloo_all_reduce ? " (for --sync gloo)" : "");
    return gs_secret_make(p->nonce, GS_NONCE);
}

void gs_rank_info_derive(gs_rank_info *p, const unsigned char key[GS_SECRET]) {
    char label[32];
    snprintf(label, sizeof label, "secret of rank %d", p->rank);
    gs_key_derive(key, label, p->nonce, GS_NONCE, p->secret);
}

gs_status gs_processes_learn(gs_comm *c, const char *machine, gs_process_info **all) {
    gs_process_info mine = {.pid = getpid(), .quota = gs_usable_here().quota};
    GS_TRY(GS_NEW(*all, c->size, "the machines of %d processes", c->size));
    if (machine)
        snprintf(mine.machine, sizeof mine.machine, "%s", machine);
    else
        gs_machine_id(mine.machine, sizeof mine.machine);
    if (sched_getaffinity(0, sizeof mine.cpus, &mine.cpus) != 0) CPU_ZERO(&mine.cpus);
    return gs_comm_all_gather(c, &mine, *all, sizeof mine, GS_U8);
}

bool gs_is_same_machine(const gs_process_info *a, const gs_process_info *b) {
    return strncmp(a->machine, b->machine, sizeof a->machine) == 0;
}

/* ---- writing ---- */

void gs_rank_info_text(const gs_rank_info *p, char *text, size_t size) {
    snprintf(text, size,
             "rank %d of %d, process %ld on %s\ngradsum %s to %s over %s\nnetwork %s, port %d at %s\nnonce ",
             p->rank, p->size, p->pid, p->machine, p->version, p->purpose, p->transport, p->network, p->port,
             p->address[0] ? p->address : "nowhere");
    for (int i = 0; i < GS_NONCE; i++) gs_append(text, size, "%02x", p->nonce[i]);
    gs_append(text, size, "\n");
}

/* ---- reading ---- */

static bool read_nonce(const char *hex, unsigned char nonce[GS_NONCE]) {
    const size_t digits = (size_t)2 * GS_NONCE;
    if (strspn(hex, "0123456789abcdef") != digits || hex[digits] != '\n') return false;
    for (int i = 0; i < GS_NONCE; i++) sscanf(hex + (size_t)2 * (size_t)i, "%2hhx", &nonce[i]);
    return true;
}

gs_status gs_rank_info_parse(const gs_rank_info *mine, int rank, const char *words, const char *source,
                             gs_rank_info *p) {
    int first = 0, rest = 0;
    sscanf(words, "rank %d of %d, process %ld on %255[^\n]%n", &p->rank, &p->size, &p->pid, p->machine,
           &first);
    if (first == 0 || p->rank != rank)
        return gs_fail(GS_E_FILE, "%s holds '%.*s'; it is not a rank's file", source,
                       (int)gs_smaller(strcspn(words, "\n"), 80), words);
    if (p->size != mine->size)
        return gs_fail(GS_E_PEER, "rank %d is one of %d process%s, but rank %d is one of %d", mine->rank,
                       mine->size, gs_es(mine->size), rank, p->size);
    sscanf(words + first,
           "\ngradsum %31s to %15s over %63[^\n]\nnetwork %127[^,\n], port %d at %63s\nnonce %n", p->version,
           p->purpose, p->transport, p->network, &p->port, p->address, &rest);
    if (rest > 0 && read_nonce(words + first + rest, p->nonce)) return GS_OK;
    return gs_fail(GS_E_FILE, "%s is not a rank's file of gradsum %s", source, mine->version);
}

/* ---- comparing ---- */

gs_status gs_rank_info_compare(const gs_rank_info *mine, const gs_rank_info *other) {
    if (strcmp(other->version, mine->version) != 0)
        return gs_fail(GS_E_PEER,
                       "rank %d is gradsum %s, but rank %d is gradsum %s: all must be the same version",
                       mine->rank, mine->version, other->rank, other->version);
    if (strcmp(other->purpose, mine->purpose) != 0)
        return gs_fail(GS_E_USAGE,
                       "rank %d was started to %s, but rank %d to %s: start all with the same command",
                       mine->rank, mine->purpose, other->rank, other->purpose);
    if (strcmp(other->transport, mine->transport) != 0)
        return gs_fail(GS_E_PEER,
                       "rank %d talks over %s, but rank %d over %s: start all with the same transport "
                       "(GRADSUM_TRANSPORT) and --sync",
                       mine->rank, mine->transport, other->rank, other->transport);
    const gs_rank_info *p = gs_route_is_local(mine->address) ? mine : other;
    if (strcmp(mine->network, other->network) == 0 || !gs_route_is_local(p->address)) return GS_OK;
    return gs_fail(
        GS_E_USAGE,
        "rank %d runs on %.*s and rank %d on %.*s, which do not share a network: rank %d listens at %s, "
        "which only its own machine can reach; set GRADSUM_ADDRESS for each rank to an address at which the "
        "others can reach its machine",
        mine->rank, (int)strcspn(mine->machine, " "), mine->machine, other->rank,
        (int)strcspn(other->machine, " "), other->machine, p->rank, p->address);
}
