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

/* y[o][r][s] = bias[o] + sum_{c,u,v} x[c][r + u - pad_h][s + v - pad_w] w[o][c][u][v], with relu: max(that, 0) */
typedef struct gs_winograd {
    gs_conv2d_sizes s; /* for dx: gs_winograd_back's */
    size_t x_plane;    /* distance between planes of x, in floats */
    const float *u;    /* from `winograd_kernels` */
    const float *bias; /* out_c elements, or NULL */
    bool relu;
} gs_winograd;

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

/* The number of floats of memory that gs_cpu_winograd_dw needs, and what to do with it before the first call. */
size_t GS_ISA(gs_cpu_winograd_dw_memory)(const gs_conv2d_sizes *);
void GS_ISA(gs_cpu_winograd_dw_begin)(const gs_conv2d_sizes *, float *memory);

/* du += the products of some images, which are whole blocks (gs_winograd_order) or a chunk's last; du is (16, out_c,
 * in_c). x is contiguous; image i of dy starts at dy + i dy_image, and its planes are dy_plane floats apart. */
void GS_ISA(gs_cpu_winograd_dw)(const gs_conv2d_sizes *, float *du, const float *x, const float *dy,
                                size_t dy_plane, size_t dy_image, size_t images, float *memory);

/* dw for GS_VECTOR pairs of channels (o, c) += the sum of all chunks' du, transformed. A chunk's du is (16, pairs), and
 * `chunk` floats after the one before it. */
void GS_ISA(gs_cpu_winograd_dw_finish)(float *dw, const float *du, size_t pairs, size_t chunks, size_t chunk);
