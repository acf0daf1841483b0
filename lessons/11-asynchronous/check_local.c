/* Lesson 11: the checks of local SGD: a single step; then training. H = 1 must equal synchronous training, and equal
 * weights show when workers met. */
#include "check.h"

#include <stdio.h>

/* Rows of drawn numbers (lab_pick). */
enum { EVERY_ROW = 100, STEPS_ROW };

/* ---- one step, with an optimiser that only records its calls ---- */

static struct {
    int updates;
    float scale;
    bool fails;
} asked;

static gs_status note_update(gs_optimizer *o, size_t first, size_t count, float scale) {
    (void)o, (void)first, (void)count;
    asked.updates++;
    asked.scale = scale;
    return asked.fails ? lab_broken(true) : GS_OK;
}

typedef struct one_step {
    int every;
    uint64_t step;
    size_t mine, all;
    way since; /* before it */
} one_step;

static gs_status run_step(const one_step *k, bool fails, way *since, bool *meet) {
    static const gs_optimizer_ops ops = {.name = "the check's", .update = note_update};
    gs_device device = {0};
    gs_model model = {.device = &device, .params = 1, .saved = 1};
    gs_optimizer optimizer = {.ops = &ops, .clip_factor = 1, .model = &model};
    gs_comm comm = {.size = 1};
    const gs_settings settings = {.every = k->every};
    gs_worker w = {.settings = &settings, .comm = &comm, .optimizer = &optimizer, .step = k->step};
    w.micro_batch.part = k->mine;
    w.micro_batch.batch = k->all;
    asked.updates = 0;
    asked.fails = fails;
    *since = k->since;
    return step_alone(&w, since, k->mine, k->all, meet);
}

static gs_status check_step(const one_step *k) {
    way since;
    bool meet = true, wanted = (k->step + 1) % (uint64_t)k->every == 0;
    char text[160];
    snprintf(text, sizeof text, "w->step %llu, H = %d, %zu of %zu samples, since the last average %g of %g",
             (unsigned long long)k->step, k->every, k->mine, k->all, k->since.mine, k->since.all);
    GS_TRY(gs_context(run_step(k, false, &since, &meet), "%s", text));
    LAB_CHECK(asked.updates == (k->mine > 0), "%s: gs_optimizer_update was called %d time%s, expected %d",
              text, asked.updates, gs_s((unsigned)asked.updates), k->mine > 0);
    LAB_CHECK(k->mine == 0 || asked.scale == (float)(1 / (double)k->mine),
              "%s: the gradients were divided by %g, expected %zu", text, 1 / (double)asked.scale, k->mine);
    LAB_CHECK(since.mine == k->since.mine + (double)k->mine && since.all == k->since.all + (double)k->all,
              "%s: then %.17g of %.17g samples were counted since the last average, expected %.17g of %.17g",
              text, since.mine, since.all, k->since.mine + (double)k->mine, k->since.all + (double)k->all);
    LAB_CHECK(meet == wanted, "%s: *meet is %s, expected %s", text, meet ? "true" : "false",
              wanted ? "true" : "false");
    if (k->mine == 0) return GS_OK;
    return gs_context(lab_passed_on(run_step(k, true, &since, &meet), "gs_optimizer_update fails"), "%s",
                      text);
}

/* Small numbers, and those of a long run: step numbers beyond 32 bits, counts that a float cannot hold. */
static gs_status check_steps(void) {
    static const one_step first = {2, 0, 3, 6, {0, 0}}, second = {2, 1, 3, 6, {3, 6}},
                          empty = {3, 2, 0, 2, {4, 8}};
    GS_TRY(check_step(&first));
    GS_TRY(check_step(&second));
    GS_TRY(check_step(&empty));
    for (size_t i = 0; i < 30; i++) {
        const size_t at = 10 * i, every = 1 + lab_pick(STEPS_ROW, at, 20),
                     all = 1 + lab_pick(STEPS_ROW, at + 1, i < 10 ? 20 : 5000),
                     times = lab_pick(STEPS_ROW, at + 2, 10) * (i < 10 ? 1 : 999999999);
        const one_step k = {(int)every,
                            every * times + (lab_pick(STEPS_ROW, at + 3, 2) ? every - 1 : i % every),
                            lab_pick(STEPS_ROW, at + 4, all + 1),
                            all,
                            {(double)lab_pick(STEPS_ROW, at + 5, (size_t)1 << 30),
                             16 * (double)lab_pick(STEPS_ROW, at + 6, (size_t)1 << 30)}};
        GS_TRY(check_step(&k));
    }
    return GS_OK;
}

/* ---- training ---- */

/* H = 1 is the synchronous step: the weighted mean of (W - lr mean gradient of a part) is W - lr mean gradient. */
static gs_status check_h_1(const char *devices, float momentum) {
    gs_settings synchronous = lab_short_run(SMALL_MODEL, devices, BATCH, RUN_STEPS), local = synchronous;
    double difference;
    synchronous.momentum = local.momentum = momentum;
    synchronous.sync = "ps";
    local.sync = "local";
    local.every = 1;
    GS_TRY(lab_train_both(&synchronous, &local, &difference, NULL));
    LAB_CHECK(difference <= 1e-6,
              "train --devices %s --batch 333 --momentum %g --sync local --every 1: after 20 steps the "
              "weights differ by %g from those of --sync ps, expected rounding, at most 1e-6",
              devices, (double)momentum, difference);
    return GS_OK;
}

static float seen[3][RUN_STEPS]; /* by rank and step: one weight */

static void note_weight(gs_worker *w) {
    gs_mem last = gs_at(w->model->weights, w->model->params - 1);
    float *to = &seen[w->comm->rank][w->step - 1];
    if (w->device->ops->read(w->device, to, last, sizeof *to) != GS_OK) gs_bug("%s", gs_message());
}

/* The workers have equal weights after each H-th step and at the end of an epoch (step 19), and only then. */
static gs_status check_when(int every) {
    gs_settings s = lab_short_run(SMALL_MODEL, "cpu,cpu,cpu", BATCH, RUN_STEPS);
    gs_result r = {0};
    s.sync = "local";
    s.every = every;
    s.test_hook = note_weight;
    GS_TRY(gs_train(&s, NULL, &r));
    gs_result_free(&r);
    for (int step = 1; step <= RUN_STEPS; step++) {
        if (step == 19) continue; /* note_weight runs before the average at the end of the epoch */
        bool met = seen[0][step - 1] == seen[1][step - 1] && seen[0][step - 1] == seen[2][step - 1];
        LAB_CHECK(met == (step % every == 0),
                  "train --sync local --every %d: after step %d the workers' weights are %s, expected %s",
                  every, step, met ? "the same" : "different", met ? "different" : "the same");
    }
    return GS_OK;
}

gs_status lab_check_steps_alone(void) {
    GS_TRY(check_steps());
    GS_TRY(check_h_1("cpu", 0));
    GS_TRY(check_h_1("cpu,cpu", 0));
    GS_TRY(check_h_1("cpu,cpu,cpu", 0.9f));
    GS_TRY(check_h_1("cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu", 0.9f)); /* step 19 has 6 samples for 8 workers */
    GS_TRY(check_when(2));
    GS_TRY(check_when(7));
    return check_when(3 + (int)lab_pick(EVERY_ROW, 0, 15));
}
