/* torch-models DEVICE CASES INPUT OUTPUT: trains the models of a file of cases. tests/torch/models.py generates the
 * cases and compares the results with PyTorch's.
 *
 * A line of CASES: batch, micro-batch, c, h, w, loss (0: cross-entropy, 1: squared error), fresh (1: the first backward
 * of a step writes the gradients; 0: all add to zeros), steps, lr, momentum, weight decay, and the text of the model.
 *
 * INPUT and OUTPUT are numbers of 4 bytes, case by case:
 *
 *     in     weights; for each step: x, labels (int32)
 *     out    of the first step: logits, gradients of the sum over the batch
 *            for each step: loss, correct, samples; weights after it
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "train/train.h"

typedef struct test_case {
    int batch, micro, loss, fresh, steps;
    gs_shape in;
    float lr, momentum, weight_decay;
    char text[2000];
} test_case;

/* The state of a running case. */
typedef struct run {
    const test_case *c;
    gs_device *device;
    gs_model *model;
    gs_optimizer *optimizer;
    gs_mem x, labels;
    float *host; /* space for the largest array of the case */
    FILE *in, *out;
} run;

static gs_status get(run *r, size_t count) {
    if (fread(r->host, sizeof *r->host, count, r->in) == count) return GS_OK;
    return gs_fail(GS_E_FILE, "the input has no %zu numbers more", count);
}

static gs_status put(run *r, size_t count) {
    if (fwrite(r->host, sizeof *r->host, count, r->out) == count) return GS_OK;
    return gs_fail(GS_E_FILE, "%zu numbers cannot be written", count);
}

static gs_status put_from(run *r, gs_mem from, size_t count) {
    GS_TRY(r->device->ops->read(r->device, r->host, from, count * sizeof *r->host));
    return put(r, count);
}

static gs_status open_case(run *r) {
    const test_case *c = r->c;
    const gs_backend *ops = r->device->ops;
    size_t batch = (size_t)c->batch, inputs = batch * gs_shape_size(c->in);
    gs_model_config config = {.text = c->text, .in = c->in, .loss = (gs_loss)c->loss, .seed = 1};
    config.max_batch = (size_t)c->micro;
    GS_TRY(gs_model_create(r->device, &config, &r->model));
    GS_TRY(gs_optimizer_create(&gs_sgd, r->model, c->lr, c->momentum, c->weight_decay, &r->optimizer));
    GS_TRY(ops->alloc(r->device, inputs * sizeof(float), &r->x));
    GS_TRY(ops->alloc(r->device, batch * sizeof(int32_t), &r->labels));
    size_t outputs = batch * gs_shape_size(r->model->out), most = r->model->params;
    if (most < inputs) most = inputs;
    if (most < outputs) most = outputs;
    r->host = malloc((most + GS_STATS) * sizeof *r->host);
    if (!r->host) return gs_fail(GS_E_MEMORY, "no memory for %zu numbers", most);
    GS_TRY(get(r, r->model->params));
    return gs_model_write_weights(r->model, r->host);
}

/* Forward and backward over the batch, in micro-batches. */
static gs_status gradient(run *r, bool first_step) {
    const test_case *c = r->c;
    size_t batch = (size_t)c->batch, each = gs_shape_size(c->in), classes = gs_shape_size(r->model->out);
    GS_TRY((c->fresh ? gs_model_clear_stats : gs_model_clear_gradients)(r->model));
    for (size_t at = 0; at < batch; at += (size_t)c->micro) {
        gs_pass pass = {.n = batch - at < (size_t)c->micro ? batch - at : (size_t)c->micro,
                        .training = true,
                        .fresh = c->fresh && at == 0,
                        .first = at};
        gs_mem logits, labels = gs_at(r->labels, at);
        GS_TRY(gs_model_forward(r->model, &pass, gs_at(r->x, at * each), &logits));
        if (first_step) GS_TRY(put_from(r, logits, pass.n * classes));
        GS_TRY(gs_model_loss(r->model, &pass, logits, labels));
        GS_TRY(gs_model_backward(r->model, &pass, logits, labels));
    }
    return first_step ? put_from(r, r->model->gradients, r->model->params) : GS_OK;
}

static gs_status step(run *r, bool first_step) {
    const gs_backend *ops = r->device->ops;
    size_t batch = (size_t)r->c->batch, inputs = batch * gs_shape_size(r->c->in);
    GS_TRY(get(r, inputs));
    GS_TRY(ops->write(r->device, r->x, r->host, inputs * sizeof(float)));
    GS_TRY(get(r, batch));
    GS_TRY(ops->write(r->device, r->labels, r->host, batch * sizeof(int32_t)));
    GS_TRY(gradient(r, first_step));
    GS_TRY(put_from(r, gs_model_stats(r->model), GS_STAT_SAMPLES + 1));
    GS_TRY(gs_optimizer_update(r->optimizer, (double)batch));
    return put_from(r, r->model->weights, r->model->params);
}

static gs_status run_case(run *r) {
    gs_status status = open_case(r);
    for (int i = 0; status == GS_OK && i < r->c->steps; i++) status = step(r, i == 0);
    r->device->ops->free(r->device, r->labels);
    r->device->ops->free(r->device, r->x);
    gs_optimizer_free(r->optimizer);
    gs_model_free(r->model);
    free(r->host);
    return status;
}

static bool read_case(FILE *f, test_case *c) {
    *c = (test_case){0};
    return fscanf(f, "%d %d %d %d %d %d %d %d %g %g %g %1999[^\n]", &c->batch, &c->micro, &c->in.c, &c->in.h,
                  &c->in.w, &c->loss, &c->fresh, &c->steps, &c->lr, &c->momentum, &c->weight_decay,
                  c->text) == 12;
}

static bool run_all(const char *name, FILE *cases, FILE *in, FILE *out) {
    gs_device *device;
    test_case c;
    bool good = gs_device_open(name, 2, &device) == GS_OK;
    if (!good) return fprintf(stderr, "%s\n", gs_message()), false;
    for (int number = 0; good && read_case(cases, &c); number++) {
        run r = {.c = &c, .device = device, .in = in, .out = out};
        good = run_case(&r) == GS_OK;
        if (!good) fprintf(stderr, "case %d on %s: %s: %s\n", number, name, c.text, gs_message());
    }
    gs_device_close(device);
    return good;
}

int main(int argc, char **argv) {
    if (argc != 5) return fprintf(stderr, "usage: torch_models DEVICE CASES INPUT OUTPUT\n"), 2;
    FILE *cases = fopen(argv[2], "r"), *in = fopen(argv[3], "rb"), *out = fopen(argv[4], "wb");
    bool good = cases && in && out;
    if (good)
        good = run_all(argv[1], cases, in, out);
    else
        perror("torch_models");
    if (cases) fclose(cases);
    if (in) fclose(in);
    if (out && fclose(out) != 0) good = false;
    return good ? 0 : 1;
}
