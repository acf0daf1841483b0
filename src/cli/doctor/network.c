/* This machine: by what the others reach it. */
#include "cli/doctor/doctor.h"
#include "comm/meet/route.h"
#include "comm/meet/secret.h"
#include "comm/meet/store_server.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { USUAL_PORT = 29400 };

/* Bytes of a packet; 0: not known. */
static int mtu_of(const char *interface) {
    struct ifreq r = {0};
    const int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(r.ifr_name, sizeof r.ifr_name, "%.15s", interface);
    const bool known = s >= 0 && ioctl(s, SIOCGIFMTU, &r) == 0;
    if (s >= 0) close(s);
    return known ? r.ifr_mtu : 0;
}

/* One line for each interface but that of the machine itself. */
static void look_at_interfaces(gs_doctor *d) {
    struct ifaddrs *all;
    int lines = 0;
    if (getifaddrs(&all) != 0) {
        gs_doctor_say(d, GS_NOTE, "network", NULL, "this system does not list its interfaces");
        return;
    }
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        char address[64], name[40];
        if (!i->ifa_addr || gs_route_address(i->ifa_name, address, sizeof address) != GS_OK) continue;
        if (gs_route_is_local(address)) continue;
        bool first = true;
        for (const struct ifaddrs *before = all; before != i; before = before->ifa_next)
            first = first && (!before->ifa_addr || strcmp(before->ifa_name, i->ifa_name) != 0);
        if (!first) continue;
        snprintf(name, sizeof name, "%s", i->ifa_name);
        gs_doctor_say(d, GS_WELL, "network", NULL, "%s: %s, packets of %d bytes (MTU)", name, address,
                      mtu_of(name));
        lines++;
    }
    freeifaddrs(all);
    if (lines > 0) return;
    if (d->nodes > 1)
        gs_doctor_say(d, GS_WRONG, "network", "ip address; ip link set eth0 up",
                      "this machine has no address by which others could reach it");
    else
        gs_doctor_say(d, GS_NOTE, "network", NULL,
                      "there is none: processes of this machine alone can train together");
}

static void look_at_interface(gs_doctor *d) {
    char address[64];
    if (!d->interface) return;
    if (gs_route_address(d->interface, address, sizeof address) != GS_OK)
        gs_doctor_say(d, GS_WRONG, "interface", "name one of these, or leave --interface out", "%s",
                      gs_message());
    else
        gs_doctor_say(d, GS_WELL, "interface", NULL, "%s: the ranks would listen at %s", d->interface,
                      address);
}

/* What the others find if they take this machine's name for its address. */
static void look_at_name(gs_doctor *d) {
    char name[256] = "", address[64] = "";
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    gethostname(name, sizeof name - 1);
    const int error = getaddrinfo(name, NULL, &hints, &found);
    if (error == 0) {
        getnameinfo(found->ai_addr, found->ai_addrlen, address, sizeof address, NULL, 0, NI_NUMERICHOST);
        freeaddrinfo(found);
    }
    if (error != 0)
        gs_doctor_say(d, GS_NOTE, "host name", "use addresses in --meet, or add it to /etc/hosts",
                      "%s has no address: %s", name, gai_strerror(error));
    else if (gs_route_is_local(address))
        gs_doctor_say(d, GS_NOTE, "host name", "on this machine, use its address in --meet",
                      "%s is %s here, which others cannot reach", name, address);
    else
        gs_doctor_say(d, GS_WELL, "host name", NULL, "%s, %s", name, address);
}

static void look_at_ports(gs_doctor *d) {
    int first = 0, last = 0;
    FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    const bool known = f && fscanf(f, "%d %d", &first, &last) == 2;
    if (f) fclose(f);
    if (known)
        gs_doctor_say(d, GS_WELL, "ports", NULL,
                      "ranks listen at ports from %d to %d: between machines, no firewall may close them",
                      first, last);
    if (d->meet) return; /* the place itself is tried */
    const gs_meet_place place = {.kind = GS_MEET_TCP, .host = "127.0.0.1", .port = USUAL_PORT};
    static const unsigned char no_key[GS_SECRET];
    gs_store_server *server;
    if (gs_store_server_create(&place, 1, no_key, &server) == GS_OK)
        gs_doctor_say(d, GS_WELL, "ports", NULL, "%d is free, for --meet tcp://HOST:%d", USUAL_PORT,
                      USUAL_PORT);
    else
        gs_doctor_say(d, GS_NOTE, "ports", "choose another one for --meet tcp://HOST:PORT", "%s",
                      gs_message());
    gs_store_server_free(server);
}

static void look_at_secret(gs_doctor *d) {
    char source[300];
    unsigned char key[GS_SECRET];
    gs_meet_place place;
    if (!d->meet || gs_meet_place_read(d->meet, &place) != GS_OK || place.kind == GS_MEET_FILE) return;
    if (gs_run_key("", key) == GS_OK)
        gs_doctor_say(d, GS_WELL, "secret", NULL, "%s", gs_secret_source(source, sizeof source));
    else
        gs_doctor_say(d, GS_WRONG, "secret",
                      "the same text of 16 bytes or more on all machines, for you alone", "%s", gs_message());
}

void gs_doctor_network(gs_doctor *d) {
    look_at_interfaces(d);
    look_at_interface(d);
    look_at_name(d);
    look_at_ports(d);
    look_at_secret(d);
}
