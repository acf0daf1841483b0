#include "comm/waits.h"
#include "core/text.h"
#include "comm/call.h"
#include "core/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TOLD = 4 /* maximum number of processes whose state a message gives */ };

static int count_of(const bool *mark, int size) {
    int count = 0;
    for (int r = 0; r < size; r++) count += mark[r];
    return count;
}

/* ---- the ranks to blame ---- */

static int mark_gone(const gs_waits *w, bool *mark) {
    for (int r = 0; r < w->size; r++)
        mark[r] = r != w->rank && w->pid && w->pid[r] > 0 &&
                  (gs_process_is_stopped(w->pid[r]) || gs_process_has_ended(w->pid[r]));
    return count_of(mark, w->size);
}

/* A wait much shorter than the timeout does not excuse rank `from`, which itself began to wait late. */
static bool waits(const gs_waits *w, int from, int to) {
    return from != to && w->age && w->age[from * w->size + to] >= w->timeout / 2;
}

/* Follow the waits from the `reached` ranks, and blame the ranks that wait for no one. Returns how many there are. */
static int follow(const gs_waits *w, bool *reached, bool *blamed) {
    for (bool more = true; more;) {
        more = false;
        for (int from = 0; from < w->size; from++)
            for (int to = 0; reached[from] && to < w->size; to++)
                if (!reached[to] && waits(w, from, to)) reached[to] = more = true;
    }
    for (int r = 0; r < w->size; r++) {
        blamed[r] = reached[r] && r != w->rank;
        for (int to = 0; to < w->size; to++) blamed[r] = blamed[r] && !waits(w, r, to);
    }
    return count_of(blamed, w->size);
}

/* Used if no process has gone. Mark the ranks to blame in blamed[size], and return how many there are. 0: the waits
 * form a cycle, so a message was lost. */
static int blame(const gs_waits *w, bool *blamed) {
    bool *reached = malloc((size_t)w->size * sizeof *reached);
    if (!reached) return 0;
    memcpy(reached, w->awaited, (size_t)w->size * sizeof *reached);
    const int count = follow(w, reached, blamed);
    free(reached);
    return count;
}

/* ---- a network that is cut ---- */

static bool is_cut(const gs_waits *w, int a, int b) {
    return a != b && (w->silent[a * w->size + b] || w->silent[b * w->size + a]);
}

/* The first rank with the most cut links; -1: no link is cut. */
static int find_hub(const gs_waits *w) {
    int hub = -1, most = 0;
    for (int a = 0; a < w->size; a++) {
        int cuts = 0;
        for (int b = 0; b < w->size; b++) cuts += is_cut(w, a, b);
        if (cuts > most) hub = a;
        if (cuts > most) most = cuts;
    }
    return hub;
}

static void append_address(const gs_waits *w, const char *before, int rank, char *text, size_t size) {
    gs_append(text, size, "%s%s %d (%s)", before, w->noun, w->first + rank, w->address[rank]);
}

/* Name the cut links of `hub`. */
static void append_cut(const gs_waits *w, int hub, char *text, size_t size) {
    int cuts = 0, nth = 0;
    for (int r = 0; r < w->size; r++) cuts += is_cut(w, hub, r);
    append_address(w, "; nothing gets through between ", hub, text, size);
    for (int r = 0; r < w->size; r++) {
        if (!is_cut(w, hub, r) || ++nth > TOLD) continue;
        append_address(w,
                       nth == 1      ? (cuts == 1 ? " and " : " and each of ")
                       : nth == cuts ? " and "
                                     : ", ",
                       r, text, size);
    }
    if (cuts > TOLD) gs_append(text, size, " and %d others", cuts - TOLD);
    gs_append(text, size, ": the network is cut there, or a machine is down");
}

/* ---- the message ---- */

/* Append all waits for which waits() is true: " (rank 0 waits for rank 2, rank 1 for rank 0)". */
static void append_all(const gs_waits *w, char *text, size_t size) {
    int told = 0, pairs = 0;
    for (int a = 0; a < w->size; a++) {
        for (int b = 0; b < w->size; b++) {
            if (!waits(w, a, b) || ++pairs > TOLD * 2) continue;
            gs_append(text, size, "%s%s %d %s%s %d", told > 0 ? ", " : " (", w->noun, w->first + a,
                      told > 0 ? "for " : "waits for ", w->noun, w->first + b);
            told++;
        }
    }
    if (told > 0) gs_append(text, size, "%s)", pairs > told ? ", and so on" : "");
}

/* " (process 4711 is stopped, process 4712 computes)" */
static void append_states(const gs_waits *w, const bool *blamed, char *text, size_t size) {
    int told = 0;
    for (int r = 0; w->pid && r < w->size && told < TOLD; r++) {
        char does[80];
        if (!blamed[r] || w->pid[r] <= 0 || w->pid[r] == getpid()) continue;
        gs_process_does(w->pid[r], does, sizeof does);
        gs_append(text, size, "%sprocess %ld %s", told++ == 0 ? " (" : ", ", w->pid[r],
                  *does ? does : "has ended");
    }
    if (told > 0) gs_append(text, size, ")");
}

/* The last call of the first rank to blame. */
static void append_last(const gs_waits *w, const bool *blamed, char *text, size_t size) {
    int r = 0;
    gs_call call;
    while (r < w->size && !blamed[r]) r++;
    if (w->last && r < w->size && gs_call_unpack(w->last[r], &call))
        gs_append(text, size, "; %s %d %s %s", w->noun, w->first + r, w->did, gs_call_text(&call, false));
}

static void append_where(const gs_waits *w, const bool *blamed, char *text, size_t size) {
    char here[GS_HOST] = "";
    bool is_here = false;
    for (int r = 0; w->pid && r < w->size; r++) is_here = is_here || (blamed[r] && w->pid[r] > 0);
    if (w->host)
        gs_append_hosts(text, size, w->size, blamed, w->host);
    else if (is_here && gethostname(here, sizeof here - 1) == 0)
        gs_append(text, size, " on host %s", here);
}

void gs_waits_explain(const gs_waits *w, char *text, size_t size) {
    bool *blamed = calloc((size_t)w->size, sizeof *blamed), among = true;
    int count = blamed ? mark_gone(w, blamed) : 0;
    const int hub = count == 0 && w->silent && w->address ? find_hub(w) : -1;
    if (blamed && count == 0 && hub < 0) count = blame(w, blamed);
    for (int r = 0; r < w->size && count > 0; r++) among = among && (!blamed[r] || w->awaited[r]);
    const bool exact = count > 0 && among;
    gs_append(text, size, "no answer within %g s from %s", w->timeout,
              w->one_of && count_of(w->awaited, w->size) > 1 && (!exact || count > 1) ? "one of " : "");
    gs_append_ranks(text, size, w->noun, w->first, w->size, exact ? blamed : w->awaited);
    if (hub >= 0) {
        append_cut(w, hub, text, size);
    } else if (count > 0 && !among) {
        gs_append(text, size, ", which wait%s for ", count_of(w->awaited, w->size) > 1 ? "" : "s");
        gs_append_ranks(text, size, w->noun, w->first, w->size, blamed);
    } else if (count == 0 && blamed) {
        gs_append(text, size, "; all are alive and waiting for others: %sthey call different operations",
                  w->pid ? "a connection is cut, or " : "");
        append_all(w, text, size);
    }
    if (count > 0) {
        append_states(w, blamed, text, size);
        append_where(w, blamed, text, size);
        append_last(w, blamed, text, size);
    }
    free(blamed);
}

/* ---- ranks in messages ---- */

void gs_append_ranks(char *text, size_t size, const char *noun, int first, int count, const bool *mark) {
    const int marked = count_of(mark, count);
    int nth = 0;
    const char *plural = marked == 1 ? "" : noun[strlen(noun) - 1] == 's' ? "es" : "s";
    gs_append(text, size, "%s%s", noun, plural);
    for (int i = 0; i < count; i++) {
        if (!mark[i]) continue;
        nth++;
        gs_append(text, size, "%s%d", nth == 1 ? " " : nth == marked ? " and " : ", ", first + i);
    }
}

static bool is_new(int i, const bool *mark, const char (*host)[GS_HOST]) {
    bool seen = host[i][0] == '\0';
    for (int k = 0; k < i && !seen; k++) seen = mark[k] && strcmp(host[k], host[i]) == 0;
    return !seen;
}

void gs_append_hosts(char *text, size_t size, int count, const bool *mark, const char (*host)[GS_HOST]) {
    int hosts = 0, nth = 0;
    for (int i = 0; i < count; i++) hosts += mark[i] && is_new(i, mark, host);
    for (int i = 0; i < count && hosts > 0; i++)
        if (mark[i] && is_new(i, mark, host))
            gs_append(text, size, "%s%s", nth++ > 0 ? ", " : hosts > 1 ? " on hosts " : " on host ", host[i]);
}
