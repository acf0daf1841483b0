#include "comm/links.h"
#include "comm/descriptors.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* A rank is silent after this many attempts in a row (the first after 200 ms or more, each later one after twice the
 * time) and no sign of it for this long. Where packets are lost only now and then, one of the attempts arrives. */
enum { ATTEMPTS = 2, SILENT_MS = 400 };

typedef struct end {
    struct sockaddr_storage address;
    socklen_t length;
} end;

typedef struct link_ends {
    end here, there;
} link_ends;

struct gs_links {
    int lines, size;
    link_ends link[]; /* [lines * size]; of length 0 for this rank itself */
};

static bool find_ends(int socket, link_ends *l) {
    *l = (link_ends){.here.length = sizeof l->here.address, .there.length = sizeof l->there.address};
    if (socket >= 0 && getsockname(socket, (struct sockaddr *)&l->here.address, &l->here.length) == 0 &&
        getpeername(socket, (struct sockaddr *)&l->there.address, &l->there.length) == 0)
        return true;
    l->here.length = l->there.length = 0;
    return false;
}

static bool same(const end *a, const end *b) {
    return a->length == b->length && memcmp(&a->address, &b->address, a->length) == 0;
}

static bool is_link(int socket, const void *wanted) {
    link_ends l;
    const link_ends *w = wanted;
    return find_ends(socket, &l) && same(&l.here, &w->here) && same(&l.there, &w->there);
}

/* What TCP knows of it; false: it is closed here. */
static bool ask(const gs_links *links, int line, int rank, struct tcp_info *info) {
    socklen_t length = sizeof *info;
    memset(info, 0, sizeof *info);
    int socket = gs_find_descriptor(is_link, &links->link[line * links->size + rank]);
    return socket >= 0 && getsockopt(socket, IPPROTO_TCP, TCP_INFO, info, &length) == 0;
}

bool gs_links_is_silent(const gs_links *links, int rank) {
    struct tcp_info info;
    for (int line = 0; line < links->lines; line++)
        if (ask(links, line, rank, &info) && info.tcpi_retransmits + info.tcpi_probes >= ATTEMPTS &&
            info.tcpi_last_ack_recv >= SILENT_MS)
            return true;
    return false;
}

bool gs_links_has_ended(const gs_links *links, int rank) {
    struct tcp_info info;
    for (int line = 0; line < links->lines; line++)
        if (!ask(links, line, rank, &info) || info.tcpi_state != TCP_ESTABLISHED) return true;
    return false;
}

void gs_links_probe(int socket, double timeout) {
    int yes = 1, idle = 1, count = 127 /* the most that Linux takes */;
    int interval = timeout < 100 ? 1 : timeout < 3e6 ? (int)(timeout / 100) : 30000; /* at most 32767 s */
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
}

gs_links *gs_links_create(int lines, int size, const int *socket) {
    gs_links *links = malloc(sizeof *links + (size_t)lines * (size_t)size * sizeof *links->link);
    if (!links) return NULL;
    *links = (gs_links){.lines = lines, .size = size};
    for (int i = 0; i < lines * size; i++) find_ends(socket[i], &links->link[i]);
    return links;
}

void gs_links_free(gs_links *links) {
    free(links);
}
