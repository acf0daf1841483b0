#include "comm/gloo/gloo_c.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* The second one is where Gloo keeps it, which may not be aligned. */
static bool same(const struct sockaddr_storage *a, const void *b) {
    const struct sockaddr_in *x = (const struct sockaddr_in *)a;
    struct sockaddr_in y;
    memcpy(&y, b, sizeof y);
    return a->ss_family == AF_INET && y.sin_family == AF_INET && x->sin_port == y.sin_port &&
           x->sin_addr.s_addr == y.sin_addr.s_addr;
}

static bool listens_at(int file, const void *address) {
    struct sockaddr_storage own;
    socklen_t length = sizeof own, int_length = sizeof(int);
    int listens = 0;
    return getsockopt(file, SOL_SOCKET, SO_ACCEPTCONN, &listens, &int_length) == 0 && listens &&
           getsockname(file, (struct sockaddr *)&own, &length) == 0 && same(&own, address);
}

static bool is_connected_to(int file, const void *address) {
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;
    return getpeername(file, (struct sockaddr *)&peer, &length) == 0 && same(&peer, address);
}

/* The first open descriptor that is like this; -1: there is none. */
static int find_descriptor(bool (*is)(int, const void *), const void *like) {
    DIR *files = opendir("/proc/self/fd");
    int found = -1;
    for (const struct dirent *e; files && found < 0 && (e = readdir(files));)
        if (e->d_name[0] != '.' && is(atoi(e->d_name), like)) found = atoi(e->d_name);
    if (files) closedir(files);
    return found;
}

int gs_gloo_socket_at(const void *address) {
    return find_descriptor(listens_at, address);
}

int gs_gloo_socket_to(const void *address) {
    return find_descriptor(is_connected_to, address);
}

int gs_gloo_listener(void *address) {
    struct sockaddr_storage own = {.ss_family = AF_INET};
    socklen_t length = sizeof own;
    ((struct sockaddr_in *)&own)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s >= 0 && bind(s, (struct sockaddr *)&own, sizeof(struct sockaddr_in)) == 0 &&
        listen(s, SOMAXCONN) == 0 && getsockname(s, (struct sockaddr *)&own, &length) == 0) {
        memcpy(address, &own, sizeof own);
        return s;
    }
    if (s >= 0) close(s);
    return -1;
}

int gs_gloo_event(bool happened) {
    return eventfd(happened, EFD_CLOEXEC | EFD_NONBLOCK);
}

bool gs_gloo_replace(int place, int by) {
    return place >= 0 && dup3(by, place, O_CLOEXEC) == place;
}
