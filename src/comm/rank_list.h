/* Ranks in messages: "rank 1", "ranks 0, 2 and 3". Only for src/comm/. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Append those of 0 .. count-1 that are marked to `text`, which takes `size` bytes; mark[i] is called
 * first + i, and a rank is called `noun`. Returns how many there are. */
int gs_append_ranks(char *text, size_t size, const char *noun, int first, int count, const bool *mark);
