/* What arithmetic on OpenCL's `half` would bring, and why kernels compute in f32: a product of matrices in the ways that
 * a device with cl_khr_fp16 has. In memory lie halves in all ways but the first.
 *
 *     bench-half [DEVICE]      such as cl:1.0; default: cl
 *
 * `small` is the relative error where a has gradients' sizes, 1e-4: their products leave the range of a half. A figure is
 * the fastest of some turns, which all ways take one after the other.
 */
#include "cl/cl.h"
#include "cpu/round16.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/normal.h"
#include "core/philox.h"

enum { N = 512, ROWS = 8, COLUMNS = 32 /* of an item */, TURNS = 10, WAYS = 6 };

static const struct {
    const char *name, *defines;
} ways[WAYS] = {
    {"f32, sums in f32", "#define FLOATS\n"},
    {"half, products and sums in f32", "#define NUMBERS\n"},
    {"half, products in half, sums in f32", "#define RUN 1\n"},
    {"half, sums of 4 products in half", "#define RUN 4\n"},
    {"half, sums of 16 products in half", "#define RUN 16\n"},
    {"half, sums of 64 products in half", "#define RUN 64\n"},
};

/* c = a b; an item has 8 rows of 32 columns. */
static const char source[] =
    "#ifdef FLOATS\n"
    "typedef float stored;\n"
    "#define load(from) vload16(0, from)\n"
    "#define number(from) (*(from))\n"
    "#else\n"
    "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
    "typedef half stored;\n"
    "#define load(from) vload_half16(0, from)\n"
    "#define number(from) vload_half(0, from)\n"
    "#endif\n"
    "kernel void product(global const stored *a, global const stored *b, global float *c, int n) {\n"
    "    const int i = get_global_id(1) * 8, j = get_global_id(0) * 32;\n"
    "    float16 sum[8][2];\n"
    "    for (int r = 0; r < 8; r++) sum[r][0] = sum[r][1] = 0;\n"
    "#ifdef RUN\n"
    "    for (int k = 0; k < n; k += RUN) {\n"
    "        half16 part[8][2];\n"
    "        for (int r = 0; r < 8; r++) part[r][0] = part[r][1] = 0;\n"
    "        for (int q = k; q < k + RUN; q++) {\n"
    "            const half16 y0 = vload16(0, b + q * n + j), y1 = vload16(1, b + q * n + j);\n"
    "            for (int r = 0; r < 8; r++) {\n"
    "                const half16 x = a[(i + r) * n + q];\n"
    "                part[r][0] = RUN == 1 ? x * y0 : fma(x, y0, part[r][0]);\n"
    "                part[r][1] = RUN == 1 ? x * y1 : fma(x, y1, part[r][1]);\n"
    "            }\n"
    "        }\n"
    "        for (int r = 0; r < 8; r++)\n"
    "            for (int v = 0; v < 2; v++) sum[r][v] += convert_float16(part[r][v]);\n"
    "    }\n"
    "#else\n"
    "    for (int k = 0; k < n; k++) {\n"
    "        const float16 y0 = load(b + k * n + j), y1 = load(b + k * n + j + 16);\n"
    "        for (int r = 0; r < 8; r++) {\n"
    "            const float16 x = number(a + (i + r) * n + k);\n"
    "            sum[r][0] = fma(x, y0, sum[r][0]);\n"
    "            sum[r][1] = fma(x, y1, sum[r][1]);\n"
    "        }\n"
    "    }\n"
    "#endif\n"
    "    for (int r = 0; r < 8; r++)\n"
    "        for (int v = 0; v < 2; v++) vstore16(sum[r][v], v, c + (i + r) * n + j);\n"
    "}\n"
    "kernel void store(global const float *x, global stored *to) {\n"
    "    const size_t i = get_global_id(0);\n"
    "#ifdef FLOATS\n"
    "    to[i] = x[i];\n"
    "#else\n"
    "    vstore_half_rte(x[i], i, to);\n"
    "#endif\n"
    "}\n";

enum { COUNT = N * N };
static float a[2][COUNT], b[COUNT], c[COUNT]; /* a[1]: small */
static double wanted[2][COUNT];

static void check(cl_int error, const char *what) {
    if (error == CL_SUCCESS) return;
    fprintf(stderr, "bench-half: %s: %s\n", what, gs_cl_error_name(error));
    exit(1);
}

/* Numbers that f16 has: then all ways multiply the same. */
static void draw(void) {
    for (int i = 0; i < COUNT; i++) {
        uint32_t word[4];
        gs_philox(1, 0, (uint64_t)i, word);
        a[0][i] = gs_round_f16(gs_normal(word[0]));
        a[1][i] = gs_round_f16(1e-4f * gs_normal(word[1]));
        b[i] = gs_round_f16(0.05f * gs_normal(word[2])); /* as weights of a layer of 400 inputs */
    }
    for (int size = 0; size < 2; size++)
        for (int i = 0; i < N; i++)
            for (int k = 0; k < N; k++)
                for (int j = 0; j < N; j++)
                    wanted[size][i * N + j] += (double)a[size][i * N + k] * (double)b[k * N + j];
}

typedef struct way {
    cl_kernel product, store;
    double best, error[2]; /* seconds; relative */
} way;

static void build(const gs_cl *cl, int number, way *w) {
    char text[sizeof source + 40];
    cl_program program;
    cl_int error;
    snprintf(text, sizeof text, "%s%s", ways[number].defines, source);
    if (gs_cl_build(cl, "bench_half", text, &program) != GS_OK) {
        fprintf(stderr, "bench-half: %s\n", gs_message());
        exit(1);
    }
    w->product = clCreateKernel(program, "product", &error);
    check(error, "clCreateKernel(product)");
    w->store = clCreateKernel(program, "store", &error);
    check(error, "clCreateKernel(store)");
    check(clReleaseProgram(program), "clReleaseProgram");
}

static cl_mem memory(const gs_cl *cl, const float *x) {
    cl_int error;
    cl_mem mem = clCreateBuffer(cl->context, CL_MEM_READ_WRITE | (x ? CL_MEM_COPY_HOST_PTR : 0),
                                COUNT * sizeof(float), (void *)(uintptr_t)x, &error);
    check(error, "clCreateBuffer");
    return mem;
}

static void put(const gs_cl *cl, const way *w, const float *x, cl_mem to) {
    const size_t count = COUNT;
    cl_mem from = memory(cl, x);
    check(clSetKernelArg(w->store, 0, sizeof from, &from), "clSetKernelArg");
    check(clSetKernelArg(w->store, 1, sizeof to, &to), "clSetKernelArg");
    check(clEnqueueNDRangeKernel(cl->queue, w->store, 1, NULL, &count, NULL, 0, NULL, NULL), "store");
    check(clFinish(cl->queue), "clFinish");
    check(clReleaseMemObject(from), "clReleaseMemObject");
}

/* Seconds of one product, which is in c then. */
static double multiply(const gs_cl *cl, const way *w, cl_mem a_, cl_mem b_, cl_mem c_) {
    const size_t items[2] = {N / COLUMNS, N / ROWS}, group[2] = {4, 4};
    const cl_int n = N;
    check(clSetKernelArg(w->product, 0, sizeof a_, &a_), "clSetKernelArg");
    check(clSetKernelArg(w->product, 1, sizeof b_, &b_), "clSetKernelArg");
    check(clSetKernelArg(w->product, 2, sizeof c_, &c_), "clSetKernelArg");
    check(clSetKernelArg(w->product, 3, sizeof n, &n), "clSetKernelArg");
    const double start = gs_seconds();
    check(clEnqueueNDRangeKernel(cl->queue, w->product, 2, NULL, items, group, 0, NULL, NULL), "product");
    check(clFinish(cl->queue), "clFinish");
    const double seconds = gs_seconds() - start;
    check(clEnqueueReadBuffer(cl->queue, c_, CL_TRUE, 0, sizeof c, c, 0, NULL, NULL), "clEnqueueReadBuffer");
    return seconds;
}

static double error_of_c(const double *of) {
    double difference = 0, size = 0;
    for (int i = 0; i < COUNT; i++) {
        difference += pow((double)c[i] - of[i], 2);
        size += of[i] * of[i];
    }
    return sqrt(difference / size);
}

static bool has_half(const gs_cl *cl) {
    char text[8192] = "";
    check(clGetDeviceInfo(cl->id, CL_DEVICE_EXTENSIONS, sizeof text - 1, text, NULL), "clGetDeviceInfo");
    return strstr(text, "cl_khr_fp16") != NULL;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "cl";
    gs_device *d;
    way w[WAYS] = {0};
    if (gs_device_open(name, 1, &d) != GS_OK) {
        fprintf(stderr, "bench-half: %s\n", gs_message());
        return 1;
    }
    const gs_cl *cl = gs_cl_of(d);
    printf("%s\n", cl->identity);
    if (!has_half(cl)) {
        printf("It has no cl_khr_fp16: there is no arithmetic in half to measure.\n");
        gs_device_close(d);
        return 0;
    }
    draw();
    for (int i = 0; i < WAYS; i++) build(cl, i, &w[i]);
    cl_mem at[3] = {memory(cl, NULL), memory(cl, NULL), memory(cl, NULL)};
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < WAYS; i++) {
            put(cl, &w[i], a[turn % 2], at[0]);
            put(cl, &w[i], b, at[1]);
            const double seconds = multiply(cl, &w[i], at[0], at[1], at[2]);
            if (turn == 0 || seconds < w[i].best) w[i].best = seconds;
            if (turn < 2) w[i].error[turn] = error_of_c(wanted[turn]);
        }
    printf("%-36s %10s %10s %10s\n", "product of 512 x 512 matrices", "to f32", "error", "small");
    for (int i = 0; i < WAYS; i++) {
        printf("%-36s %9.2fx %10.1e %10.1e\n", ways[i].name, w[0].best / w[i].best, w[i].error[0],
               w[i].error[1]);
        clReleaseKernel(w[i].product), clReleaseKernel(w[i].store);
    }
    for (int i = 0; i < 3; i++) clReleaseMemObject(at[i]);
    gs_device_close(d);
    return 0;
}
