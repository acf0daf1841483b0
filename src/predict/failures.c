#include "predict/failures.h"

#include <math.h>

#include "core/philox.h"

enum { RUNS = 1000 };
static const double EVENTS = 2e7;  /* at most this many segments of work in all drawn runs */
static const double HOPELESS = 20; /* above this, e^x would hide that the run never ends */

/* ---- drawn runs ---- */

typedef struct draws {
    uint64_t seed, run, count;
    double mean;
} draws;

static double next_failure(draws *d) {
    uint32_t word[4];
    gs_philox(d->seed, gs_stream_hi(GS_STREAM_FAILURES, d->run), d->count++, word);
    const double u = ((double)(word[0] >> 5) * 67108864.0 + (double)(word[1] >> 6)) / 9007199254740992.0;
    return -d->mean * log1p(-u);
}

static double run(const gs_failures *f, double tau, draws *d) {
    double clock = 0, done = 0, failure = next_failure(d);
    while (done < f->work) {
        const double rest = f->work - done, part = rest < tau ? rest : tau,
                     takes = part + (rest > tau ? f->checkpoint : 0);
        if (clock + takes <= failure) {
            clock += takes;
            done += part;
            continue;
        }
        clock = failure;
        do { /* a restart may fail too */
            failure = clock + next_failure(d);
            clock = failure < clock + f->restart ? failure : clock + f->restart;
        } while (clock >= failure && f->restart > 0);
    }
    return clock;
}

static void draw_runs(const gs_failures *f, gs_failures_cost *c) {
    const double segments = c->expected / (c->every + f->checkpoint) + c->expected / c->mtbf,
                 runs = floor(EVENTS / (segments + 1));
    c->runs = runs > RUNS ? RUNS : (int)runs;
    c->drawn = c->least = c->most = NAN;
    double sum = 0;
    for (int i = 0; i < c->runs; i++) {
        draws d = {.seed = f->seed, .run = (uint64_t)i, .mean = c->mtbf};
        const double took = run(f, c->every, &d);
        sum += took;
        c->least = fmin(c->least, took);
        c->most = fmax(c->most, took);
    }
    if (c->runs > 0) c->drawn = sum / c->runs;
}

/* ---- the formulas ---- */

gs_status gs_failures_expect(const gs_failures *f, gs_failures_cost *c) {
    const double m = f->mtbf / f->hosts;
    *c = (gs_failures_cost){
        .mtbf = m, .young = sqrt(2 * f->checkpoint * m), .daly = gs_failures_daly(f->checkpoint, m)};
    c->every = f->every > 0 ? f->every : c->daly;
    if ((c->every + f->checkpoint) / m > HOPELESS || f->restart / m > HOPELESS)
        return gs_fail(
            GS_E_USAGE,
            "%d hosts fail every %.3g s: the run would hardly ever get through %.3g s of work and a "
            "checkpoint of %.3g s, or a restart of %.3g s",
            f->hosts, m, c->every, f->checkpoint, f->restart);
    c->expected = gs_failures_time(f, m, c->every);
    c->expected_young = gs_failures_time(f, m, c->young);
    c->expected_daly = gs_failures_time(f, m, c->daly);
    draw_runs(f, c);
    return GS_OK;
}
