#include "comm/rendezvous/route.h"
#include "core/clock.h"
#include "core/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NAME = 64 /* bytes of a numeric address or an interface's name */ };

/* The interface's numeric address. False: it has no IP address, it is down, or the address is link-local (fe80::). */
static bool text_of(const struct ifaddrs *i, char *text, size_t size) {
    if (!i->ifa_addr || !(i->ifa_flags & IFF_UP)) return false;
    const int family = i->ifa_addr->sa_family;
    if (family == AF_INET6 &&
        IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr))
        return false;
    const socklen_t length = family == AF_INET    ? sizeof(struct sockaddr_in)
                             : family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                  : 0;
    return length > 0 &&
           getnameinfo(i->ifa_addr, length, text, (socklen_t)size, NULL, 0, NI_NUMERICHOST) == 0;
}

bool gs_route_is_local(const char *address) {
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "0.0.0.0") == 0 ||
           strcmp(address, "::1") == 0 || strcmp(address, "::") == 0;
}

void gs_route_list(char *text, size_t size) {
    struct ifaddrs *all;
    char one[64];
    text[0] = '\0';
    if (getifaddrs(&all) != 0) return;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next)
        if (text_of(i, one, sizeof one))
            gs_append(text, size, "%s%s %s", *text ? ", " : "", i->ifa_name, one);
    freeifaddrs(all);
}

/* Find an address of this machine and its interface. what: either of them; NULL: find the first non-local address. */
static bool find(const char *what, int family, char address[NAME], char interface[NAME]) {
    struct ifaddrs *all;
    bool found = false;
    if (getifaddrs(&all) != 0) return false;
    for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
        if (!text_of(i, address, NAME) || (family != AF_UNSPEC && i->ifa_addr->sa_family != family)) continue;
        found =
            what ? strcmp(i->ifa_name, what) == 0 || strcmp(address, what) == 0 : !gs_route_is_local(address);
        snprintf(interface, NAME, "%s", i->ifa_name);
    }
    freeifaddrs(all);
    return found;
}

gs_status gs_route_address(const char *what, char *address, size_t size) {
    char found[NAME], interface[NAME], here[200];
    if (find(what, AF_INET, found, interface) || find(what, AF_INET6, found, interface)) {
        snprintf(address, size, "%s", found);
        return GS_OK;
    }
    gs_route_list(here, sizeof here);
    return gs_fail(GS_E_USAGE,
                   "this machine has no network interface or address '%.100s' that is up; it has: %s", what,
                   *here ? here : "none that this system lists");
}

const char *gs_route_interface(const char *address, char *text, size_t size) {
    char found[NAME], interface[NAME];
    text[0] = '\0';
    if (find(address, AF_UNSPEC, found, interface)) snprintf(text, size, " (%s)", interface);
    return text;
}

bool gs_route_default(char *address, size_t size) {
    /* connect() of a datagram socket looks up the route and sends nothing; the address is a documentation address */
    struct sockaddr_in far = {.sin_family = AF_INET, .sin_port = htons(9)}, here;
    socklen_t length = sizeof here;
    inet_pton(AF_INET, "203.0.113.1", &far.sin_addr);
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool found = s >= 0 && connect(s, (const struct sockaddr *)&far, sizeof far) == 0 &&
                       getsockname(s, (struct sockaddr *)&here, &length) == 0 &&
                       inet_ntop(AF_INET, &here.sin_addr, address, (socklen_t)size) != NULL;
    if (s >= 0) close(s);
    return found;
}

bool gs_route_of(int socket, char *address, size_t size, int *port) {
    struct sockaddr_storage a;
    socklen_t length = sizeof a;
    char number[16] = "";
    address[0] = '\0';
    const bool known = getsockname(socket, (struct sockaddr *)&a, &length) == 0 &&
                       getnameinfo((struct sockaddr *)&a, length, address, (socklen_t)size, number,
                                   sizeof number, NI_NUMERICHOST | NI_NUMERICSERV) == 0;
    *port = atoi(number);
    return known;
}

int gs_route_listen(const struct addrinfo *found, int port, int *error) {
    int s = -1, yes = 1;
    for (const struct addrinfo *a = found; a && s < 0; a = a->ai_next) {
        struct sockaddr_storage at;
        memcpy(&at, a->ai_addr, a->ai_addrlen);
        if (a->ai_family == AF_INET6)
            ((struct sockaddr_in6 *)&at)->sin6_port = htons((uint16_t)port);
        else
            ((struct sockaddr_in *)&at)->sin_port = htons((uint16_t)port);
        s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
        if (s >= 0 && port > 0)
            setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes); /* after a run that has just ended */
        if (s >= 0 && bind(s, (struct sockaddr *)&at, a->ai_addrlen) == 0 && listen(s, SOMAXCONN) == 0)
            return s;
        *error = errno;
        if (s >= 0) close(s);
        s = -1;
    }
    return -1;
}

/* The address of the default route, else that of the first interface that leads to other machines. */
static void find_outer(char address[NAME]) {
    char interface[NAME];
    if (!gs_route_default(address, NAME) && !find(NULL, AF_UNSPEC, address, interface))
        snprintf(address, NAME, "HOST");
}

const char *gs_route_only_here(const char *host, int port, bool holds, char *text, size_t size) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    char address[NAME] = "", outer[NAME], name[80] = "";
    text[0] = '\0';
    if (getaddrinfo(host, NULL, &hints, &found) != 0) return text;
    getnameinfo(found->ai_addr, found->ai_addrlen, address, sizeof address, NULL, 0, NI_NUMERICHOST);
    freeaddrinfo(found);
    if (!gs_route_is_local(address) || strcmp(address, "0.0.0.0") == 0 || strcmp(address, "::") == 0)
        return text; /* the last two mean all addresses */
    if (strcmp(address, host) != 0) snprintf(name, sizeof name, " (%.70s)", host);
    gs_append(text, size, "%s%s, where the ranks meet, is only this machine: ", address, name);
    find_outer(outer);
    if (holds)
        gs_append(text, size,
                  strchr(outer, ':') ? "for ranks on others, meet at tcp://[%s]:%d"
                                     : "for ranks on others, meet at tcp://%s:%d",
                  outer, port);
    else
        gs_append(text, size, "if rank 0 is on another, meet at an address of that one");
    gs_append(text, size, " (launch --meet, or GRADSUM_RENDEZVOUS)");
    return text;
}

void gs_route_tell_only_here(gs_route_hint *h, const char *host, int port, bool holds) {
    char text[300];
    if (!h->tell || gs_awake_seconds() - h->begin < 1.5) return;
    if (*gs_route_only_here(host, port, holds, text, sizeof text)) h->tell(text);
    h->tell = NULL;
}
