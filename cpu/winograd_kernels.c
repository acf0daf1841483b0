/* u = G g G^T for each kernel g: see winograd.h. GS_TILE_ROWS channels of y at a time: they are adjacent in u. */
#include "cpu/winograd.h"

typedef float side[GS_TILE_ROWS]; /* one number per channel */

static inline void by_g(side *u, int step, const float *g0, const float *g1, const float *g2) {
    for (int r = 0; r < GS_TILE_ROWS; r++) {
        u[0][r] = g0[r];
        u[step][r] = (g0[r] + g1[r] + g2[r]) / 2;
        u[2 * step][r] = (g0[r] - g1[r] + g2[r]) / 2;
        u[3 * step][r] = g2[r];
    }
}

typedef struct kernels_work {
    const gs_winograd *t;
    float *to;
    const float *w;
    size_t w_out, w_in;
    bool turned;
    int parts;
} kernels_work;

/* Transform the kernels from channel c to `rows` channels, starting at channel `first`. */
static inline void some_kernels(const kernels_work *k, float *to, int first, int rows, int c) {
    const size_t matrix = (size_t)k->t->s.out_c * (size_t)k->t->s.in_c;
    const float *from = k->w + (size_t)first * k->w_out + (size_t)c * k->w_in;
    side g[9] = {{0}}, half[4 * 3], u[GS_WINOGRAD_PLACES];
    for (int r = 0; r < rows; r++, from += k->w_out)
        for (int i = 0; i < 9; i++) g[i][r] = from[k->turned ? 8 - i : i];
    for (int v = 0; v < 3; v++) by_g(half + v, 3, g[v], g[3 + v], g[6 + v]);
    for (int i = 0; i < 4; i++) by_g(u + 4 * i, 1, half[3 * i], half[3 * i + 1], half[3 * i + 2]);
    for (int i = 0; i < GS_WINOGRAD_PLACES; i++, to += matrix)
        for (int r = 0; r < rows; r++) to[r] = u[i][r];
}

static void kernels_part(void *context, int part) {
    const kernels_work *k = context;
    const int in_c = k->t->s.in_c, out_c = k->t->s.out_c, blocks = (out_c + GS_TILE_ROWS - 1) / GS_TILE_ROWS;
    const int end = (int)((int64_t)blocks * (part + 1) / k->parts) * GS_TILE_ROWS;
    for (int o = (int)((int64_t)blocks * part / k->parts) * GS_TILE_ROWS; o < end; o += GS_TILE_ROWS) {
        float *to = k->to + (size_t)o * (size_t)in_c;
        if (out_c - o >= GS_TILE_ROWS)
            for (int c = 0; c < in_c; c++, to += GS_TILE_ROWS) some_kernels(k, to, o, GS_TILE_ROWS, c);
        else
            for (int c = 0; c < in_c; c++, to += out_c - o) some_kernels(k, to, o, out_c - o, c);
    }
}

void GS_ISA(gs_cpu_winograd_kernels)(gs_device *d, const gs_winograd *t, float *to, const float *w,
                                     size_t w_out, size_t w_in, bool turned) {
    kernels_work k = {t, to, w, w_out, w_in, turned, 1};
    k.parts = gs_cpu_parts(d, (size_t)t->s.out_c * (size_t)t->s.in_c, 1 << 8);
    gs_pool_run(gs_cpu_of(d)->pool, k.parts, kernels_part, &k);
}
