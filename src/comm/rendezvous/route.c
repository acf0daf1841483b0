#include "comm/rendezvous/route.h"
#include "core/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The address in numbers; false: it is no IP address, the interface is down, or it reaches one link only (fe80::). */
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

gs_status gs_route_address(const char *interface, char *address, size_t size) {
    struct ifaddrs *all;
    char one[64], here[200];
    bool found = false, is_v4 = false;
    if (getifaddrs(&all) != 0) return gs_fail(GS_E_FILE, "this system does not list its network interfaces");
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (!text_of(i, one, sizeof one)) continue;
        if (strcmp(i->ifa_name, interface) != 0 && strcmp(one, interface) != 0) continue;
        const bool v4 = i->ifa_addr->sa_family == AF_INET;
        if (found && (is_v4 || !v4)) continue;
        snprintf(address, size, "%s", one);
        found = true;
        is_v4 = v4;
    }
    freeifaddrs(all);
    if (found) return GS_OK;
    gs_route_list(here, sizeof here);
    return gs_fail(GS_E_USAGE,
                   "this machine has no network interface or address '%.100s' that is up; it has: %s",
                   interface, here);
}

const char *gs_route_interface(const char *address, char *text, size_t size) {
    struct ifaddrs *all;
    char one[64];
    text[0] = '\0';
    if (getifaddrs(&all) != 0) return text;
    for (const struct ifaddrs *i = all; i && !*text; i = i->ifa_next)
        if (text_of(i, one, sizeof one) && strcmp(one, address) == 0)
            snprintf(text, size, " (%s)", i->ifa_name);
    freeifaddrs(all);
    return text;
}

bool gs_route_default(char *address, size_t size) {
    /* connect() of a datagram socket looks up the route, and sends nothing; the address is one for documentation */
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

/* The address of the default route, else of the first interface that leads to others; "HOST": there is none. */
static void find_outer(char *address, size_t size) {
    struct ifaddrs *all = NULL;
    if (gs_route_default(address, size)) return;
    if (getifaddrs(&all) != 0) all = NULL;
    bool found = false;
    for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next)
        found = text_of(i, address, size) && !gs_route_is_local(address);
    if (all) freeifaddrs(all);
    if (!found) snprintf(address, size, "HOST");
}

const char *gs_route_only_here(const char *host, int port, bool holds, char *text, size_t size) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    char address[64] = "", outer[64], name[80] = "";
    text[0] = '\0';
    if (getaddrinfo(host, NULL, &hints, &found) != 0) return text;
    getnameinfo(found->ai_addr, found->ai_addrlen, address, sizeof address, NULL, 0, NI_NUMERICHOST);
    freeaddrinfo(found);
    if (!gs_route_is_local(address) || strcmp(address, "0.0.0.0") == 0 || strcmp(address, "::") == 0)
        return text; /* these listen at all addresses */
    if (strcmp(address, host) != 0) snprintf(name, sizeof name, " (%.70s)", host);
    gs_append(text, size, "%s%s, where the ranks meet, is only this machine: ", address, name);
    find_outer(outer, sizeof outer);
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
