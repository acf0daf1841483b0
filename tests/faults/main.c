/* gradsum-faults: `gradsum explain` must catch and name each planted mistake, and say nothing of right runs.
 *
 *     gradsum-faults              all
 *     gradsum-faults --few        every 7th of the table, and of the right runs
 *     gradsum-faults SUMMED_TWICE one
 */
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/faults/wraps.h"
#include "tests/faults/settings.h"
#include "gradsum.h"

/* Of one run: the training, by a name of settings.h, and how it is divided. */
typedef struct layout {
    void (*training)(gs_settings *);
    const char *devices, *sync;
    int zero, pipeline, accumulate;
    const char *schedule;
    bool exact;
    int bucket;
    gs_wire wire;
    size_t micro_batch;
    int tensor;
    bool sequence;
    uint64_t seed, steps; /* 0: as usual */
} layout;

#define D1 "cpu"
#define D2 "cpu,cpu"
#define D3 "cpu,cpu,cpu"
#define D4 "cpu,cpu,cpu,cpu"
#define D8 D4 "," D4
#define PLAIN settings_one
#define DROPOUT settings_two_dropout
#define NORM settings_two_norm
#define TIED settings_two_tied

static const layout layouts[] = {
    /* workers and schemes */
    {.training = PLAIN, .devices = D2, .sync = "ps"},
    {.training = PLAIN, .devices = D3, .sync = "sharded_ps"},
    {.training = PLAIN, .devices = D4, .sync = "ring"},
    {.training = PLAIN, .devices = D3, .sync = "tree"},
    {.training = PLAIN, .devices = D4, .sync = "recursive_doubling"},
    {.training = PLAIN, .devices = D3, .sync = "halving_doubling"},
    {.training = PLAIN, .devices = D8},
    {.training = DROPOUT, .devices = D2, .sync = "ring"},
    {.training = DROPOUT, .devices = D3},
    {.training = DROPOUT, .devices = D8},
    {.training = NORM, .devices = D2},
    {.training = NORM, .devices = D3, .sync = "ps"},
    {.training = NORM, .devices = D4},
    {.training = TIED, .devices = D2},
    {.training = TIED, .devices = D3, .sync = "tree"},
    {.training = TIED, .devices = D4},
    /* accumulation and pieces */
    {.training = PLAIN, .devices = D1, .accumulate = 3},
    {.training = DROPOUT, .devices = D2, .accumulate = 2},
    {.training = TIED, .devices = D1, .accumulate = 4},
    {.training = DROPOUT, .devices = D3, .accumulate = 5},
    {.training = PLAIN, .devices = D1, .micro_batch = 10},
    {.training = TIED, .devices = D2, .micro_batch = 7},
    {.training = DROPOUT, .devices = D1, .micro_batch = 48},
    /* ZeRO */
    {.training = PLAIN, .devices = D2, .zero = 1},
    {.training = PLAIN, .devices = D3, .zero = 2},
    {.training = PLAIN, .devices = D4, .zero = 3},
    {.training = TIED, .devices = D2, .zero = 1},
    {.training = TIED, .devices = D3, .zero = 2},
    {.training = TIED, .devices = D2, .zero = 3},
    {.training = NORM, .devices = D2, .zero = 3},
    {.training = DROPOUT, .devices = D3, .zero = 3, .accumulate = 2},
    {.training = settings_clip_two, .devices = D3, .zero = 2},
    {.training = settings_lamb_zero, .devices = D3, .zero = 1},
    {.training = settings_adam, .devices = D2, .zero = 3},
    /* pipelines */
    {.training = PLAIN, .devices = D2, .pipeline = 2},
    {.training = PLAIN, .devices = D3, .pipeline = 3, .schedule = "gpipe"},
    {.training = PLAIN, .devices = D2, .pipeline = 2, .schedule = "interleaved"},
    {.training = PLAIN, .devices = D4, .pipeline = 2},
    {.training = DROPOUT, .devices = D2, .pipeline = 2, .schedule = "gpipe"},
    {.training = TIED, .devices = D2, .pipeline = 2},
    {.training = TIED, .devices = D4, .pipeline = 2, .schedule = "gpipe"},
    {.training = settings_clip_two, .devices = D2, .pipeline = 2},
    {.training = settings_adamw, .devices = D4, .pipeline = 2},
    {.training = TIED, .devices = D4, .pipeline = 2, .zero = 1},
    {.training = settings_clip_two, .devices = D4, .pipeline = 2, .zero = 1},
    {.training = settings_lamb_zero, .devices = D4, .pipeline = 2, .zero = 1},
    /* one fixed tree */
    {.training = PLAIN, .devices = D2, .exact = true},
    {.training = DROPOUT, .devices = D4, .exact = true},
    {.training = NORM, .devices = D2, .exact = true},
    {.training = TIED, .devices = D8, .exact = true},
    {.training = PLAIN, .devices = D2, .exact = true, .zero = 2},
    {.training = DROPOUT, .devices = D2, .exact = true, .pipeline = 2},
    {.training = TIED, .devices = D2, .exact = true, .pipeline = 2},
    /* sums during backward; 16 bits */
    {.training = PLAIN, .devices = D2, .bucket = 1},
    {.training = TIED, .devices = D3, .bucket = 1, .sync = "ring"},
    {.training = PLAIN, .devices = D2, .wire = GS_WIRE_F16},
    {.training = DROPOUT, .devices = D3, .wire = GS_WIRE_BF16},
    {.training = settings_f16, .devices = D3},
    /* rates and optimisers */
    {.training = settings_scheduled_two, .devices = D3},
    {.training = settings_adam, .devices = D3},
    {.training = settings_decay, .devices = D4, .sync = "ring"},
    {.training = settings_smoothed, .devices = D3},
    {.training = settings_images, .devices = D3},
    /* kinks: resnet20 with AdamW, max pooling */
    {.training = settings_resnet, .devices = D2},
    {.training = settings_resnet, .devices = D2, .steps = 3},
    {.training = settings_pool, .devices = D2, .steps = 4},
    {.training = settings_pool, .devices = D3, .sync = "ring", .steps = 4, .seed = 2},
    {.training = settings_pool, .devices = D1, .accumulate = 3},
/* a gpt with AdamW, which enlarges the rounding of gradients near 0 */
#define GPT(seed_)                                                                                           \
    {.training = settings_gpt, .devices = D2, .tensor = 2, .seed = seed_},                                   \
        {.training = settings_gpt, .devices = D2, .tensor = 2, .sequence = true, .seed = seed_},             \
        {.training = settings_gpt, .devices = D2, .pipeline = 2, .seed = seed_},                             \
        {.training = settings_gpt, .devices = D2, .seed = seed_}, {                                          \
        .training = settings_gpt, .devices = D2, .zero = 1, .seed = seed_                                    \
    }
    GPT(1),
    GPT(2),
    GPT(3),
};
static const int right_runs = sizeof layouts / sizeof *layouts;

static void right_settings(int i, gs_settings *s, char *name, size_t size) {
    const layout *l = &layouts[i];
    l->training(s);
    s->devices = l->devices;
    if (l->sync) s->sync = l->sync;
    s->zero = l->zero;
    s->pipeline = l->pipeline;
    s->pipeline_schedule = l->schedule;
    s->micro_batches = 0;
    s->accumulate = l->accumulate > 1 ? l->accumulate : 1;
    s->exact = l->exact;
    s->bucket = l->bucket;
    s->wire = l->wire;
    s->micro_batch = l->micro_batch;
    s->tensor = l->tensor;
    s->sequence = l->sequence;
    if (l->seed) s->seed = l->seed;
    if (l->steps) s->steps = l->steps;
    snprintf(name, size,
             "%d: %.40s... on %s, sync %s, zero %d, tensor %d%s, pipeline %d %s, accumulate %d, "
             "micro-batch %zu%s%s%s, seed %d",
             i, s->model, s->devices, s->sync, s->zero, s->tensor, l->sequence ? " sequence" : "",
             s->pipeline, l->schedule ? l->schedule : "", s->accumulate, l->micro_batch,
             l->exact ? ", exact" : "", l->bucket ? ", buckets" : "",
             l->wire != GS_WIRE_F32 ? ", 16 bits on the wire" : "", (int)s->seed);
}

static char folder[200];
static int folders, failures;

static const char *new_folder(void) {
    static char path[4][260];
    char *next = path[folders % 4];
    snprintf(next, sizeof path[0], "%s/%d", folder, folders++);
    return next;
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *ftw) {
    (void)s, (void)type, (void)ftw;
    return remove(path);
}

static void remove_folder(void) {
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static bool train(gs_settings *s, fault f, const char *digest) {
    gs_result r;
    s->digest = digest;
    fault_on = f;
    gs_status status = gs_train(s, NULL, &r);
    fault_on = NO_FAULT;
    if (status != GS_OK) printf("    a run failed: %s\n", gs_message());
    gs_result_free(&r);
    return status == GS_OK;
}

/* The right run: the same settings on one worker, all at once, without what divides the work. */
static gs_settings alone(gs_settings s) {
    s.devices = "cpu";
    s.pipeline = s.zero = s.tensor = s.micro_batches = 0;
    s.sequence = false;
    s.accumulate = 1;
    s.micro_batch = 0;
    s.bucket = 0;
    s.wire = GS_WIRE_F32;
    s.sync = gs_settings_default().sync;
    s.pipeline_schedule = s.pipeline_cut = NULL;
    return s;
}

/* The first 2 steps are another run's, which leaves its state. */
static bool train_resumed(gs_settings *s, fault f, const char *digest) {
    char path[320];
    gs_settings first = *s;
    snprintf(path, sizeof path, "%s.safetensors", digest);
    first.save = path;
    first.save_state = true;
    first.steps = 2;
    if (!train(&first, NO_FAULT, NULL)) return false;
    s->resume = path;
    return train(s, f, digest);
}

/* Both records, compared. */
static bool explained(const char *of_a, const char *of_b, gs_difference *d) {
    gs_digests a, b;
    if (gs_digests_read(of_a, &a) != GS_OK || gs_digests_read(of_b, &b) != GS_OK ||
        gs_explain_check(&a, &b) != GS_OK) {
        printf("    %s\n", gs_message());
        return false;
    }
    gs_explain(&a, &b, d);
    gs_digests_free(&a);
    gs_digests_free(&b);
    return true;
}

static void fail(const char *name, const char *what, const gs_difference *d) {
    failures++;
    printf("FAILED %s: %s\n", name, what);
    if (d && d->found)
        printf("    found: step %llu, kind %d, %s %s, by %.3g, rank 1: %d: %s: %s\n",
               (unsigned long long)d->step, d->kind, d->quantity, d->where, d->relative, d->rank[1], d->cause,
               d->sentence);
}

static void check(const fault_case *c) {
    gs_settings wrong = fault_settings();
    c->settings(&wrong);
    gs_settings right = c->same_layout ? wrong : alone(wrong);
    const char *a = new_folder(), *b = new_folder();
    gs_difference d = {0};
    if (!(c->resumed ? train_resumed(&wrong, c->fault, a) : train(&wrong, c->fault, a)) ||
        !train(&right, NO_FAULT, b) || !explained(a, b, &d))
        return fail(c->name, "it did not run", NULL);
    if (!d.found) return fail(c->name, "it was not caught", NULL);
    if (strcmp(d.cause, c->cause) != 0) return fail(c->name, "it was given another name", &d);
    if (d.kind != c->kind || d.step != c->step) return fail(c->name, "it was caught elsewhere", &d);
    for (int r = 0; c->rank >= 0 && r < GS_DIGEST_RANKS; r++)
        if (d.rank[r] != (r == c->rank)) return fail(c->name, "other ranks were named", &d);
    printf("caught %-18s step %llu, %s%s%s: %s\n       %s\n", c->name, (unsigned long long)d.step, d.quantity,
           *d.where ? " of " : "", d.where, d.cause, d.sentence);
}

static void check_right(int i) {
    gs_settings s = fault_settings();
    char name[200];
    right_settings(i, &s, name, sizeof name);
    gs_settings one = alone(s);
    const char *a = new_folder(), *b = new_folder();
    gs_difference d = {0};
    if (!train(&s, NO_FAULT, a) || !train(&one, NO_FAULT, b) || !explained(a, b, &d))
        return fail(name, "it did not run", NULL);
    if (d.found) return fail(name, "a right run was taken for a wrong one", &d);
    printf("right  %s\n", name);
}

int main(int argc, char **argv) {
    const char *only = argc > 1 ? argv[1] : "", *tmp = getenv("TMPDIR");
    const bool few = strcmp(only, "--few") == 0;
    int checked = 0, every = few ? 7 : 1;
    gs_cl_choose_settings(true);
    snprintf(folder, sizeof folder, "%s/gradsum-faults-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(folder)) gs_bug("cannot make %s", folder);
    atexit(remove_folder);
    for (int i = 0; i < fault_cases; i++) {
        if (few ? i % every != 0 : *only && strcmp(only, fault_table[i].name) != 0) continue;
        check(&fault_table[i]);
        checked++;
    }
    for (int i = 0; i < right_runs && (few || !*only || strcmp(only, "right") == 0); i++) {
        if (i % every != 0) continue;
        check_right(i);
        checked++;
    }
    fault_sets_free();
    if (checked == 0) printf("no planted mistake is called '%s'\n", only);
    printf("%d checked, %d failed\n", checked, failures);
    return failures > 0 || checked == 0;
}
