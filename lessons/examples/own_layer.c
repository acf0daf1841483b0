/* A layer of your own: PReLU, y = x where x > 0, otherwise a x, with a learnt slope a for each input. (He, Zhang, Ren,
 * Sun, "Delving deep into rectifiers", 2015.) The program checks its gradient by finite differences; then two workers
 * train with it.
 *
 *     cc own_layer.c $(pkg-config --cflags --libs gradsum) -lm -o own_layer && ./own_layer
 *
 * The layer computes on the host: read, compute, write. So it runs on every device, "cl" included, but is slow there.
 */
#include <gradsum.h>
#include <layer/make.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct prelu {
    gs_layer base; /* first, so that a pointer to one is a pointer to the other */
    /* One pass on the host: x; y in forward, dy and then dx in backward; the slopes; their gradients. */
    float *x, *d, *a, *da;
} prelu;

/* Sets shapes and parameters; there is no device yet. */
static gs_status prelu_plan(gs_layer *l, gs_shape in) {
    l->out = in;
    l->flops = (double)gs_shape_size(in);
    const int dims[] = {in.c, in.h, in.w};
    return gs_layer_parameter(l, "weight", 3, dims, in.c);
}

static gs_status prelu_bind(gs_layer *l, size_t max_batch) {
    prelu *me = (prelu *)l;
    me->x = (float *)calloc((2 * max_batch + 2) * l->param[0].count, sizeof(float));
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
    *y = l->y; /* allocated for this layer, because .buffers is GS_OWN */
    return l->device->ops->write(l->device, l->y, me->d, count * sizeof(float));
}

/* dx = dy where x > 0, otherwise a dy; da = the sum of x dy over the samples with x <= 0. */
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

static const gs_layer_ops prelu_ops = {.name = "prelu",
                                       .buffers = GS_OWN,
                                       .plan = prelu_plan,
                                       .bind = prelu_bind,
                                       .forward = prelu_forward,
                                       .backward = prelu_backward,
                                       .unbind = prelu_unbind};

static gs_layer *make_prelu(void) {
    return gs_layer_new(&prelu_ops, sizeof(prelu), 0);
}

/* ---- checks backward, then trains: the target is |x0| + |x1|, which no linear model can fit ---- */

enum { SAMPLES = 64, INPUTS = 2, HIDDEN = 8, STEPS = 2000 };
enum {
    SLOPES_AT = (INPUTS + 1) * HIDDEN,
    WEIGHTS = SLOPES_AT + 2 * HIDDEN + 1
}; /* behind the first layer's */

static gs_status make_data(gs_dataset **set) {
    float x[SAMPLES][INPUTS], t[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        x[i][0] = (float)(i % 8) / 4 - 0.9f;
        x[i][1] = floorf((float)i / 8) / 4 - 0.8f;
        t[i] = fabsf(x[i][0]) + fabsf(x[i][1]);
    }
    return gs_dataset_from_targets("|x0| + |x1|", SAMPLES, (gs_shape){INPUTS, 1, 1, 0}, x[0], 1, t, set);
}

static gs_status make_trainer(const gs_dataset *set, const char *devices, float lr, const char *more,
                              gs_trainer **trainer) {
    gs_trainer_options options = {.model = "linear 8, prelu, linear 1", .data = set, .devices = devices};
    options.batch = SAMPLES;
    options.loss = GS_REGRESSION;
    options.lr = lr;
    options.seed = 3;
    options.more = more;
    return gs_trainer_create(&options, trainer);
}

/* *loss = the loss with weight i moved by h. */
static gs_status loss_at(gs_trainer *trainer, const gs_dataset *set, float w[WEIGHTS], int i, float h,
                         double *loss) {
    const float kept = w[i];
    gs_metrics m;
    w[i] += h;
    GS_TRY(gs_trainer_write_weights(trainer, w));
    GS_TRY(gs_trainer_evaluate(trainer, set, &m));
    w[i] = kept;
    *loss = m.loss;
    return GS_OK;
}

/* Moves each slope a little up and down: (loss(a + h) - loss(a - h)) / 2h must equal the gradient of backward, which a
 * step with the learning rate 1 and without momentum subtracts from the weights. */
static gs_status check(const gs_dataset *set, const char *device, gs_trainer **trainer) {
    const float h = 1e-2f;
    float w[WEIGHTS], after[WEIGHTS];
    double up, down;
    GS_TRY(make_trainer(set, device, 1, "--momentum 0", trainer));
    GS_TRY(gs_trainer_read_weights(*trainer, w));
    GS_TRY(gs_trainer_step(*trainer, NULL));
    GS_TRY(gs_trainer_read_weights(*trainer, after));
    for (int i = SLOPES_AT; i < SLOPES_AT + HIDDEN; i++) {
        GS_TRY(loss_at(*trainer, set, w, i, h, &up));
        GS_TRY(loss_at(*trainer, set, w, i, -h, &down));
        const double want = (up - down) / (2 * (double)h), got = (double)w[i] - (double)after[i];
        if (fabs(got - want) > 1e-4 + 1e-3 * fabs(want))
            return gs_fail(GS_E_DIFFER, "slope %d: backward says %.6f, the difference quotient %.6f",
                           i - SLOPES_AT, got, want);
    }
    printf("the gradients of %d slopes are right\n", HIDDEN);
    return GS_OK;
}

static gs_status learn(const gs_dataset *set, const char *devices, gs_trainer **trainer) {
    gs_metrics m;
    GS_TRY(make_trainer(set, devices, 0.1f, NULL, trainer));
    for (int step = 0; step < STEPS; step++) GS_TRY(gs_trainer_step(*trainer, &m));
    printf("linear 8, prelu, linear 1: loss %.2g after %d steps\n", m.loss, STEPS);
    return GS_OK;
}

int main(int argc, char **argv) {
    gs_dataset *set = NULL;
    gs_trainer *checked = NULL, *trained = NULL;
    gs_status status = gs_model_add_layer("prelu", make_prelu); /* its name in model texts */
    if (status == GS_OK) status = make_data(&set);
    if (status == GS_OK) status = check(set, argc > 1 ? argv[1] : "cpu", &checked);
    if (status == GS_OK) status = learn(set, argc > 1 ? argv[1] : "cpu,cpu", &trained);
    if (status != GS_OK) fprintf(stderr, "%s\n", gs_message());
    gs_trainer_free(checked);
    gs_trainer_free(trained);
    gs_dataset_free(set);
    return status == GS_OK ? 0 : 1;
}
