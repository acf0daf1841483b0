#include "comm/rank_list.h"

#include <stdio.h>
#include <string.h>

int gs_append_ranks(char *text, size_t size, const char *noun, int first, int count, const bool *mark) {
    size_t used = strlen(text);
    int marked = 0, nth = 0;
    for (int i = 0; i < count; i++) marked += mark[i];
    const char *plural = marked == 1 ? "" : noun[strlen(noun) - 1] == 's' ? "es" : "s";
    used += (size_t)snprintf(text + used, size - used, "%s%s", noun, plural);
    for (int i = 0; i < count && used < size; i++) {
        if (!mark[i]) continue;
        nth++;
        const char *before = nth == 1 ? " " : nth == marked ? " and " : ", ";
        used += (size_t)snprintf(text + used, size - used, "%s%d", before, first + i);
    }
    return marked;
}
