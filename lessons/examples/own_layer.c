/* A layer of your own: PReLU, y = x where x > 0, else a x, with a learnt slope a for each input. (He, Zhang, Ren, Sun,
 * "Delving deep into rectifiers", 2015.) The program checks its gradient by finite differences, then trains with it.
 *
 *     cc own_layer.c $(pkg-config --cflags --libs gradsum) -lm -o own_layer && ./own_layer
 *
 * The layer computes on the host: read, compute, write. So it runs on every device, "cl" included, but is slow there.
 */
#include <gradsum.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct prelu {
    gs_layer base; /* first: a pointer to one is a pointer to the other */
    /* On the host, of one pass: x; y in forward, dy and then dx in backward; the slopes; their gradients. */
    float *x, *d, *a, *da;
} prelu;

/* Shapes and parameters; there is no device yet. */
static gs_status prelu_plan(gs_layer *l, gs_shape in) {
    l->out = in;
    l->flops = (double)gs_shape_size(in);
    return gs_layer_parameter(l, "weight", 3, (int[]){in.c, in.h, in.w}, in.c);
}

static gs_status prelu_bind(gs_layer *l, size_t max_batch) {
    prelu *me = (prelu *)l;
    me->x = calloc((2 * max_batch + 2) * l->param[0].count, sizeof(float));
    if (!me->x) return gs_fail(GS_E_MEMORY, "no memory for %zu samples", max_batch);
    me->d = me->x + max_batch * l->param[0].count;
    me->a = me->d + max_batch * l->param[0].count;
    me->da = me->a + l->param[0].count;
    return GS_OK;
}

static void prelu_unbind(gs_layer *l) {
    free(((prelu *)l)->x);
}

static gs_status prelu_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    prelu *me = (prelu *)l;
    size_t slopes = l->param[0].count, count = pass->n * slopes;
    GS_TRY(l->device->ops->read(l->device, me->x, x, count * sizeof(float)));
    GS_TRY(l->device->ops->read(l->device, me->a, l->param[0].w, slopes * sizeof(float)));
    for (size_t i = 0; i < count; i++) me->d[i] = me->x[i] > 0 ? me->x[i] : me->a[i % slopes] * me->x[i];
    *y = l->y; /* memory that was made for us, because .buffers is GS_OWN */
    return l->device->ops->write(l->device, l->y, me->d, count * sizeof(float));
}

/* Of y = x where x > 0, else a x: dx = dy where x > 0, else a dy; da = the sum of x dy over the samples with x <= 0. */
static gs_status prelu_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    prelu *me = (prelu *)l;
    size_t slopes = l->param[0].count, count = pass->n * slopes;
    GS_TRY(l->device->ops->read(l->device, me->d, dy, count * sizeof(float)));
    GS_TRY(l->device->ops->read(l->device, me->da, l->param[0].dw, slopes * sizeof(float)));
    /* The gradients of a step's passes add up; its first pass is `fresh` and begins at 0. */
    for (size_t i = 0; i < slopes && pass->fresh; i++) me->da[i] = 0;
    for (size_t i = 0; i < count; i++) {
        if (me->x[i] > 0) continue;
        me->da[i % slopes] += me->x[i] * me->d[i];
        me->d[i] *= me->a[i % slopes];
    }
    GS_TRY(l->device->ops->write(l->device, l->param[0].dw, me->da, slopes * sizeof(float)));
    *dx = l->dx;
    return l->needs_dx ? l->device->ops->write(l->device, l->dx, me->d, count * sizeof(float)) : GS_OK;
}

static void prelu_describe(const gs_layer *l, char *text, size_t size) {
    (void)l;
    snprintf(text, size, "prelu");
}

static const gs_layer_ops prelu_ops = {.name = "prelu",
                                       .buffers = GS_OWN,
                                       .plan = prelu_plan,
                                       .bind = prelu_bind,
                                       .unbind = prelu_unbind,
                                       .forward = prelu_forward,
                                       .backward = prelu_backward,
                                       .describe = prelu_describe};

/* ---- Is its backward right, and can it learn? The target is |x0| + |x1|, which no linear model can give. ---- */

enum { SAMPLES = 64, INPUTS = 2, HIDDEN = 8, STEPS = 2000 };

typedef struct trial {
    gs_device *device;
    gs_model *model;
    gs_optimizer *optimizer;
    gs_mem x, t;
} trial;

static gs_status open_trial(trial *r, const char *device) {
    float x[SAMPLES][INPUTS], t[SAMPLES];
    for (unsigned i = 0; i < SAMPLES; i++) {
        uint32_t word[4];
        gs_philox(1, 0, i, word);
        for (int k = 0; k < INPUTS; k++) x[i][k] = 2 * gs_uniform(word[k]) - 1;
        t[i] = fabsf(x[i][0]) + fabsf(x[i][1]);
    }
    GS_TRY(gs_device_open(device, 1, &r->device));
    gs_layer *layers[] = {gs_linear(HIDDEN, true), gs_layer_new(&prelu_ops, sizeof(prelu), 0),
                          gs_linear(1, true)};
    gs_model_config config = {.net = gs_sequential(3, layers), .in = {INPUTS, 1, 1, 0}, .max_batch = SAMPLES};
    config.loss = GS_REGRESSION;
    config.seed = 3;
    GS_TRY(gs_model_create(r->device, &config, &r->model));
    GS_TRY(gs_optimizer_create(&gs_sgd, r->model, 0.1f, 0.9f, 0, &r->optimizer));
    GS_TRY(r->device->ops->alloc(r->device, sizeof x, &r->x));
    GS_TRY(r->device->ops->alloc(r->device, sizeof t, &r->t));
    GS_TRY(r->device->ops->write(r->device, r->x, x, sizeof x));
    return r->device->ops->write(r->device, r->t, t, sizeof t);
}

static void close_trial(trial *r) {
    gs_optimizer_free(r->optimizer);
    gs_model_free(r->model);
    if (r->device) r->device->ops->free(r->device, r->x);
    if (r->device) r->device->ops->free(r->device, r->t);
    gs_device_close(r->device);
}

/* *loss = the mean of the samples' losses; the model's gradients are those of their sum. */
static gs_status loss_and_gradients(trial *r, double *loss) {
    gs_pass pass = {.n = SAMPLES, .training = true};
    float counts[GS_STATS];
    gs_mem y;
    GS_TRY(gs_model_clear_gradients(r->model));
    GS_TRY(gs_model_forward(r->model, &pass, r->x, &y));
    GS_TRY(gs_model_loss(r->model, &pass, y, r->t));
    GS_TRY(gs_model_backward(r->model, &pass, y, r->t));
    GS_TRY(r->device->ops->read(r->device, counts, gs_model_stats(r->model), sizeof counts));
    *loss = (double)counts[GS_STAT_LOSS] / SAMPLES;
    return GS_OK;
}

/* Move each slope a little up and down: (loss(a + h) - loss(a - h)) / 2h must be what backward says. */
static gs_status check(trial *r) {
    const float h = 1e-2f;
    const gs_param *slopes = r->model->param[2]; /* after the weight and the bias of the first linear layer */
    float w[64], dw[64];                         /* room for all weights: 16 + 8 + 8 + 8 + 1 */
    double loss, up, down;
    GS_TRY(loss_and_gradients(r, &loss));
    GS_TRY(gs_model_read_weights(r->model, w));
    GS_TRY(r->device->ops->read(r->device, dw, r->model->gradients, r->model->params * sizeof(float)));
    for (size_t i = slopes->at; i < slopes->at + slopes->count; i++) {
        float kept = w[i];
        w[i] = kept + h;
        GS_TRY(gs_model_write_weights(r->model, w));
        GS_TRY(loss_and_gradients(r, &up));
        w[i] = kept - h;
        GS_TRY(gs_model_write_weights(r->model, w));
        GS_TRY(loss_and_gradients(r, &down));
        w[i] = kept;
        GS_TRY(gs_model_write_weights(r->model, w));
        double want = (up - down) / (2 * (double)h), got = (double)dw[i] / SAMPLES;
        if (fabs(got - want) > 1e-4 + 1e-3 * fabs(want))
            return gs_fail(GS_E_DIFFER, "%s: backward says %.6f, the difference quotient %.6f", slopes->name,
                           got, want);
    }
    printf("the gradients of %zu slopes are right\n", slopes->count);
    return GS_OK;
}

static gs_status run(trial *r, const char *device) {
    double loss = 0;
    GS_TRY(open_trial(r, device));
    GS_TRY(check(r));
    for (int step = 0; step < STEPS; step++) {
        GS_TRY(loss_and_gradients(r, &loss));
        GS_TRY(gs_optimizer_update(r->optimizer, SAMPLES));
    }
    printf("%s: loss %.2g after %d steps\n", r->model->text, loss, STEPS);
    return GS_OK;
}

int main(int argc, char **argv) {
    trial r = {0};
    gs_status status = run(&r, argc > 1 ? argv[1] : "cpu");
    if (status != GS_OK) fprintf(stderr, "%s\n", gs_message());
    close_trial(&r);
    return status == GS_OK ? 0 : 1;
}
