#include "core/units.h"
#include "core/text.h"
#include "io/file.h"
#include "train/settings.h"
#include "train/strategy.h"
#include "train/tensor.h"
#include "train/options/options.h"

#include <math.h>

/* ---- the list of devices ---- */

int gs_devices_count(const char *list) {
    int count = 1;
    for (; *list; list++) count += *list == ',';
    return count;
}

gs_status gs_devices_name(const char *list, int i, char name[48]) {
    const char *from = list;
    for (; i > 0 && from; i--) from = strchr(from, ',') ? strchr(from, ',') + 1 : NULL;
    if (!from) gs_bug("gs_devices_name: '%s' has fewer names", list);
    from += strspn(from, " ");
    size_t length = strcspn(from, ",");
    while (length > 0 && from[length - 1] == ' ') length--;
    if (length == 0) return gs_fail(GS_E_USAGE, "the list of devices '%s' has an empty name", list);
    if (length >= 48) return gs_fail(GS_E_USAGE, "device '%.40s...': the name is too long", from);
    memcpy(name, from, length);
    name[length] = 0;
    return GS_OK;
}

bool gs_devices_are_cpu(const char *devices) {
    char name[48];
    for (int i = 0; i < gs_devices_count(devices); i++)
        if (gs_devices_name(devices, i, name) != GS_OK || strcmp(name, "cpu") != 0) return false;
    return true;
}

/* ---- each setting on its own ---- */

static gs_status needs_value(const gs_run_option *o) {
    return gs_fail(GS_E_USAGE, "--%s needs a value: %s", o->name, o->argument);
}

/* A program may set any value that the command line accepts, or a default: off, or NAN (determined later). */
static gs_status check_setting(const gs_settings *s, const gs_run_option *o) {
    gs_settings unused;
    const void *value = (const char *)s + o->at;
    const gs_option option = gs_run_option_of(o, &unused);
    char text[GS_OPTION_TEXT_MOST];
    if (o->kind == GS_OPTION_TEXT) { /* may be NULL if it has no default or data are in memory */
        const bool in_memory = o->at == offsetof(gs_settings, data) && (s->train_set || s->test_set);
        return *(const char *const *)value || !o->usual_text || in_memory ? GS_OK : needs_value(o);
    }
    if (gs_option_names_of(o->kind) && gs_option_has_name(o->kind, value)) return GS_OK;
    if (o->kind == GS_OPTION_OPTIM) return needs_value(o);
    const int channels = o->kind == GS_OPTION_CHANNELS ? ((const gs_by_channel *)value)->count : 0;
    if (channels < 0 || channels > GS_CHANNELS)
        return gs_fail(GS_E_USAGE, "--%s: %d numbers; wanted one for each channel, at most %d", o->name,
                       channels, GS_CHANNELS);
    const bool all = o->kind == GS_OPTION_BATCH && *(const size_t *)value == 0;
    if (o->kind == GS_OPTION_FLAG || all) return GS_OK;
    if (channels == 0 && gs_run_option_is_default(o, s)) return GS_OK; /* NAN for one channel is invalid */
    return gs_option_read(&option, gs_option_text(o->kind, value, text, sizeof text));
}

gs_status gs_check_each_setting(const gs_settings *s) {
    for (const gs_run_option *o = gs_run_table; o->name; o++) {
        /* checked below, because GRADSUM_TIMEOUT may exceed the range of --timeout */
        if (o->at == offsetof(gs_settings, timeout)) continue;
        /* --device and --devices set the same field; messages name --devices */
        if (o[1].name && o->at == o[1].at) continue;
        GS_TRY(check_setting(s, o));
    }
    if (s->offload > GS_OFFLOADS)
        return gs_fail(GS_E_USAGE, "--offload: %u is no sum of gs_offload's, at most %d", s->offload,
                       GS_OFFLOADS);
    if (!(s->timeout > 0) || isinf(s->timeout))
        return gs_fail(GS_E_USAGE, "the timeout is %g s; it must be more than 0", s->timeout);
    return GS_OK;
}

/* ---- a layout ---- */

/* given: the option's value; 0 if it was not given. */
static gs_status agree(const char *text, const char *term, int of_layout, const char *option, int given) {
    if (given == 0 || given == of_layout) return GS_OK;
    return gs_fail(GS_E_USAGE, "--layout %s has %s%d, and --%s is %d; use only one of them", text, term,
                   of_layout, option, given);
}

gs_status gs_layout_settle(gs_settings *s) {
    gs_layout l;
    if (!s->layout) return GS_OK;
    GS_TRY(gs_layout_read(s->layout, &l));
    GS_TRY(agree(s->layout, "pp", l.pp, "pipeline", s->pipeline));
    GS_TRY(agree(s->layout, "zero", l.zero, "zero", s->zero));
    GS_TRY(agree(s->layout, "tp", l.tp, "tensor", s->tensor));
    s->pipeline = l.pp > 1 ? l.pp : 0;
    s->tensor = l.tp > 1 ? l.tp : 0;
    s->zero = l.zero;
    return GS_OK;
}

gs_layout gs_layout_of(const gs_settings *s, int workers) {
    const int stages = s->pipeline > 1 ? s->pipeline : 1, parts = s->tensor > 1 ? s->tensor : 1;
    return (gs_layout){workers / stages / parts, parts, stages, s->zero};
}

gs_status gs_layout_check_workers(const gs_settings *s, int workers, const char *options) {
    gs_layout l;
    char other[32] = "";
    if (!s->layout) return GS_OK;
    GS_TRY(gs_layout_read(s->layout, &l));
    const int wanted = l.dp * l.tp * l.pp; /* at most 2^24 */
    if (wanted == workers) return GS_OK;
    if (workers % (l.tp * l.pp) == 0) snprintf(other, sizeof other, ", or dp%d", workers / (l.tp * l.pp));
    return gs_fail(GS_E_USAGE,
                   "--layout %s needs %d x %d x %d = %d worker%s (dp x tp x pp), and there %s %d; wanted %d "
                   "(%s)%s",
                   s->layout, l.dp, l.tp, l.pp, wanted, gs_s((unsigned)wanted), workers == 1 ? "is" : "are",
                   workers, wanted, options, other);
}

/* ---- the optimiser ---- */

/* The hyper-parameters that an optimiser may take, with their offsets in gs_settings and gs_hyperparameters. */
static const struct {
    const char *option;
    size_t at, number;
} numbers[] = {
#define NUMBER(option, name)                                                                                 \
    { option, offsetof(gs_settings, name), offsetof(gs_hyperparameters, name) }
    NUMBER("lr", lr),       NUMBER("weight-decay", weight_decay), /* taken by all optimisers */
    NUMBER("beta1", beta1), NUMBER("momentum", momentum),
    NUMBER("beta2", beta2), NUMBER("epsilon", epsilon),
};
enum { NUMBERS = sizeof numbers / sizeof *numbers, OF_ALL = 2, DECAY = 1, DECOUPLED = NUMBERS, NEEDS_WHOLE };

/* The optimiser's default for number i; NAN: not taken. For a trait (i >= NUMBERS): 0 if ops has it, else NAN. */
static float usual_number(const gs_optimizer_ops *ops, int i) {
    if (i >= NUMBERS) return (i == DECOUPLED ? ops->decoupled : ops->whole) ? 0 : NAN;
    const float usual = *(const float *)((const char *)&ops->usual + numbers[i].number);
    if (i >= OF_ALL && !(usual > 0)) return NAN;
    return i == 0 && !(usual > 0) ? gs_sgd.usual.lr : usual;
}

/* Append the optimisers that take number i ("sgd, nesterov"); unless `usual` is NAN, only those with that default. */
static void list_optimizers(char *text, size_t size, int i, float usual) {
    const char *between = "";
    for (const gs_optimizer_ops *const *o = gs_optimizers; *o; o++) {
        const float its = usual_number(*o, i);
        if (isnan(its) || (!isnan(usual) && its != usual)) continue;
        gs_append(text, size, "%s%s", between, (*o)->name);
        between = ", ";
    }
}

const char *gs_optimizers_help(const char *option, const char *help) {
    static char text[NUMBERS][240];
    enum { SIZE = sizeof text[0] };
    int i = 0;
    while (i < NUMBERS && strcmp(option, numbers[i].option) != 0) i++;
    if (i == NUMBERS || help != gs_run_option_named(option)->help) return help;
    char *t = text[i];
    *t = '\0';
    if (i >= OF_ALL) list_optimizers(t, SIZE, i, NAN);
    gs_append(t, SIZE, "%s%s", i >= OF_ALL ? ": " : "", help);
    if (i == DECAY) list_optimizers(t, SIZE, DECOUPLED, NAN);
    bool first = true;
    for (const gs_optimizer_ops *const *o = gs_optimizers, *const *same; *o; o++) {
        const float usual = usual_number(*o, i);
        for (same = gs_optimizers; same < o && usual_number(*same, i) != usual;) same++;
        if (isnan(usual) || same < o) continue;
        gs_append(t, SIZE, first ? "; by default" : "; ");
        if (!first) list_optimizers(t, SIZE, i, usual);
        gs_append(t, SIZE, " %g", gs_decimal(usual));
        first = false;
    }
    return t;
}

gs_settings gs_settings_with_numbers(const gs_settings *given, size_t batch) {
    gs_settings s = *given;
    for (int i = 0; i < NUMBERS; i++) {
        float *set = (float *)((char *)&s + numbers[i].at);
        if (isnan(*set)) *set = usual_number(s.optimizer, i);
    }
    if (!s.batch) s.batch = batch;
    return s;
}

gs_hyperparameters gs_settings_numbers(const gs_settings *given) {
    const gs_settings s = gs_settings_with_numbers(given, 0);
    return (gs_hyperparameters){s.lr, s.momentum, s.weight_decay, s.beta1, s.beta2, s.epsilon};
}

gs_status gs_check_optimizer(const gs_settings *s) {
    for (int i = 0; i < NUMBERS; i++) {
        char takers[80] = "";
        const float set = *(const float *)((const char *)s + numbers[i].at);
        if (isnan(set) || !isnan(usual_number(s->optimizer, i))) continue;
        list_optimizers(takers, sizeof takers, i, NAN);
        return gs_fail(GS_E_USAGE, "--%s %g: the optimiser %s does not take it; it is for --optimizer %s",
                       numbers[i].option, (double)set, s->optimizer->name, takers);
    }
    return GS_OK;
}

/* ---- the learning rates ---- */

/* With a rule, the warm-up is part of the rule's plan. The warm-up's length is in units of `unit` steps. */
gs_lr_rates gs_rates_of(const gs_settings *s, size_t batch, size_t samples) {
    const uint64_t base = s->base_batch ? s->base_batch : GS_BASE_BATCH;
    const size_t steps = (samples + batch - 1) / batch; /* in an epoch */
    const double lr = (double)gs_settings_numbers(s).lr, epoch = (double)steps;
    const double length = s->warmup_steps ? (double)s->warmup_steps : s->warmup;
    const double unit = s->warmup_steps ? 1 : epoch;
    gs_lr_rates c = {.schedule = s->schedule,
                     .final_lr = isnan(s->final_lr) ? 0 : (double)s->final_lr,
                     .epoch = epoch,
                     .steps = epoch * s->epochs};
    const bool ruled = s->lr_rule != GS_LR_NONE;
    c.plan = gs_lr_plan_of(s->lr_rule, lr, (double)batch, (double)base, ruled ? length : 0, unit);
    c.warmup = ruled ? c.plan.warmup : length * unit;
    if (s->steps && (double)s->steps < c.steps) c.steps = (double)s->steps;
    return c;
}

static gs_status check_lr(const gs_settings *s) {
    char room[GS_LR_SCHEDULE_TEXT];
    const gs_lr_schedule *schedule = &s->schedule;
    const double last = schedule->drops > 0 ? schedule->drop[schedule->drops - 1] : 0;
    if (last >= s->epochs)
        return gs_fail(GS_E_USAGE,
                       "--schedule %s: the run has %d epoch%s, so the rate would not change after %g; wanted "
                       "epochs below %d",
                       gs_lr_schedule_text(schedule, room, sizeof room), s->epochs, s->epochs > 1 ? "s" : "",
                       last, s->epochs);
    return GS_OK;
}

gs_status gs_check_rates(const gs_settings *s, size_t samples) {
    const gs_lr_rates c = gs_rates_of(s, s->batch ? s->batch : samples, samples);
    char text[GS_LR_SCHEDULE_TEXT];
    if (!gs_lr_schedule_falls(&s->schedule) || c.warmup < c.steps) return GS_OK;
    return gs_fail(
        GS_E_USAGE,
        "the warm-up takes %g steps, and the run has %g: --schedule %s would never begin; wanted a "
        "shorter warm-up",
        c.warmup, c.steps, gs_lr_schedule_text(&s->schedule, text, sizeof text));
}

/* ---- consistency ---- */

static gs_status check_state(const gs_settings *s) {
    if (!s->checkpoint && s->keep.checkpoints > 0)
        return gs_fail(GS_E_USAGE, "--keep N is for checkpoints: it needs --checkpoint DIR");
    if (s->resume && s->load)
        return gs_fail(GS_E_USAGE, "--resume has the weights of its run; wanted it without --load");
    if (s->save && s->checkpoint && strcmp(s->save, s->checkpoint) == 0)
        return gs_fail(GS_E_USAGE, "--save %s is the folder of --checkpoint; wanted the name of a file",
                       s->save);
    if (s->save && s->resume && gs_file_is_same(s->save, s->resume) && !s->save_state)
        return gs_fail(
            GS_E_USAGE,
            "--save %s would take the state out of the file that --resume reads; wanted --save-state "
            "too, or another name",
            s->save);
    return GS_OK;
}

/* ---- conflicts ---- */

/* A choice, its option, and whether the settings s make this choice. */
#define TABLE(X)                                                                                             \
    X(TENSOR, "--tensor", s->tensor > 1)                                                                     \
    X(PIPELINE, "--pipeline", s->pipeline > 1)                                                               \
    X(ZERO, "--zero", s->zero > 0)                                                                           \
    X(EXACT, "--exact", s->exact)                                                                            \
    X(LOCAL, "--sync local", strcmp(s->sync, gs_strategy_local.name) == 0)                                   \
    X(ASYNC, "--sync async", strcmp(s->sync, gs_strategy_async.name) == 0)                                   \
    X(SCHEME, "--sync", strcmp(s->sync, gs_settings_default().sync) != 0)                                    \
    X(BUCKET, "--bucket", s->bucket > 0)                                                                     \
    X(WIRE, "--wire", s->wire != GS_WIRE_F32)                                                                \
    X(F16, "--precision f16", s->precision == GS_PRECISION_F16)                                              \
    X(STATE, "--save-state", s->resume || s->save_state || s->checkpoint)                                    \
    X(DIGEST, "--digest", s->digest != NULL)                                                                 \
    X(ACCUMULATE, "--accumulate", s->accumulate > 1)                                                         \
    X(WHOLE, "--optimizer", s->optimizer->whole)                                                             \
    X(VECTORS, "--offload optimizer", (s->offload & GS_OFFLOAD_OPTIMIZER) != 0)                              \
    X(WEIGHTS, "--offload weights", (s->offload & GS_OFFLOAD_WEIGHTS) != 0)                                  \
    X(LINK, "--link", gs_link_is_there(&s->link))                                                            \
    X(GLOO, "--sync gloo", strcmp(s->sync, gs_sync_gloo.name) == 0)                                          \
    X(HIERARCHICAL, "--sync hierarchical", strcmp(s->sync, gs_sync_hierarchical.name) == 0)                  \
    X(BEST, "--keep best", s->keep.best)                                                                     \
    X(NO_TESTS, "--tests 0", s->tests == 0)                                                                  \
    X(STATE_SAVED, "--save-state", s->save_state)                                                            \
    X(WARMUP, "--warmup", s->warmup > 0)                                                                     \
    X(WARMUP_STEPS, "--warmup-steps", s->warmup_steps > 0)                                                   \
    X(OFFLOAD, "--offload", s->offload != 0)                                                                 \
    X(RULE, "--lr-rule", s->lr_rule != GS_LR_NONE)                                                           \
    X(FALLING, "--schedule", gs_lr_schedule_falls(&s->schedule))                                             \
    X(CLASSES, "--loss", s->loss == GS_SOFTMAX_CROSS_ENTROPY)                                                \
    X(SAVE, "--save", s->save != NULL)                                                                       \
    X(CHECKPOINTS, "--checkpoint", s->checkpoint != NULL)
#define CHOICE(choice, name, is) choice,
#define OPTION(choice, name, is) name,
#define IS(choice, name, is) is,
enum { TABLE(CHOICE) CHOICES };
static const char *const option[CHOICES] = {TABLE(OPTION)};

static bool is_chosen(const gs_settings *s, int choice) {
    const bool chosen[CHOICES] = {TABLE(IS)};
    return chosen[choice];
}

#define NO_SUM "does not sum gradients in each step, so there is nothing to sum during backward"
#define ALONE "lets each worker update by itself, so no worker knows whether the others skip an update"
#define STEPS "lets each worker make its own steps, and a record needs steps that all make together"
#define HIDDEN "slows messages, and a transport's own scheme hides them from it"
#define BLOCKS "needs whole tensors, and an update goes block by block then"
static const struct {
    int a, b;
    const char *why;
} conflicts[] = {
    {TENSOR, SCHEME, "sums gradients over the workers with the same part, in an order of its own"},
    {TENSOR, BUCKET, "sums within a group during backward, and bucket sums would come in between"},
    {TENSOR, WIRE, "sends activations too, which are not rounded"},
    {PIPELINE, SCHEME, "sums the gradients of each stage over the workers that hold it, by messages"},
    {PIPELINE, BUCKET, "sums the gradients of a stage when all its micro-batches are done"},
    {PIPELINE, WIRE, "sends activations too, which are not rounded"},
    {PIPELINE, ACCUMULATE, "accumulates over its micro-batches, as many as --micro-batches says"},
    {PIPELINE, WEIGHTS, "would bring all weights of a stage again for each micro-batch"},
    {ZERO, SCHEME, "divides the sum of gradients among the workers, by a reduce-scatter"},
    {ZERO, BUCKET, "divides the gradients among the workers, in buckets of its own"},
    {ZERO, WIRE, "sends weights too, which must not be rounded"},
    {ZERO, WEIGHTS, "divides the weights (3), or gathers all new ones at once in each step (1, 2)"},
    {EXACT, SCHEME, "adds in its own order"},
    {EXACT, BUCKET, "adds in one fixed tree after backward"},
    {EXACT, WIRE, "needs values that are not rounded on the way"},
    {LOCAL, BUCKET, NO_SUM},
    {LOCAL, WIRE, "sends weights, which must not be rounded"},
    {LOCAL, F16, ALONE},
    {LOCAL, DIGEST, STEPS},
    {LOCAL, VECTORS, "averages the optimiser's vectors too, each in one piece"},
    {LOCAL, WEIGHTS, "averages the weights in one piece"},
    {ASYNC, BUCKET, NO_SUM},
    {ASYNC, WIRE, "sends weights too, which must not be rounded"},
    {ASYNC, F16, ALONE},
    {ASYNC, STATE, "is never at the same step on all workers, so there is no state to go on from exactly"},
    {ASYNC, DIGEST, STEPS},
    {ASYNC, VECTORS, "updates at a server, which alone holds the vectors"},
    {ASYNC, WEIGHTS, "replaces all weights in each step by those of a server"},
    {LINK, GLOO, HIDDEN},
    {LINK, HIERARCHICAL, HIDDEN},
    {WHOLE, VECTORS, BLOCKS},
    {WHOLE, WEIGHTS, BLOCKS},
    {BEST, NO_TESTS, "compares test results"},
    {BEST, STATE_SAVED, "saves the weights of an earlier epoch, and the state belongs to the last ones"},
    {WARMUP, WARMUP_STEPS, "says how long the warm-up is"},
};
enum { CONFLICTS = sizeof conflicts / sizeof *conflicts };

bool gs_conflict_of(int i, gs_conflict *out) {
    if (i >= CONFLICTS) return false;
    static char whole[80]; /* "lars, lamb" */
    const int a = conflicts[i].a;
    if (!*whole) list_optimizers(whole, sizeof whole, NEEDS_WHOLE, NAN);
    *out = (gs_conflict){a == WHOLE ? whole : option[a], option[conflicts[i].b], conflicts[i].why};
    return true;
}

/* Options that require a choice. */
#define STAGES "is for --pipeline P, which cuts the model into P stages"
static const struct {
    const char *option;
    int choice;
    const char *why;
    const char *found; /* the option whose value made another choice; NULL: an option that is not set */
} needs[] = {
    {"staleness", ASYNC, "works only with --sync async", "sync"},
    {"every", LOCAL, "works only with --sync local", "sync"},
    {"micro-batches", PIPELINE, STAGES, NULL},
    {"pipeline-cut", PIPELINE, STAGES, NULL},
    {"pipeline-schedule", PIPELINE, STAGES, NULL},
    {"sequence", TENSOR, "divides sequences among the workers of a group: it needs --tensor T", NULL},
    {"base-batch", RULE,
     "needs --lr-rule linear or sqrt: without a rule the learning rate does not follow the batch", NULL},
    {"final-lr", FALLING, "needs --schedule linear or cosine: no other moves the rate towards one",
     "schedule"},
    {"label-smoothing", CLASSES, "is for --loss cross_entropy and classes", "loss"},
    {"checkpoint-every", CHECKPOINTS, "is for checkpoints: it needs --checkpoint DIR", NULL},
    {"save-state", SAVE, "needs --save FILE, to write the state in", NULL},
    {"offload-dir", OFFLOAD, "says where --offload puts its files; wanted --offload too", NULL},
};

static gs_status check_needs(const gs_settings *s) {
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        const gs_run_option *o = gs_run_option_named(needs[i].option);
        char text[GS_OPTION_TEXT_MOST];
        if (is_chosen(s, needs[i].choice) || gs_run_option_is_default(o, s)) continue;
        const bool flag = o->kind == GS_OPTION_FLAG;
        const char *value = gs_option_text(o->kind, (const char *)s + o->at, text, sizeof text);
        gs_fail(GS_E_USAGE, "--%s%s%s %s", o->name, flag ? "" : " ", flag ? "" : value, needs[i].why);
        if (!needs[i].found) return GS_E_USAGE;
        o = gs_run_option_named(needs[i].found);
        return gs_fail(GS_E_USAGE, "%s; --%s is %s", gs_message(), o->name, gs_run_option_text(o, s, text));
    }
    return GS_OK;
}

/* A space and the option's value, if the option's name alone does not say which choice was made. */
static const char *value_of(const gs_settings *s, int choice, char text[64]) {
    text[0] = '\0';
    if (choice == SCHEME) snprintf(text, 64, " %s", s->sync);
    if (choice == WIRE) snprintf(text, 64, " %s", gs_wire_name(s->wire));
    if (choice == WHOLE) snprintf(text, 64, " %s", s->optimizer->name);
    if (choice == ACCUMULATE) snprintf(text, 64, " %d", s->accumulate);
    return text;
}

gs_status gs_check_pairs(const gs_settings *s) {
    for (int i = 0; i < CONFLICTS; i++) {
        const int a = conflicts[i].a, b = conflicts[i].b;
        char of_a[64], of_b[64];
        if (!is_chosen(s, a) || !is_chosen(s, b)) continue;
        const char *state = s->resume ? "--resume" : s->checkpoint ? "--checkpoint" : option[STATE];
        return gs_fail(GS_E_USAGE, "%s%s %s: it does not work with %s%s%s", option[a], value_of(s, a, of_a),
                       conflicts[i].why, b == STATE ? state : option[b], value_of(s, b, of_b),
                       a == WHOLE                                 ? "; wanted another optimiser, such as adam"
                       : b == F16                                 ? "; bf16 skips none"
                       : a == LINK                                ? "; wanted another scheme, such as ring"
                       : a == ZERO && b == WEIGHTS && s->zero < 3 ? "; --zero 3 divides them"
                                                                  : "");
    }
    return check_needs(s);
}

gs_status gs_check_settings(const gs_settings *s) {
    const gs_strategy *chosen = gs_strategy_of(s);
    GS_TRY(gs_check_pairs(s));
    GS_TRY(check_state(s));
    GS_TRY(gs_check_optimizer(s));
    GS_TRY(check_lr(s));
    GS_TRY(gs_tensor_check(s));
    GS_TRY(gs_exact_check(s));
    return chosen->check ? chosen->check(s) : GS_OK;
}

/* With --exact a pass holds at least one virtual shard. */
static gs_status check_passes(const gs_settings *s, int workers) {
    const int passes = GS_EXACT_SHARDS / (workers / gs_model_parallel_size(s));
    if (s->accumulate <= passes) return GS_OK;
    return gs_fail(
        GS_E_USAGE,
        "--accumulate %d: with --exact a worker's passes divide its virtual shards, and each worker has %d "
        "of the %d; wanted at most %d",
        s->accumulate, passes, GS_EXACT_SHARDS, passes);
}

gs_status gs_check_pauses(const gs_settings *s, int workers) {
    for (int i = 0; i < s->jitter.count; i++) {
        const int rank = s->jitter.pause[i].rank;
        if (rank >= workers)
            return gs_fail(GS_E_USAGE, "--jitter: there is no worker %d; %s %d", rank,
                           workers > 1 ? "workers are 0 to" : "the only one is worker", workers - 1);
    }
    return GS_OK;
}

/* The workers must be divisible into replicas, and --exact's virtual shards must be divisible among the replicas. */
static gs_status check_replicas(const gs_settings *s, int workers) {
    const int each = gs_model_parallel_size(s), replicas = workers / each;
    if (workers % each != 0)
        return gs_fail(GS_E_USAGE,
                       "--%s %d: there %s %d worker%s; wanted a multiple of %d, a worker for each %s%s "
                       "(--devices, or launch -n)%s",
                       s->pipeline > 1 ? "pipeline" : "tensor", s->pipeline > 1 ? s->pipeline : s->tensor,
                       workers == 1 ? "is" : "are", workers, gs_s((unsigned)workers), each,
                       s->tensor < 2     ? ""
                       : s->pipeline > 1 ? "part of each "
                                         : "part of a group",
                       s->pipeline > 1 ? "stage of each pipeline" : "",
                       s->resume && s->pipeline > 1 ? "; --layout dpN goes on without stages, on N workers"
                                                    : "");
    if (!s->exact || GS_EXACT_SHARDS % replicas == 0) return GS_OK;
    return gs_fail(GS_E_USAGE,
                   "--exact: there are %d %s; wanted 1, 2, 4 or 8, so that the %d virtual shards of a batch "
                   "divide evenly",
                   replicas,
                   s->pipeline > 1 ? "pipelines"
                   : s->tensor > 1 ? "groups"
                                   : "workers",
                   GS_EXACT_SHARDS);
}

gs_status gs_check_workers(const gs_settings *s, const gs_dataset *train_set, int workers) {
    const gs_strategy *strategy = gs_strategy_of(s);
    GS_TRY(gs_layout_check_workers(s, workers, "--devices or launch -n"));
    GS_TRY(check_replicas(s, workers));
    GS_TRY(gs_tensor_check_workers(s, train_set->shape));
    if (strategy->check_workers) GS_TRY(strategy->check_workers(s, train_set, workers));
    if (s->exact) GS_TRY(check_passes(s, workers));
    return s->regrouped ? GS_OK : gs_check_pauses(s, workers);
}
