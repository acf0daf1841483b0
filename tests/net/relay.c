/* relay [options] HOST...: a hub for hosts that are Linux network namespaces (ip netns), with lines as bad as the
 * options say. In each namespace it creates a TAP device, eth0, and forwards frames from each device to all others
 * until it is stopped. tests/net/net.sh uses it where the kernel has no netem.
 *
 *     --delay MS --jitter MS     each frame is delayed by MS, plus or minus up to the jitter, in order
 *     --reorder P                P % of the frames are not delayed and overtake the others
 *     --loss P --corrupt P       P % of the frames are lost, or have one bit changed
 *     --rate MBIT                the limit of each line; frames that wait longer than 100 ms are dropped
 *     --seed N                   of the random numbers
 *
 * Prints "ready" and, when ended by SIGTERM, its counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { HOSTS = 16, FRAME = 65536 };

typedef struct frame {
    struct frame *next;
    double due;
    int to;
    size_t bytes;
    unsigned char data[];
} frame;

static struct { double delay, jitter, reorder, loss, corrupt, rate, seed; } line = {.seed = 1};
static int device[HOSTS], hosts;
static double free_at[HOSTS] /* the line into a host */, last_due[HOSTS][HOSTS];
static frame *queue; /* ordered by due time */
static long carried, lost, corrupted, overtook, dropped;
static volatile sig_atomic_t ended;

static void end(int number) {
    (void)number;
    ended = 1;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* From 0 to 1: xorshift64* (Vigna, 2016). */
static double draw(void) {
    static uint64_t x;
    if (x == 0) x = 0x9e3779b97f4a7c15u * ((uint64_t)line.seed + 1);
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    return (double)(x * 0x2545f4914f6cdd1du >> 11) * 0x1p-53;
}

static int happens(double percent) {
    return percent > 0 && draw() * 100 < percent;
}

static void put(frame *f) {
    frame **at = &queue;
    while (*at && (*at)->due <= f->due) at = &(*at)->next;
    f->next = *at;
    *at = f;
}

static void send_to(int from, int to, const unsigned char *data, size_t bytes) {
    if (happens(line.loss)) {
        lost++;
        return;
    }
    const double t = now(), start = free_at[to] > t ? free_at[to] : t;
    if (start - t > 0.1) {
        dropped++;
        return;
    }
    frame *f = malloc(sizeof *f + bytes);
    if (!f) return;
    *f = (frame){.to = to, .bytes = bytes};
    memcpy(f->data, data, bytes);
    free_at[to] = start + (line.rate > 0 ? (double)bytes * 8 / (line.rate * 1e6) : 0);
    f->due = free_at[to];
    if (happens(line.reorder)) {
        overtook++;
    } else {
        f->due += (line.delay + line.jitter * (2 * draw() - 1)) / 1e3;
        if (f->due < last_due[from][to]) f->due = last_due[from][to];
        last_due[from][to] = f->due;
    }
    if (bytes > 14 && happens(line.corrupt)) { /* after the Ethernet header */
        f->data[14 + (size_t)(draw() * (double)(bytes - 14))] ^= (unsigned char)(1 << (int)(draw() * 8));
        corrupted++;
    }
    put(f);
}

/* TAP devices of other hosts drop frames addressed elsewhere, so every host gets every frame, as from a hub. */
static void take_from(int from) {
    static unsigned char data[FRAME];
    ssize_t n;
    while ((n = read(device[from], data, sizeof data)) > 0)
        for (int to = 0; to < hosts; to++)
            if (to != from) send_to(from, to, data, (size_t)n);
}

static void deliver(void) {
    for (frame *f; (f = queue) && f->due <= now();) {
        queue = f->next;
        if (write(device[f->to], f->data, f->bytes) == (ssize_t)f->bytes) carried++;
        free(f);
    }
}

/* The TAP device stays in the namespace where it was created; its descriptor works in ours. */
static int open_device(const char *host) {
    char path[256];
    struct ifreq r = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    snprintf(path, sizeof path, "/run/netns/%s", host);
    snprintf(r.ifr_name, sizeof r.ifr_name, "eth0");
    const int space = open(path, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0) return -1;
    close(space);
    const int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    return tap >= 0 && ioctl(tap, TUNSETIFF, &r) == 0 ? tap : -1;
}

static double *option_named(const char *name) {
    static const char *const names[] = {"delay", "jitter", "reorder", "loss", "corrupt", "rate", "seed"};
    double *const values[] = {&line.delay,   &line.jitter, &line.reorder, &line.loss,
                              &line.corrupt, &line.rate,   &line.seed};
    for (int i = 0; i < 7; i++)
        if (strcmp(name, names[i]) == 0) return values[i];
    return NULL;
}

static int take_arguments(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        double *value = strncmp(argv[i], "--", 2) == 0 ? option_named(argv[i] + 2) : NULL;
        if (value && i + 1 < argc) {
            *value = strtod(argv[++i], NULL);
        } else if (value || argv[i][0] == '-' || hosts == HOSTS) {
            fprintf(stderr, "relay: what is '%s'?\n", argv[i]);
            return 0;
        } else if ((device[hosts++] = open_device(argv[i])) < 0) {
            fprintf(stderr, "relay: no TAP device could be made in %s: %s\n", argv[i], strerror(errno));
            return 0;
        }
    }
    return hosts > 0;
}

int main(int argc, char **argv) {
    signal(SIGTERM, end);
    if (!take_arguments(argc, argv)) return 1;
    printf("ready\n");
    fflush(stdout);
    while (!ended) {
        struct pollfd p[HOSTS];
        for (int i = 0; i < hosts; i++) p[i] = (struct pollfd){device[i], POLLIN, 0};
        const double left = queue ? queue->due - now() : 1;
        const struct timespec wait = {left >= 1, left > 0 && left < 1 ? (long)(left * 1e9) : 0};
        if (ppoll(p, (nfds_t)hosts, &wait, NULL) > 0)
            for (int i = 0; i < hosts; i++)
                if (p[i].revents) take_from(i);
        deliver();
    }
    printf("carried %ld, lost %ld, corrupted %ld, overtook %ld, dropped %ld\n", carried, lost, corrupted,
           overtook, dropped);
    return 0;
}
