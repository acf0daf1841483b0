/* Convolution with 3x3 kernels and stride 1 in fewer multiplications: Winograd's F(2x2, 3x3).
 *
 * Two neighbouring outputs of a kernel (g0 g1 g2) depend on four inputs and take six multiplications. With
 *
 *     m0 = (d0 - d2) g0                          y0 = d0 g0 + d1 g1 + d2 g2 = m0 + m1 + m2
 *     m1 = (d1 + d2) (g0 + g1 + g2) / 2          y1 = d1 g0 + d2 g1 + d3 g2 = m1 - m2 - m3
 *     m2 = (d2 - d1) (g0 - g1 + g2) / 2
 *     m3 = (d1 - d3) g2
 *
 * four are enough: the sums of g are computed once for all images, those of d once for all output channels. In two
 * dimensions, first along the columns and then along the rows, 2x2 outputs take 16 multiplications instead of 36:
 *
 *     v = B^T d B     each tile of 4x4 inputs d (tiles are 2 apart) becomes 16 numbers
 *     u = G g G^T     each kernel g becomes 16 numbers, too
 *     m = u v         element by element, summed over the input channels: for each of the 16 elements a product of a
 *                     matrix (out_c, in_c) and a matrix (in_c, tiles), computed by gs_product
 *     y = A^T m A     2x2 outputs per tile
 *
 * with the rows of B^T, G and A^T as in the formulas above. All elements of B^T and A^T are 0, 1 or -1, so rounding
 * errors grow only a little (unlike with larger tiles, which would save more multiplications).
 *
 * Source: Lavin, Gray, "Fast algorithms for convolutional neural networks" (CVPR 2016). */
#pragma once

#include "cpu/product.h"

/* y[o][r][s] = bias[o] + sum_{c,u,v} x[c][r + u - pad_h][s + v - pad_w] w[o][c][u][v], with relu: max(that, 0); x is 0
 * outside the image, out = in + 2 pad - 2, and u and v are 0, 1, 2. */
typedef struct gs_winograd {
    int in_c, in_h, in_w, out_c, out_h, out_w, pad_h, pad_w;
    size_t x_plane;    /* distance between planes of x, in floats */
    const float *u;    /* from `winograd_kernels` */
    const float *bias; /* out_c elements, or NULL */
    bool relu;
} gs_winograd;

/* dx is itself a convolution of dy, whose planes are dy_plane floats apart, with the kernels rotated by 180 degrees. */
static inline gs_winograd gs_winograd_dx(const gs_conv2d_sizes *s, size_t dy_plane) {
    return (gs_winograd){.in_c = s->out_c,
                         .in_h = s->out_h,
                         .in_w = s->out_w,
                         .out_c = s->in_c,
                         .out_h = s->in_h,
                         .out_w = s->in_w,
                         .pad_h = 2 - s->pad_h,
                         .pad_w = 2 - s->pad_w,
                         .x_plane = dy_plane};
}

/* The number of rows of tiles that share a vector. */
static inline int gs_winograd_share(int tiles) {
    return 4 * tiles <= GS_VECTOR ? 4 : 2 * tiles <= GS_VECTOR ? 2 : 1;
}

/* True if this algorithm is faster, that is, if sums are few compared with products, and most lanes are used. */
static inline bool gs_winograd_pays(const gs_conv2d_sizes *s) {
    int tiles = (s->out_w + 1) / 2, share = gs_winograd_share(tiles), lanes = GS_VECTOR / share;
    return s->kernel_h == 3 && s->kernel_w == 3 && s->stride_h == 1 && s->stride_w == 1 && s->pad_h <= 2 &&
           s->pad_w <= 2 && s->in_c >= 16 && s->out_c >= 16 &&
           4 * tiles >= 3 * ((tiles + lanes - 1) / lanes * lanes);
}

enum { GS_WINOGRAD_PLACES = 16 };

/* The number of floats of memory that gs_winograd needs. */
size_t GS_ISA(gs_cpu_winograd_memory)(const gs_winograd *);

/* Write the 16 out_c in_c floats of u, in the order in which gs_product reads each of the 16 matrices. The kernel from
 * channel c to channel o starts at w + o w_out + c w_in; if `turned`, it is rotated by 180 degrees. */
void GS_ISA(gs_cpu_winograd_kernels)(gs_device *, const gs_winograd *, float *u, const float *w, size_t w_out,
                                     size_t w_in, bool turned);

/* Image i of x starts at x + i x_image; y is (images, out_c, out_h, out_w). */
void GS_ISA(gs_cpu_winograd)(const gs_winograd *, float *y, const float *x, size_t x_image, size_t images,
                             float *memory);

/* ---- backward ----
 *
 * dx is itself such a convolution. dw follows from y = A^T (u v) A and u = G g G^T:
 *
 *     v = B^T d B       as in forward
 *     n = A dy A^T      2x2 elements of dy become 16
 *     du = n v          element by element, summed over all tiles: for each of the 16 elements a product of a matrix
 *                       (out_c, tiles) and a matrix (tiles, in_c)
 *     dg = G^T du G     once, at the end
 *
 * The lanes of a vector are channels: both channel counts are multiples of GS_VECTOR. */

/* False with a bias or a fused operator, because these would need another pass over dy. */
static inline bool gs_winograd_backward_pays(const gs_conv2d_sizes *s, bool bias, const gs_epilogue *e) {
    return !bias && !e->relu && !e->pool && gs_winograd_pays(s) && s->in_c % GS_VECTOR == 0 &&
           s->out_c % GS_VECTOR == 0;
}

/* conv2d_backward (backend.h) without db; the result is added to dw. n > 0; dx may be NULL. */
gs_status GS_ISA(gs_cpu_winograd_backward)(gs_device *d, float *dx, float *dw, const float *dy,
                                           const float *x, const float *w, size_t n,
                                           const gs_conv2d_sizes *s);
