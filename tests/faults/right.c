#include "tests/faults/right.h"

#include <stdio.h>
#include <string.h>

#include "tests/faults/settings.h"

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
const int right_runs = sizeof layouts / sizeof *layouts;

void right_settings(int i, gs_settings *s, char *name, size_t size) {
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
