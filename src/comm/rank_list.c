#include "comm/rank_list.h"
#include "core/text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static bool is_new(int i, const bool *mark, const char (*host)[GS_HOST]) {
    bool seen = host[i][0] == '\0';
    for (int k = 0; k < i && !seen; k++) seen = mark[k] && strcmp(host[k], host[i]) == 0;
    return !seen;
}

void gs_append_hosts(char *text, size_t size, int count, const bool *mark, const char (*host)[GS_HOST]) {
    int hosts = 0, nth = 0;
    for (int i = 0; host && i < count; i++) hosts += mark[i] && is_new(i, mark, host);
    for (int i = 0; i < count && hosts > 0; i++)
        if (mark[i] && is_new(i, mark, host))
            gs_append(text, size, "%s%s", nth++ > 0 ? ", " : hosts > 1 ? " on hosts " : " on host ", host[i]);
}

char (*gs_hosts_here(int count, const long *pid))[GS_HOST] {
    char(*host)[GS_HOST] = calloc((size_t)count, sizeof *host);
    for (int i = 0; host && i < count; i++)
        if (pid[i] > 0 && gethostname(host[i], GS_HOST - 1) != 0) host[i][0] = '\0';
    return host;
}
