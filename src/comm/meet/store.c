/* Which store a text names, and how it is called. */
#include "comm/meet/store.h"
#include "core/clock.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- addresses ---- */

/* "HOST:PORT" */
static bool read_host(const char *text, gs_meet_place *p) {
    const char *end = *text == '[' ? strchr(text, ']') : strchr(text, ':'), *rest;
    char *after;
    if (!end) return false;
    const char *host = *text == '[' ? text + 1 : text;
    rest = *text == '[' ? end + 1 : end;
    size_t length = (size_t)(end - host);
    if (length == 0 || length >= sizeof p->host || *rest != ':') return false;
    memcpy(p->host, host, length);
    p->host[length] = '\0';
    if (rest[1] < '0' || rest[1] > '9') return false;
    long port = strtol(rest + 1, &after, 10);
    if (port < 0 || port > 65535) return false;
    p->port = (int)port;
    return *after == '\0' || (strcmp(after, "/") == 0);
}

gs_status gs_meet_place_read(const char *text, gs_meet_place *p) {
    *p = (gs_meet_place){.kind = GS_MEET_FILE};
    if (strcmp(text, "tcp") == 0) text = "tcp://127.0.0.1:0";
    if (strncmp(text, "file:", 5) == 0 && text[5]) {
        p->folder = text + 5;
        return GS_OK;
    }
    if (strncmp(text, "tcp://", 6) == 0) {
        p->kind = GS_MEET_TCP;
        if (read_host(text + 6, p)) return GS_OK;
    }
    return gs_fail(GS_E_USAGE,
                   "the place to meet is '%.200s'; %s: tcp://HOST:PORT, with the address of node rank 0, or "
                   "file:DIR, a folder that all machines see",
                   text,
                   strncmp(text, "redis:", 6) == 0 ? "in place of a server of Redis use one of these two"
                                                   : "it must be one of these two");
}

bool gs_meet_is_folder(const char *text) {
    return strncmp(text, "file:", 5) == 0 || !(strcmp(text, "tcp") == 0 || strstr(text, "://"));
}

/* ---- sockets ---- */

static int call_one(const struct addrinfo *a, double until, int *error) {
    int s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t length = sizeof *error;
    *error = 0;
    if (s < 0 || (connect(s, a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS)) *error = errno;
    double left = until - gs_seconds();
    struct pollfd p = {.fd = s, .events = POLLOUT};
    if (*error == 0 && poll(&p, 1, left > 0 ? (int)(left * 1000) + 1 : 0) <= 0) *error = ETIMEDOUT;
    if (*error == 0 && getsockopt(s, SOL_SOCKET, SO_ERROR, error, &length) != 0) *error = errno;
    /* A caller's own port may happen to be the one that it calls: then it has met itself. */
    struct sockaddr_storage here, there;
    socklen_t h = sizeof here, t = sizeof there;
    memset(&here, 0, sizeof here);
    memset(&there, 0, sizeof there);
    if (*error == 0 && getsockname(s, (struct sockaddr *)&here, &h) == 0 &&
        getpeername(s, (struct sockaddr *)&there, &t) == 0 && h == t && memcmp(&here, &there, h) == 0)
        *error = ECONNREFUSED;
    if (*error == 0) return s;
    if (s >= 0) close(s);
    return -1;
}

int gs_store_call(const char *host, int port, double seconds, int *error, const char **why) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    char number[16];
    int s = -1;
    snprintf(number, sizeof number, "%d", port);
    int code = getaddrinfo(host, number, &hints, &found);
    *why = code != 0 ? gai_strerror(code) : NULL;
    *error = -1;
    if (code != 0) return -1;
    const double until = gs_seconds() + seconds;
    for (const struct addrinfo *a = found; a && s < 0; a = a->ai_next) s = call_one(a, until, error);
    freeaddrinfo(found);
    return s;
}

void gs_store_own_address(int socket, char *text, size_t size) {
    struct sockaddr_storage a;
    socklen_t length = sizeof a;
    text[0] = '\0';
    if (getsockname(socket, (struct sockaddr *)&a, &length) == 0)
        getnameinfo((struct sockaddr *)&a, length, text, (socklen_t)size, NULL, 0, NI_NUMERICHOST);
}
