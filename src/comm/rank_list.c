#include "comm/rank_list.h"
#include "core/text.h"

#include <string.h>

int gs_append_ranks(char *text, size_t size, const char *noun, int first, int count, const bool *mark) {
    int marked = 0, nth = 0;
    for (int i = 0; i < count; i++) marked += mark[i];
    const char *plural = marked == 1 ? "" : noun[strlen(noun) - 1] == 's' ? "es" : "s";
    gs_append(text, size, "%s%s", noun, plural);
    for (int i = 0; i < count; i++) {
        if (!mark[i]) continue;
        nth++;
        gs_append(text, size, "%s%d", nth == 1 ? " " : nth == marked ? " and " : ", ", first + i);
    }
    return marked;
}
