/* Where a rank listens for the others: see mesh.h. */
#include "comm/descriptors.h"
#include "comm/mesh.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The name of the place where the socket listens. */
static gs_status name_place(int s, gs_passport *mine) {
    struct sockaddr_storage a;
    socklen_t length = sizeof a;
    char port[16];
    int error = getsockname(s, (struct sockaddr *)&a, &length);
    if (error == 0)
        error = getnameinfo((struct sockaddr *)&a, length, mine->address, sizeof mine->address, port,
                            sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    if (error != 0) return gs_fail(GS_E_FILE, "cannot tell the address of a listening socket");
    mine->port = atoi(port);
    return GS_OK;
}

gs_status gs_mesh_listen(const char *address, gs_passport *mine, int *listener) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    int error = getaddrinfo(address, NULL, &hints, &found), s = -1;
    if (error != 0)
        return gs_fail(GS_E_USAGE, "cannot resolve the address '%s' for the other processes: %s", address,
                       gai_strerror(error));
    for (const struct addrinfo *a = found; a && s < 0; a = a->ai_next) {
        s = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
        if (s >= 0 && bind(s, a->ai_addr, a->ai_addrlen) == 0 && listen(s, SOMAXCONN) == 0) continue;
        error = errno;
        if (s >= 0) close(s);
        s = -1;
    }
    freeaddrinfo(found);
    if (s < 0 && error == EMFILE)
        return gs_fail_descriptor(error, "cannot open a socket for the other processes");
    if (s < 0)
        return gs_fail(GS_E_USAGE, "this machine cannot be reached at the address '%s': %s", address,
                       strerror(error));
    gs_status status = name_place(s, mine);
    if (status == GS_OK)
        *listener = s;
    else
        close(s);
    return status;
}
