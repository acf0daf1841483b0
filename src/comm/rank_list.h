/* Ranks in messages: "rank 1", "ranks 0, 2 and 3"; and where they run: " on host anna". Only for src/comm/. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Append those of 0 .. count-1 that are marked to `text`, which takes `size` bytes; mark[i] is called
 * first + i, and a rank is called `noun`. Returns how many there are. */
int gs_append_ranks(char *text, size_t size, const char *noun, int first, int count, const bool *mark);

enum { GS_HOST = 64 /* bytes of the name of a host, with its 0 */ };

/* Append " on host anna" or " on hosts anna, bert" for those marked; nothing where the names are not known ("", or host
 * is NULL). */
void gs_append_hosts(char *text, size_t size, int count, const bool *mark, const char (*host)[GS_HOST]);

/* [count] this machine's name, for each that has a process here, pid[i] > 0. The caller frees it; NULL: no memory. */
char (*gs_hosts_here(int count, const long *pid))[GS_HOST];
