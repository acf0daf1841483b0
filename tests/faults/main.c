/* gradsum-faults: `gradsum explain` must catch and name each planted mistake, and report nothing about correct runs.
 *
 *     gradsum-faults              all
 *     gradsum-faults --few        every 7th mistake of the table, and every 7th correct run
 *     gradsum-faults SUMMED_TWICE one
 */
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/faults/wraps.h"
#include "tests/faults/settings.h"
#include "layer/memory/recompute.h"
#include "train/offload.h"

#define PLAIN &settings_one
#define DROPOUT &settings_two_dropout
#define NORM &settings_two_norm
#define TIED &settings_two_tied

static const fault_run layouts[] = {
    /* workers and schemes */
    {.base = PLAIN, .workers = 2, .sync = "ps"},
    {.base = PLAIN, .workers = 3, .sync = "sharded_ps"},
    {.base = PLAIN, .workers = 4, .sync = "ring"},
    {.base = PLAIN, .workers = 3, .sync = "tree"},
    {.base = PLAIN, .workers = 4, .sync = "recursive_doubling"},
    {.base = PLAIN, .workers = 3, .sync = "halving_doubling"},
    {.base = PLAIN, .workers = 8},
    {.base = DROPOUT, .workers = 2, .sync = "ring"},
    {.base = DROPOUT, .workers = 3},
    {.base = DROPOUT, .workers = 8},
    {.base = NORM, .workers = 2},
    {.base = NORM, .workers = 3, .sync = "ps"},
    {.base = NORM, .workers = 4},
    {.base = TIED, .workers = 2},
    {.base = TIED, .workers = 3, .sync = "tree"},
    {.base = TIED, .workers = 4},
    /* accumulation and micro-batches */
    {.base = PLAIN, .workers = 1, .accumulate = 3},
    {.base = DROPOUT, .workers = 2, .accumulate = 2},
    {.base = TIED, .workers = 1, .accumulate = 4},
    {.base = DROPOUT, .workers = 3, .accumulate = 5},
    {.base = PLAIN, .workers = 1, .micro_batch = 10},
    {.base = TIED, .workers = 2, .micro_batch = 7},
    {.base = DROPOUT, .workers = 1, .micro_batch = 48},
    /* ZeRO */
    {.base = PLAIN, .workers = 2, .zero = 1},
    {.base = PLAIN, .workers = 3, .zero = 2},
    {.base = PLAIN, .workers = 4, .zero = 3},
    {.base = TIED, .workers = 2, .zero = 1},
    {.base = TIED, .workers = 3, .zero = 2},
    {.base = TIED, .workers = 2, .zero = 3},
    {.base = NORM, .workers = 2, .zero = 3},
    {.base = DROPOUT, .workers = 3, .zero = 3, .accumulate = 2},
    {.base = &settings_clip_two, .workers = 3, .zero = 2},
    {.base = &settings_lamb_zero, .workers = 3, .zero = 1},
    {.base = &settings_adam, .workers = 2, .zero = 3},
    /* pipelines */
    {.base = PLAIN, .workers = 2, .pipeline = 2},
    {.base = PLAIN, .workers = 3, .pipeline = 3, .pipeline_schedule = "gpipe"},
    {.base = PLAIN, .workers = 2, .pipeline = 2, .pipeline_schedule = "interleaved"},
    {.base = PLAIN, .workers = 4, .pipeline = 2},
    {.base = DROPOUT, .workers = 2, .pipeline = 2, .pipeline_schedule = "gpipe"},
    {.base = TIED, .workers = 2, .pipeline = 2},
    {.base = TIED, .workers = 4, .pipeline = 2, .pipeline_schedule = "gpipe"},
    {.base = &settings_clip_two, .workers = 2, .pipeline = 2},
    {.base = &settings_adamw, .workers = 4, .pipeline = 2},
    {.base = TIED, .workers = 4, .pipeline = 2, .zero = 1},
    {.base = &settings_clip_two, .workers = 4, .pipeline = 2, .zero = 1},
    {.base = &settings_lamb_zero, .workers = 4, .pipeline = 2, .zero = 1},
    /* one fixed tree */
    {.base = PLAIN, .workers = 2, .exact = true},
    {.base = DROPOUT, .workers = 4, .exact = true},
    {.base = NORM, .workers = 2, .exact = true},
    {.base = TIED, .workers = 8, .exact = true},
    {.base = PLAIN, .workers = 2, .exact = true, .zero = 2},
    {.base = DROPOUT, .workers = 2, .exact = true, .pipeline = 2},
    {.base = TIED, .workers = 2, .exact = true, .pipeline = 2},
    /* sums during backward; 16 bits */
    {.base = PLAIN, .workers = 2, .bucket = 1},
    {.base = TIED, .workers = 3, .bucket = 1, .sync = "ring"},
    {.base = PLAIN, .workers = 2, .wire = GS_WIRE_F16},
    {.base = DROPOUT, .workers = 3, .wire = GS_WIRE_BF16},
    {.base = &settings_f16, .workers = 3},
    /* rates and optimisers */
    {.base = &settings_scheduled_two, .workers = 3},
    {.base = &settings_adam, .workers = 3},
    {.base = &settings_decay, .workers = 4, .sync = "ring"},
    {.base = &settings_smoothed, .workers = 3},
    {.base = &settings_images, .workers = 3},
    /* kinks: resnet20 with AdamW, max pooling */
    {.base = &settings_resnet, .workers = 2},
    {.base = &settings_resnet, .workers = 2, .steps = 3},
    {.base = &settings_pool, .workers = 2, .steps = 4},
    {.base = &settings_pool, .workers = 3, .sync = "ring", .steps = 4, .seed = 2},
    {.base = &settings_pool, .workers = 1, .accumulate = 3},
/* a gpt with AdamW, which enlarges the rounding of gradients near 0 */
#define GPT(seed_)                                                                                           \
    {.base = &settings_gpt, .workers = 2, .tensor = 2, .seed = seed_},                                       \
        {.base = &settings_gpt, .workers = 2, .tensor = 2, .sequence = true, .seed = seed_},                 \
        {.base = &settings_gpt, .workers = 2, .pipeline = 2, .seed = seed_},                                 \
        {.base = &settings_gpt, .workers = 2, .seed = seed_}, {                                              \
        .base = &settings_gpt, .workers = 2, .zero = 1, .seed = seed_                                        \
    }
    GPT(1),
    GPT(2),
    GPT(3),
    {.base = &settings_gpt, .workers = 2, .steps = 6, .optimizer = &gs_lars, .seed = 407},
    {.base = &settings_gpt, .workers = 2, .steps = 6, .tensor = 2, .optimizer = &gs_adam, .seed = 302},
    {.base = &settings_gpt, .workers = 2, .steps = 6, .pipeline = 2, .optimizer = &gs_lamb, .exact = true},
    {.base = &settings_gpt, .workers = 2, .steps = 6, .zero = 3, .exact = true},
    {.base = &settings_gpt, .workers = 2, .steps = 4, .precision = GS_PRECISION_BF16},
    {.base = &settings_gpt, .workers = 4, .steps = 4, .pipeline = 2, .zero = 1, .clip = 1},
    {.base = &settings_gpt, .workers = 1, .steps = 4, .recompute = 1, .accumulate = 2, .offload = 1},
#define MODEL(model_, workers_, steps_, optimizer_, ...)                                                     \
    {                                                                                                        \
        .base = &settings_images, .model = #model_, .batch = 60, .workers = workers_, .steps = steps_,       \
        .optimizer = &gs_##optimizer_, __VA_ARGS__                                                           \
    }
    /* relu after linear */
    MODEL(mlp, 2, 10, sgd, .exact = true),
    MODEL(mlp, 3, 10, nesterov, .sync = "ring"),
    MODEL(mlp, 2, 10, adam, .seed = 3),
    MODEL(mlp, 4, 10, adamw, .tensor = 2, .zero = 1),
    MODEL(mlp, 2, 10, lars, .seed = 5),
    MODEL(mlp, 2, 10, lamb, .zero = 3),
    MODEL(mlp, 2, 6, adam, .pipeline = 2, .clip = 0.5f),
    MODEL(mlp, 3, 6, sgd, .accumulate = 3, .weight_decay = 0.01f),
    MODEL(mlp, 2, 6, sgd, .precision = GS_PRECISION_BF16),
    MODEL(mlp, 2, 6, adam, .precision = GS_PRECISION_F16),
    MODEL(mlp, 2, 6, sgd, .wire = GS_WIRE_BF16),
    MODEL(mlp, 2, 6, adam, .zero = 1, .offload = GS_OFFLOAD_OPTIMIZER | GS_OFFLOAD_ACTIVATIONS),
    MODEL(mlp, 3, 6, nesterov, .sync = "halving_doubling"),
    MODEL(mlp, 4, 6, adam, .exact = true),
    MODEL(mlp, 2, 6, sgd, .bucket = 1, .label_smoothing = 0.1f),
    /* max pooling after relu */
    MODEL(lenet, 2, 10, sgd, .exact = true),
    MODEL(lenet, 3, 6, adamw, .sync = "tree"),
    MODEL(lenet, 2, 6, nesterov, .seed = 3),
    MODEL(lenet, 2, 6, adam, .tensor = 2),
    MODEL(lenet, 2, 6, lamb, .pipeline = 2),
    MODEL(lenet, 4, 6, adamw, .tensor = 2, .zero = 3),
    MODEL(lenet, 2, 6, lars, .epochs = 4, .cosine = true),
    MODEL(lenet, 2, 6, adam, .recompute = GS_RECOMPUTE_ALL),
    MODEL(lenet, 1, 6, sgd, .accumulate = 4, .offload = GS_OFFLOADS),
    MODEL(lenet, 2, 4, adamw, .precision = GS_PRECISION_BF16),
    MODEL(lenet, 2, 4, sgd, .precision = GS_PRECISION_F16),
    MODEL(lenet, 2, 6, adam, .zero = 2, .exact = true),
    /* relu after batch norm and after sums */
    MODEL(resnet20, 2, 3, adamw, .seed = 2),
    MODEL(resnet20, 2, 3, adamw, .weight_decay = 0.05f, .exact = true),
    MODEL(resnet20, 2, 4, sgd, .seed = 4),
    MODEL(resnet20, 2, 4, nesterov, .seed = 5),
    MODEL(resnet20, 2, 3, lars, .seed = 6),
    MODEL(resnet20, 2, 3, lamb, .seed = 7),
    MODEL(resnet20, 2, 3, adam, .zero = 3, .ghost = 4, .exact = true),
    MODEL(resnet20, 2, 3, sgd, .tensor = 2),
    MODEL(resnet20, 2, 3, sgd, .pipeline = 2, .ghost = 4, .exact = true),
    MODEL(resnet20, 2, 3, adamw, .recompute = GS_RECOMPUTE_BLOCKS),
    MODEL(resnet20, 2, 2, adamw, .precision = GS_PRECISION_BF16),
    MODEL(resnet20, 2, 2, sgd, .precision = GS_PRECISION_F16),
    MODEL(resnet20, 1, 2, adam, .ghost = 4, .accumulate = 4),
    MODEL(resnet20, 3, 2, adamw, .seed = 16),
};
static const int right_runs = sizeof layouts / sizeof *layouts;

static void right_settings(int i, gs_settings *s, char *name, size_t size) {
    const fault_run *l = &layouts[i];
    fault_apply(l, s);
    s->exact = l->exact; /* some runs must be exact, so that they can be compared bit for bit */
    snprintf(name, size,
             "%d: %.40s... on %s, sync %s, zero %d, tensor %d%s, pipeline %d %s, accumulate %d, "
             "micro-batch %d%s%s%s, seed %d",
             i, s->model, s->devices, s->sync, s->zero, s->tensor, s->sequence ? " sequence" : "",
             s->pipeline, s->pipeline_schedule ? s->pipeline_schedule : "", s->accumulate,
             (int)s->micro_batch, s->exact ? ", exact" : "", s->bucket ? ", buckets" : "",
             s->wire != GS_WIRE_F32 ? ", 16 bits on the wire" : "", (int)s->seed);
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

/* The reference run: the same settings on one worker, in one batch, without any division of the work. */
static gs_settings alone(gs_settings s) {
    s.devices = "cpu";
    s.pipeline = s.zero = s.tensor = s.micro_batches = 0;
    s.sequence = false;
    s.offload = 0;
    s.recompute = GS_RECOMPUTE_NONE;
    s.accumulate = 1;
    s.micro_batch = 0;
    s.bucket = 0;
    s.wire = GS_WIRE_F32;
    s.sync = gs_settings_default().sync;
    s.pipeline_schedule = s.pipeline_cut = NULL;
    return s;
}

/* Resumes a run of 2 steps, which leaves its state. */
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
    fault_apply(c->settings, &wrong);
    gs_settings right = c->same_layout ? wrong : alone(wrong);
    const char *a = new_folder(), *b = new_folder();
    gs_difference d = {0};
    if (!(c->resumed ? train_resumed(&wrong, c->fault, a) : train(&wrong, c->fault, a)) ||
        !train(&right, NO_FAULT, b) || !explained(a, b, &d))
        return fail(c->name, "it did not run", NULL);
    if (!d.found) return fail(c->name, "it was not caught", NULL);
    if (strcmp(d.cause, c->cause) != 0) return fail(c->name, "it was given another name", &d);
    if (d.kind != c->kind || d.step != c->step) return fail(c->name, "it was caught elsewhere", &d);
    for (int r = 0; c->on_rank_1 && r < GS_DIGEST_RANKS; r++)
        if (d.rank[r] != (r == 1)) return fail(c->name, "other ranks were named", &d);
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
