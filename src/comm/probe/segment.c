/* What a segment of TCP costs the cores of this machine. Two threads are the ends of a connection of 127.0.0.1. One
 * sends a segment at each moment at which a line of the given bandwidth would take the next one; so the other is woken
 * for each of them if the line is slow, and finds many at once if it is fast, as a transport's thread does. What counts
 * is the time for which the two threads had a core, in the system too: it has no clock of other programs in it. */
#include "comm/probe/probe.h"
#include "core/clock.h"
#include "core/thread.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SEGMENT = 1448, PACKET = 1514 /* bytes: with its heads */, MOST = 2048 /* segments */ };
static const double SECONDS = 0.1, SLOWEST = 2e-3 /* s a segment: a slower line wakes nobody more often */,
                    WAIT = 10;

typedef struct end {
    int socket;
    double took; /* s of a core; below 0: it failed */
} end;

static double core_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Until the other end closes the connection. */
static void *take_all(void *argument) {
    static _Thread_local char room[64 * 1024];
    end *e = argument;
    struct epoll_event event = {.events = EPOLLIN};
    const int events = epoll_create1(EPOLL_CLOEXEC);
    const double begun = core_seconds();
    ssize_t got = -1;
    if (events >= 0 && epoll_ctl(events, EPOLL_CTL_ADD, e->socket, &event) == 0)
        while (got != 0) {
            const int woken = epoll_wait(events, &event, 1, (int)(WAIT * 1000));
            if (woken < 0 && errno == EINTR) continue;
            if (woken < 1) break;
            do got = recv(e->socket, room, sizeof room, MSG_DONTWAIT);
            while (got > 0);
            if (got < 0 && errno != EAGAIN && errno != EINTR) break;
        }
    e->took = got == 0 ? core_seconds() - begun : -1;
    if (events >= 0) close(events);
    return NULL;
}

/* The segments of a line that takes one every `each` seconds. */
static bool give(int socket, int segments, double each) {
    static const char data[SEGMENT];
    const double start = gs_seconds();
    prctl(PR_SET_TIMERSLACK, 1 /* ns */);
    for (int i = 0; i < segments; i++) {
        gs_sleep_until(start + i * each);
        for (ssize_t done = 0; done < SEGMENT;) {
            const ssize_t n = send(socket, data + done, (size_t)(SEGMENT - done), MSG_NOSIGNAL);
            if (n < 0 && errno != EINTR) return false;
            if (n > 0) done += n;
        }
    }
    return true;
}

typedef struct giver {
    end end;
    int segments;
    double each;
} giver;

static void *give_all(void *argument) {
    giver *g = argument;
    const double begun = core_seconds();
    const bool given = give(g->end.socket, g->segments, g->each);
    shutdown(g->end.socket, SHUT_WR);
    g->end.took = given ? core_seconds() - begun : -1;
    return NULL;
}

static bool connect_two(int two[2]) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof at;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    struct sockaddr *address = (struct sockaddr *)&at;
    two[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    two[1] = -1;
    if (listener >= 0 && two[0] >= 0 && bind(listener, address, sizeof at) == 0 && listen(listener, 1) == 0 &&
        getsockname(listener, address, &length) == 0 && connect(two[0], address, sizeof at) == 0)
        two[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (listener >= 0) close(listener);
    return two[1] >= 0 && setsockopt(two[0], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) == 0;
}

static bool move_all(giver *from, end *to) {
    pthread_t thread[2];
    if (gs_thread_start(&thread[0], take_all, to) != 0) return false;
    const bool two = gs_thread_start(&thread[1], give_all, from) == 0;
    if (two)
        pthread_join(thread[1], NULL);
    else
        shutdown(from->end.socket, SHUT_WR);
    pthread_join(thread[0], NULL);
    return two && from->end.took >= 0 && to->took >= 0;
}

gs_status gs_probe_segment(double bandwidth, double *seconds) {
    int two[2];
    const double line = bandwidth > 0 ? PACKET / bandwidth : 0, each = line < SLOWEST ? line : SLOWEST;
    giver from = {.segments = each * MOST > SECONDS ? (int)(SECONDS / each) : MOST, .each = each};
    bool moved = connect_two(two);
    if (moved) {
        end to = {.socket = two[1]};
        from.end.socket = two[0];
        moved = move_all(&from, &to);
        *seconds = (from.end.took + to.took) / 2 / from.segments;
    }
    for (int i = 0; i < 2; i++)
        if (two[i] >= 0) close(two[i]);
    return moved ? GS_OK : gs_fail(GS_E_PEER, "no connection of 127.0.0.1 to measure what a segment costs");
}
