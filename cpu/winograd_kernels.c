/* u = G g G^T of each kernel g: see winograd.h. */
#include "cpu/winograd.h"

static void by_g(float *u, int step, float g0, float g1, float g2) {
    u[0] = g0;
    u[step] = (g0 + g1 + g2) / 2;
    u[2 * step] = (g0 - g1 + g2) / 2;
    u[3 * step] = g2;
}

void GS_ISA(winograd_kernels)(const gs_winograd *t, float *to, const float *w, size_t w_out, size_t w_in,
                              bool turned) {
    size_t matrix = (size_t)t->out_c * (size_t)t->in_c;
    for (int block = 0; block < t->out_c; block += GS_TILE_ROWS) {
        int rows = t->out_c - block < GS_TILE_ROWS ? t->out_c - block : GS_TILE_ROWS;
        for (int c = 0; c < t->in_c; c++)
            for (int r = 0; r < rows; r++, to++) {
                const float *kernel = w + (size_t)(block + r) * w_out + (size_t)c * w_in;
                float g[9], half[4 * 3], u[GS_WINOGRAD_PLACES];
                for (int i = 0; i < 9; i++) g[i] = kernel[turned ? 8 - i : i];
                for (int v = 0; v < 3; v++) by_g(half + v, 3, g[v], g[3 + v], g[6 + v]);
                for (int i = 0; i < 4; i++) by_g(u + 4 * i, 1, half[3 * i], half[3 * i + 1], half[3 * i + 2]);
                for (int i = 0; i < GS_WINOGRAD_PLACES; i++) to[(size_t)i * matrix] = u[i];
            }
    }
}
