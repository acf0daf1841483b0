/* The checks of lesson 2. The references are difference quotients of the forward formulas, in double; a linear
 * function's is exact for any step. Larger cases are compared with the library's own operators. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "tasks.h"
#include "lab.h"
#include "train/train.h"

/* Rows of lab_pick; those of lab_number are below them. */
enum { SIZES = 20, LABELS, NETWORKS };

/* A size from `first` on, one of `count`. */
static size_t size(unsigned row, size_t i, size_t first, size_t count) {
    return first + lab_pick(row, i, count);
}

/* `count` numbers between -1 and 1; NULL: out of memory. */
static float *array(size_t count, unsigned row) {
    float *a = malloc(count * sizeof *a + (count == 0));
    for (size_t i = 0; i < count && a; i++) a[i] = lab_number(row, i);
    return a;
}

/* ---- 2.1 and 2.2: linear ---- */

typedef struct linear_case {
    size_t n, in, out;
    bool bias, wants_dx;
} linear_case;

/* The arrays of one case. dw and db hold numbers, as after an earlier pass; those in dx must not matter. */
typedef struct linear_arrays {
    linear_case c;
    float *x, *w, *dy, *dx, *dw, *db;
} linear_arrays;

static void linear_free(linear_arrays *a) {
    free(a->x), free(a->w), free(a->dy), free(a->dx), free(a->dw), free(a->db);
}

static linear_arrays linear_make(linear_case c) {
    linear_arrays a = {c,
                       array(c.n * c.in, 1),
                       array(c.out * c.in, 2),
                       array(c.n * c.out, 3),
                       c.wants_dx ? array(c.n * c.in, 4) : NULL,
                       array(c.out * c.in, 5),
                       c.bias ? array(c.out, 6) : NULL};
    if (!a.x || !a.w || !a.dy || !a.dw) gs_bug("out of memory");
    return a;
}

/* Calls the student's function on these arrays. */
static gs_status run(linear_arrays *a, bool dx) {
    linear_case c = a->c;
    return dx ? linear_dx(a->dx, a->dy, a->w, c.n, c.in, c.out)
              : linear_dw_db(a->dw, a->db, a->dy, a->x, c.n, c.in, c.out);
}

/* sum_{i,o} dy[i][o] y[i][o], after adding 1 to element `moved` of x (or w, or b, which is 0) */
static double scalar(const linear_arrays *a, const char *of, size_t moved) {
    const linear_case c = a->c;
    double sum = 0;
    for (size_t i = 0; i < c.n; i++)
        for (size_t o = 0; o < c.out; o++) {
            double y = *of == 'b' && moved == o;
            for (size_t k = 0; k < c.in; k++)
                y += ((double)a->x[i * c.in + k] + (*of == 'x' && moved == i * c.in + k)) *
                     ((double)a->w[o * c.in + k] + (*of == 'w' && moved == o * c.in + k));
            sum += (double)a->dy[i * c.out + o] * y;
        }
    return sum;
}

/* Is got[e] = before + d scalar / d (element e of `of`), for all e < count? */
static gs_status compare_linear(const linear_arrays *a, const char *of, const float *got, size_t count,
                                size_t columns, unsigned before_row) {
    double base = scalar(a, "", 0);
    for (size_t e = 0; e < count; e++) {
        double gradient = scalar(a, of, e) - base,
               before = before_row ? (double)lab_number(before_row, e) : 0;
        if (fabs((double)got[e] - (before + gradient)) <= 1e-4) continue;
        char held[60] = "";
        if (before_row) snprintf(held, sizeof held, " (it held %.6g before)", before);
        return gs_fail(GS_E_SHAPE, "x (%zu,%zu), w (%zu,%zu), %s: d%s[%zu][%zu] must be %.6g%s, got %.6g",
                       a->c.n, a->c.in, a->c.out, a->c.in, a->c.bias ? "bias" : "no bias", of, e / columns,
                       e % columns, before + gradient, held, (double)got[e]);
    }
    return GS_OK;
}

static const linear_case cases[] = {
    {1, 1, 1, true, true},   {1, 2, 1, true, true},  {2, 1, 1, true, true}, {1, 1, 2, true, true},
    {1, 2, 3, true, true},   {2, 3, 2, false, true}, {0, 4, 3, true, true}, {3, 5, 2, true, false},
    {7, 3, 1, false, false}, {7, 17, 6, true, true},
};

static gs_status check_case(linear_case c, bool dx) {
    linear_arrays a = linear_make(c);
    gs_status status = run(&a, dx);
    if (status == GS_OK && dx && c.wants_dx) status = compare_linear(&a, "x", a.dx, c.n * c.in, c.in, 0);
    if (status == GS_OK && !dx) status = compare_linear(&a, "w", a.dw, c.out * c.in, c.in, 5);
    if (status == GS_OK && !dx && c.bias) status = compare_linear(&a, "b", a.db, c.out, c.out, 6);
    linear_free(&a);
    return status;
}

static gs_mem on_cpu(float *floats) {
    return (gs_mem){.base = floats};
}

/* Against the library's operator, where difference quotients would take long. */
static gs_status check_large(gs_device *ours, bool dx) {
    const linear_case c = {size(SIZES, 0, 20, 30), size(SIZES, 1, 40, 50), size(SIZES, 2, 10, 20), true,
                           true};
    linear_arrays a = linear_make(c), b = linear_make(c);
    gs_status status = run(&a, dx);
    if (status == GS_OK)
        status = ours->ops->linear_backward(ours, on_cpu(b.dx), on_cpu(b.dw), on_cpu(b.db), on_cpu(b.dy),
                                            on_cpu(b.x), on_cpu(b.w), c.n, (int)c.in, (int)c.out, true, NULL);
    const float *got[] = {a.dx, a.dw, a.db}, *wanted[] = {b.dx, b.dw, b.db};
    const size_t count[] = {c.n * c.in, c.out * c.in, c.out};
    static const char *const names[] = {"dx", "dw", "db"};
    for (int k = dx ? 0 : 1; k < (dx ? 1 : 3) && status == GS_OK; k++)
        for (size_t e = 0; e < count[k] && status == GS_OK; e++)
            if (!(fabsf(got[k][e] - wanted[k][e]) <= 1e-3f))
                status = gs_fail(
                    GS_E_SHAPE, "x (%zu,%zu), w (%zu,%zu), bias: %s, element %zu must be %.6g, got %.6g", c.n,
                    c.in, c.out, c.in, names[k], e, (double)wanted[k][e], (double)got[k][e]);
    linear_free(&a);
    linear_free(&b);
    return status;
}

static gs_status check_linear(bool dx) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) GS_TRY(check_case(cases[i], dx));
    for (size_t i = 10; i < 40; i += 5)
        GS_TRY(check_case((linear_case){size(SIZES, i, 1, 8), size(SIZES, i + 1, 1, 12),
                                        size(SIZES, i + 2, 1, 9), lab_pick(SIZES, i + 3, 2) == 0,
                                        lab_pick(SIZES, i + 4, 4) > 0},
                          dx));
    gs_device *ours;
    gs_backend_replace(NULL);
    GS_TRY(gs_device_open("cpu", 1, &ours));
    gs_status status = check_large(ours, dx);
    gs_device_close(ours);
    return status;
}

static gs_status check_2_1(void) {
    return check_linear(true);
}

static gs_status check_2_2(void) {
    return check_linear(false);
}

/* ---- 2.3: softmax cross-entropy ---- */

static double loss_of(const double *x, size_t classes, int32_t label) {
    double sum = 1; /* exp(x[label] - x[label]) */
    for (size_t k = 0; k < classes; k++)
        if (k != (size_t)label) sum += exp(x[k] - x[label]);
    return log(sum);
}

static gs_status check_loss(size_t n, size_t classes, float scale) {
    enum { MOST = 64 };
    double x[MOST];
    int32_t *labels = malloc(n * sizeof *labels + (n == 0));
    float *p = array(n * classes, 1), *dx = array(n * classes, 2);
    if (!labels || !p || !dx) gs_bug("out of memory");
    for (size_t i = 0; i < n; i++) labels[i] = (int32_t)lab_pick(LABELS, i, classes);
    for (size_t e = 0; e < n * classes; e++) x[e] = (double)(scale * lab_number(7, e));
    for (size_t e = 0; e < n * classes; e++)
        p[e] = (float)exp(-loss_of(x + e / classes * classes, classes, (int32_t)(e % classes)));
    gs_status status = softmax_cross_entropy_dx(dx, p, labels, n, classes);
    for (size_t e = 0; e < n * classes && status == GS_OK; e++) {
        const double h = 1e-4, *row = x + e / classes * classes;
        double kept = x[e], up, down;
        int32_t label = labels[e / classes];
        x[e] = kept + h;
        up = loss_of(row, classes, label);
        x[e] = kept - h;
        down = loss_of(row, classes, label);
        x[e] = kept;
        double wanted = (up - down) / (2 * h);
        if (!(fabs((double)dx[e] - wanted) <= 1e-5))
            status =
                gs_fail(GS_E_SHAPE,
                        "x (%zu,%zu), sample %zu has label %d and p %s: dx[%zu][%zu] must be %.6g, got %.6g",
                        n, classes, e / classes, label, lab_floats(p + e / classes * classes, classes),
                        e / classes, e % classes, wanted, (double)dx[e]);
    }
    free(labels), free(p), free(dx);
    return status;
}

static gs_status check_2_3(void) {
    static const size_t sizes[][2] = {{1, 1}, {1, 2}, {2, 2}, {1, 5}, {3, 4}, {0, 3}, {6, 10}, {1, 33}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        GS_TRY(check_loss(sizes[i][0], sizes[i][1], 1));
        GS_TRY(check_loss(sizes[i][0], sizes[i][1], 20)); /* p close to 0 and to 1 */
    }
    for (size_t i = 50; i < 58; i += 2)
        GS_TRY(check_loss(size(SIZES, i, 1, 5), size(SIZES, i + 1, 2, 11), 3));
    return GS_OK;
}

/* ---- 2.4: finite differences ---- */

/* a + b x + c x^2 + d x^3 of the float that x points to, counting the calls */
typedef struct cubic {
    double a, b, c, d;
    float *x;
    int calls;
} cubic;

static double cubic_at(void *context) {
    cubic *f = context;
    double x = (double)*f->x;
    f->calls++;
    return f->a + x * (f->b + x * (f->c + x * f->d));
}

static gs_status check_difference(cubic f, float at, float h) {
    float x = at;
    f.x = &x;
    double got = lab_difference(cubic_at, &f, &x, h);
    /* (f(x+h) - f(x-h)) / (2 h) = f'(x) + d h^2; with points that are rounded to floats */
    const float up = at + h, down = at - h;
    double u = (double)up, l = (double)down;
    double wanted = f.b + f.c * (u + l) + f.d * (u * u + u * l + l * l);
    LAB_CHECK(memcmp(&x, &at, sizeof x) == 0, "x = %.9g, h = %g: x is %.9g afterwards, and must be restored",
              (double)at, (double)h, (double)x);
    LAB_CHECK(
        fabs(got - wanted) <= 1e-6 * (fabs(wanted) + 1),
        "f(x) = %g + %g x + %g x^2 + %g x^3 at x = %.9g, h = %g: the difference quotient is %.9g, got %.9g",
        f.a, f.b, f.c, f.d, (double)at, (double)h, wanted, got);
    LAB_CHECK(f.calls == 2, "f was called %d times; 2 are enough", f.calls);
    return GS_OK;
}

static gs_status check_2_4(void) {
    GS_TRY(check_difference((cubic){.b = 3}, 1, 0.5f));
    GS_TRY(check_difference((cubic){.a = 1, .c = 1}, 2, 0.25f));
    GS_TRY(check_difference((cubic){.a = -2, .b = 1, .c = -3, .d = 1}, -1, 0.125f));
    GS_TRY(check_difference((cubic){.a = 0.5, .b = 2}, 0.1f, 0.01f));
    GS_TRY(check_difference((cubic){.b = 3}, 0.001f, 1)); /* 0.001 - 1 is rounded, and + 1 does not undo it */
    GS_TRY(check_difference((cubic){.c = 1}, 1000,
                            0.001f)); /* 1000.001 is no float: its neighbour is 1000.00098 */
    for (size_t i = 0; i < 40; i += 5) {
        double a = (double)lab_number(8, i), b = (double)lab_number(8, i + 1),
               c = (double)lab_number(8, i + 2), d = (double)lab_number(8, i + 3);
        GS_TRY(check_difference((cubic){.a = a, .b = b, .c = c, .d = d}, 3 * lab_number(8, i + 4), 0.03f));
    }
    return GS_OK;
}

/* ---- 2.5: a network of them ---- */

typedef struct network {
    gs_model *model;
    gs_device *device;
    gs_pass pass;
    gs_mem x, labels;
} network;

/* The loss of the batch, in double, from the logits. */
static double network_loss(void *context) {
    enum { MOST = 64 };
    network *t = context;
    gs_mem logits;
    float y[MOST];
    double row[MOST], sum = 0;
    const size_t classes = (size_t)t->model->out.c;
    if (gs_model_forward(t->model, &t->pass, t->x, &logits) != GS_OK) return NAN;
    if (t->device->ops->read(t->device, y, logits, t->pass.n * classes * sizeof *y) != GS_OK) return NAN;
    for (size_t i = 0; i < t->pass.n; i++) {
        for (size_t k = 0; k < classes; k++) row[k] = (double)y[i * classes + k];
        sum += loss_of(row, classes, ((int32_t *)t->labels.base)[i]);
    }
    return sum;
}

/* Compares every gradient of backward with the student's own difference quotient. */
static gs_status check_network(network *t) {
    gs_mem logits;
    gs_model *m = t->model;
    GS_TRY(gs_model_clear_gradients(m));
    GS_TRY(gs_model_forward(m, &t->pass, t->x, &logits));
    GS_TRY(gs_model_loss(m, &t->pass, logits, t->labels));
    GS_TRY(gs_model_backward(m, &t->pass, logits, t->labels));
    for (int p = 0; p < m->param_count; p++)
        for (size_t i = 0; i < m->param[p]->count; i++) {
            size_t at = m->param[p]->at + i;
            float got = ((float *)m->gradients.base)[at];
            double wanted = lab_difference(network_loss, t, (float *)m->weights.base + at, 1 / 64.0f);
            LAB_CHECK(
                fabs((double)got - wanted) <= 2e-3,
                "\"%s\", %zu sample%s: the gradient of %s[%zu] is %.6g by your difference quotient, and %.6g "
                "by your backward",
                m->text, t->pass.n, gs_s(t->pass.n), m->param[p]->name, i, wanted, (double)got);
        }
    return GS_OK;
}

static gs_status check_whole_network(gs_device *d, const char *text, int inputs, int classes, size_t n) {
    network t = {.device = d, .pass = {.n = n, .training = true}};
    const size_t count = n * (size_t)inputs;
    const gs_model_config config = {.text = text, .in = {inputs, 1, 1, 0}, .max_batch = n, .seed = 1};
    GS_TRY(gs_model_create(d, &config, &t.model));
    gs_status status = d->ops->alloc(d, count * sizeof(float), &t.x);
    if (status == GS_OK) status = d->ops->alloc(d, n * sizeof(int32_t), &t.labels);
    if (status == GS_OK) {
        for (size_t i = 0; i < count; i++) ((float *)t.x.base)[i] = lab_number(9, i);
        for (size_t i = 0; i < n; i++)
            ((int32_t *)t.labels.base)[i] = (int32_t)lab_pick(LABELS, i, (size_t)classes);
        status = check_network(&t);
    }
    d->ops->free(d, t.x);
    d->ops->free(d, t.labels);
    gs_model_free(t.model);
    return status;
}

static gs_status check_networks(gs_device *d) {
    char text[100];
    size_t i = 0;
    int inputs = (int)size(NETWORKS, i++, 4, 5), a = (int)size(NETWORKS, i++, 4, 4),
        b = (int)size(NETWORKS, i++, 3, 4), classes = (int)size(NETWORKS, i++, 2, 4);
    GS_TRY(check_whole_network(d, "linear 5, tanh, linear 4 no_bias, sigmoid, linear 3", 6, 3, 3));
    snprintf(text, sizeof text, "linear %d no_bias, sigmoid, linear %d, tanh, linear %d", a, b, classes);
    return check_whole_network(d, text, inputs, classes, size(NETWORKS, i, 2, 4));
}

/* Two workers, two passes each before a sum: the passes must add to dw, and write dx. */
static gs_status check_training(void) {
    char model[100];
    gs_settings s = gs_settings_default();
    snprintf(model, sizeof model, "flatten, linear %zu, relu, linear %zu, relu, linear 10",
             size(NETWORKS, 10, 33, 32), size(NETWORKS, 11, 17, 16));
    s.model = model;
    s.devices = "cpu,cpu";
    s.batch = 64;
    s.accumulate = 2;
    s.steps = 20;
    s.threads = 1;
    return lab_compare_training(&s, 1e-3);
}

static gs_status check_2_5(void) {
    gs_device *d;
    GS_TRY(gs_device_open("cpu", 1, &d));
    gs_status status = check_networks(d);
    gs_device_close(d);
    return status == GS_OK ? check_training() : status;
}

const char *const lab_may_call[] = {"gs_fail", "gs_context", NULL};

const lab_task lab_tasks[] = {
    {"2.1", "linear backward: dx", 2, check_2_1,
     "x[i][k] reaches every output of sample i once, through w[o][k]: add up over o. Write dx, do not add to "
     "it; do nothing where it is NULL."},
    {"2.2", "linear backward: dw and db", 2, check_2_2,
     "Every sample uses w[o][k] once: add up over i, onto what dw already holds."},
    {"2.3", "softmax cross-entropy backward", 2, check_2_3,
     "-log p[label] = log(sum of exp x[j]) - x[label]: the derivative of the first part by x[k] is p[k]."},
    {"2.4", "finite differences", 2, check_2_4,
     "Store x + h in a float and read it back. Restore the number that you kept: x + h - h is not always x."},
    {"2.5", "a network with these operators", 2, check_2_5,
     "The network has several layers, two workers, and two passes before each sum. Do not clear dw or db: "
     "the second pass adds to them."},
    {0},
};
