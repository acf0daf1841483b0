/* Which store a text names, and how it is called. */
#include "comm/meet/store.h"
#include "comm/meet/entries.h"
#include "core/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- addresses ---- */

/* "HOST:PORT" and, of redis, "/NAME". */
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
    if (port < 0 || port > 65535 || (port == 0 && p->kind != GS_MEET_TCP)) return false;
    p->port = (int)port;
    snprintf(p->name, sizeof p->name, "run");
    if (*after == '/' && p->kind == GS_MEET_REDIS && after[1]) {
        if (strlen(after + 1) >= sizeof p->name) return false;
        snprintf(p->name, sizeof p->name, "%s", after + 1);
        for (const char *c = p->name; *c; c++)
            if (*c <= ' ' || *c > '~') return false;
        return true;
    }
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
    } else if (strncmp(text, "redis://", 8) == 0) {
        p->kind = GS_MEET_REDIS;
        if (read_host(text + 8, p)) return GS_OK;
    }
    return gs_fail(
        GS_E_USAGE,
        "the place to meet is '%.200s'; it must be tcp://HOST:PORT, redis://HOST:PORT/NAME or file:DIR",
        text);
}

bool gs_meet_is_folder(const char *text) {
    return strncmp(text, "file:", 5) == 0 || !(strcmp(text, "tcp") == 0 || strstr(text, "://"));
}

gs_status gs_store_open(const gs_rendezvous *r, const unsigned char key[GS_SECRET], double until,
                        gs_store **out) {
    gs_meet_place place;
    *out = NULL;
    GS_TRY(gs_meet_place_read(r->meet, &place));
    return place.kind == GS_MEET_REDIS ? gs_store_open_redis(r, &place, key, until, out)
                                       : gs_store_open_tcp(r, &place, key, until, out);
}

/* ---- a store that is full ---- */

static int limit; /* of tests; 0: none */

void gs_store_limit(int entries) {
    limit = entries;
}

int gs_store_most(void) {
    return limit > 0 ? limit : GS_ENTRIES;
}

void gs_store_full_text(const char *where, int holds, int most, char *text, size_t size) {
    if (holds < most)
        snprintf(text, size,
                 "%s, where the ranks meet, has no memory for more than the %d entries that it holds", where,
                 holds);
    else
        snprintf(text, size, "%s, where the ranks meet, is full: it holds %d of at most %d entries", where,
                 most, most);
}

void gs_store_fault_text(gs_status status, const char *why, char value[GS_STORE_VALUE]) {
    snprintf(value, GS_STORE_VALUE, "-1 %d %s", (int)status, why);
}

gs_status gs_store_refuse(gs_store *s, const char *where, int holds) {
    char why[GS_STORE_VALUE - 40], value[GS_STORE_VALUE];
    bool there;
    gs_store_full_text(where, holds, gs_store_most(), why, sizeof why);
    gs_store_fault_text(GS_E_MEMORY, why, value);
    if (s->ops->put(s, "fault", value, &there) == GS_OK && there)
        return gs_fail(GS_E_MEMORY, "%s", gs_store_fault_why(value));
    return gs_fail(GS_E_MEMORY, "%s", why);
}

const char *gs_store_fault_why(const char *value) {
    int from, status, used = 0;
    return sscanf(value, "%d %d %n", &from, &status, &used) == 2 ? value + used : value;
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

void gs_store_watch_line(int socket, double seconds) {
    const int yes = 1, each = 1 /* s */, most = (int)(1000 * seconds);
    setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &each, sizeof each);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &each, sizeof each);
    setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &most, sizeof most);
}

void gs_store_own_address(int socket, char *text, size_t size) {
    struct sockaddr_storage a;
    socklen_t length = sizeof a;
    text[0] = '\0';
    if (getsockname(socket, (struct sockaddr *)&a, &length) == 0)
        getnameinfo((struct sockaddr *)&a, length, text, (socklen_t)size, NULL, 0, NI_NUMERICHOST);
}
