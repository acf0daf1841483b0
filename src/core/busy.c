#include "core/busy.h"
#include "core/clock.h"
#include "core/thread.h"
#include "core/usable.h"

#include <math.h>
#include <stdio.h>

/* Of two workers on two cores, at a load of 4 to 10, the one that waited longer waited 52 to 72 % of the time. A worker
 * that shares its core with one busy thread waits 50 %. */
static const double MUCH = 0.2, LEAST = 0.05 /* s */, FULL = 0.9 /* share of the process's cores */;

const char *gs_busy_text(const gs_busy *b, char text[GS_BUSY_TEXT]) {
    text[0] = '\0';
    if (b->threads > b->cpus)
        snprintf(
            text, GS_BUSY_TEXT,
            "%d threads of workers share %d core%s: each waits for a core, and most of that time is counted "
            "as sync; start fewer workers",
            b->threads, b->cpus, b->cpus == 1 ? "" : "s");
    else if (b->waited >= MUCH && b->quota > 0)
        snprintf(text, GS_BUSY_TEXT,
                 "the CPU quota of %.3g is used up: a worker waited for a core %.0f %% of the time; other "
                 "workers count their wait for it as sync",
                 b->quota, 100 * b->waited);
    else if (b->waited >= MUCH)
        snprintf(
            text, GS_BUSY_TEXT,
            "other programs use the cores: a worker waited for a core %.0f %% of the time; other workers "
            "count their wait for it as sync",
            100 * b->waited);
    return text;
}

gs_busy gs_busy_worse(gs_busy a, gs_busy b) {
    const double waited = fmax(a.waited, b.waited);
    if ((double)b.threads * a.cpus > (double)a.threads * b.cpus) a = b;
    a.waited = waited;
    return a;
}

gs_busy_clock gs_busy_begin(void) {
    gs_busy_clock c = {.now = gs_seconds()};
    struct timespec t;
    unsigned long long ns;
    FILE *f = fopen("/proc/thread-self/schedstat", "re");
    if (f && fscanf(f, "%*s %llu", &ns) == 1) c.waited = 1e-9 * (double)ns;
    if (f) fclose(f);
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0)
        c.computed = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    return c;
}

double gs_busy_waited(const gs_busy_clock *since, double cpus) {
    const gs_busy_clock c = gs_busy_begin();
    const double took = c.now - since->now, waited = c.waited - since->waited;
    if (waited < LEAST || c.computed - since->computed >= FULL * cpus * took) return 0;
    return fmin(waited / took, 1);
}

static void *compute(void *waited) {
    const gs_busy_clock begun = gs_busy_begin();
    while (gs_seconds() - begun.now < 0.25) continue;
    *(double *)waited = gs_busy_waited(&begun, INFINITY);
    return NULL;
}

gs_busy gs_busy_measure(int threads) {
    enum { MOST = 64 };
    const gs_usable may = gs_usable_here();
    gs_busy b = {.threads = threads, .cpus = may.cpus, .quota = may.quota};
    pthread_t thread[MOST];
    double waited[MOST] = {0};
    int started = 0;
    while (started < threads && started < MOST &&
           gs_thread_start(&thread[started], compute, &waited[started]) == 0)
        started++;
    for (int i = 0; i < started; i++) {
        pthread_join(thread[i], NULL);
        b.waited = fmax(b.waited, waited[i]);
    }
    return b;
}
