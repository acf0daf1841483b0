/* A trainer of one's own: gradsum's command line with the parts that a student has solved (mine.sh, `make mine`).
 *
 * Each lab is one object: lab.c and the lab's given.c, which puts its functions into the framework. From outside only
 * lab_install is seen, under a name of its own, and what takes the place of a library function (gs_...). So labs cannot
 * collide by accident. Labs without lab_install replace library functions by their names alone.
 *
 * MINE_LABS="02 07": the parts of these labs are installed. Without it: all parts except 13 and 19, which replace the
 * whole step and refuse most options. */
#include "lab.h"

#include <stdlib.h>
#include <string.h>
#include "cl/cl.h"

int lab_gradsum_main(int argc, char **argv); /* the main of src/cli/main.c, renamed */

gs_status lab_blank(const char *task) {
    return gs_fail(GS_E_USAGE, "not written yet: task %s", task);
}

/* ---- several labs change the table of operators: --wrap=gs_backend_replace ---- */

enum { EDITS = 8 };
static void (*edits[EDITS])(gs_backend *);

static void edit_all(gs_backend *table) {
    for (int i = 0; i < EDITS && edits[i]; i++) edits[i](table);
}

void __real_gs_backend_replace(void (*edit)(gs_backend *));
void __wrap_gs_backend_replace(void (*edit)(gs_backend *));

void __wrap_gs_backend_replace(void (*edit)(gs_backend *)) {
    for (int i = 0; i < EDITS && edit; i++)
        if (!edits[i]) {
            edits[i] = edit;
            edit = NULL;
        }
    __real_gs_backend_replace(edit_all);
}

/* ---- lab 4: dx of a linear layer on an OpenCL device is the product dy w: --wrap=gs_cl_open ---- */

gs_status lab_product(gs_device *, int rung, gs_mem c, gs_mem a, gs_mem b, size_t m, size_t n, size_t k)
    __attribute__((weak));
gs_status __real_gs_cl_open(gs_device *);
gs_status __wrap_gs_cl_open(gs_device *);

static bool kernels; /* lab 4 is installed */
static const gs_backend *library;
static gs_backend edited;

/* The student's kernel meets whole buffers; these are places in one. */
static gs_status product(gs_device *d, gs_mem dx, gs_mem dy, gs_mem w, size_t n, size_t in, size_t out) {
    enum { VECTOR = 3 /* the kernel of task 4.4 */ };
    gs_mem c = GS_NONE, a = GS_NONE, b = GS_NONE;
    gs_status status = d->ops->alloc(d, n * in * sizeof(float), &c);
    if (status == GS_OK) status = d->ops->alloc(d, n * out * sizeof(float), &a);
    if (status == GS_OK) status = d->ops->alloc(d, out * in * sizeof(float), &b);
    if (status == GS_OK) status = d->ops->copy(d, a, dy, n * out);
    if (status == GS_OK) status = d->ops->copy(d, b, w, out * in);
    if (status == GS_OK) status = lab_product(d, VECTOR, c, a, b, n, in, out);
    if (status == GS_OK) status = d->ops->copy(d, dx, c, n * in);
    d->ops->free(d, c);
    d->ops->free(d, a);
    d->ops->free(d, b);
    return status;
}

static gs_status linear_backward(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x, gs_mem w,
                                 size_t n, int in, int out, bool add, const gs_epilogue *then) {
    const bool ours = dx.base && !d->dry && d->precision == GS_PRECISION_F32;
    if (ours) GS_TRY(product(d, dx, dy, w, n, (size_t)in, (size_t)out));
    return library->linear_backward(d, ours ? GS_NONE : dx, dw, db, dy, x, w, n, in, out, add, then);
}

static bool fuses_nothing(gs_device *d, const gs_epilogue *e) {
    (void)d, (void)e;
    return false;
}

gs_status __wrap_gs_cl_open(gs_device *d) {
    GS_TRY(__real_gs_cl_open(d));
    if (!kernels) return GS_OK;
    library = d->ops;
    edited = *library;
    edited.linear_backward = linear_backward;
    edited.fuses = fuses_nothing;
    d->ops = &edited;
    return GS_OK;
}

#if !defined(MINE_KERNELS)
#define MINE_KERNELS "build/mine/cl" /* the Makefile knows better */
#endif
static void install_kernels(void) {
    kernels = lab_product != NULL;
    if (kernels) setenv("GRADSUM_KERNELS", MINE_KERNELS, 0);
}

/* ---- all labs ---- */

#define INSTALL(lab) void lab_install_##lab(void) __attribute__((weak));
#define ROW(lab) {#lab, lab_install_##lab},
#define LABS(X) X(00) X(02) X(03) X(06) X(07) X(08) X(13) X(14) X(16) X(17) X(18) X(19) X(20)

LABS(INSTALL)

static const struct {
    const char *lab;
    void (*install)(void);
} parts[] = {LABS(ROW){"04", install_kernels}};

int main(int argc, char **argv) {
    const char *wanted = getenv("MINE_LABS");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const bool whole_step = strcmp(parts[i].lab, "13") == 0 || strcmp(parts[i].lab, "19") == 0;
        if (parts[i].install && (wanted ? strstr(wanted, parts[i].lab) != NULL : !whole_step))
            parts[i].install();
    }
    return lab_gradsum_main(argc, argv);
}
