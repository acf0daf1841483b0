/* A backend: a table of functions between the framework and one kind of device.
 *
 * cpu/ (OpenBLAS and C) and cl/ (OpenCL) fill every slot, except that a slot may be NULL if its comment says so. Code
 * above the table does not know which backend it uses. All arrays are f32 in row-major order. A batch of images is (n,
 * c, h, w); a batch of vectors is (n, k).
 *
 * - If device->precision is bf16 or f16, linear_*, conv2d_* and attention_* (except attention_cached_forward) round
 *   every factor: x, w and dy, and p and ds inside attention. They round to nearest, ties to even. NaN stays NaN; in
 *   bf16, magnitudes below 2^-126 become 0. Sums, biases and results stay f32. The result is that of the f32 operators
 *   for rounded x, w and dy. Other operators round only the x saved for backward: batch_norm_sums, batch_norm_backward,
 *   layer_norm_backward and the GS_ELEMENT_WISE operators that read x; attention_backward rounds y. An x or y that is
 *   already rounded may be stored in 16 bits (`narrow`).
 * - If `narrow` is not NULL, x, y, dx and dy may be stored in 16 bits (gs_mem.half); results are rounded. linear_*,
 *   conv2d_* and attention_* allow it for x and dx, for y and dy, or for all four; dx may always be f32. embedding_*
 *   allow it for y and dy. batch_norm_*, layer_norm_*, GS_ELEMENT_WISE, positions_*, max_pool2d_*, avg_pool2d_*,
 *   dropout and add allow it for all of them or none. The y of a relu, even in an epilogue, holds -0 for 0 (`narrow`).
 * - Each operator accepts any n >= 0; for n = 0 it does nothing.
 * - A forward writes y. A backward belongs to the forward above it and *writes* dx. With `add` it *adds* to dw and db,
 *   so that a step may run in several micro-batches. Without `add`, as in the first micro-batch, it *writes* dw and db
 *   (zeros if n is 0), so they need not be cleared. Gradients are sums over the batch, never means: sgd_update divides
 *   once, by the global number of samples.
 * - dx may be GS_NONE if it is not needed, as in the first layer; b and db may be GS_NONE for a layer without bias.
 * - Only one thread at a time may use a device. Calls may return before the work is done (OpenCL enqueues it); read,
 *   read_end, map, finish and squares wait. Work is executed in the order of the calls.
 * - Functions return GS_OK, GS_E_MEMORY, or GS_E_OPENCL with the call's name and OpenCL's symbolic error. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/error.h"
#include "device.h"
#include "operands.h"

/* The tail of the gradient array: floats summed over the workers like the gradients. The loss operators add to the
 * first three. The fourth counts the workers that were asked to stop (train/step.c), so that all stop together. */
enum { GS_STAT_LOSS = 0, GS_STAT_CORRECT = 1, GS_STAT_SAMPLES = 2, GS_STAT_STOP = 3, GS_STATS = 4 };

/* Element-wise operators, one row each: X(of, name, forward, backward, the array that backward reads besides dy, help);
 * WITH(..., parameter, help) for operators whose last argument is a float parameter; or OWN(...) for operators whose
 * layer layer/activations.c defines by hand. y may be x, and dx may be dy. The slots of gs_backend, the lists in
 * operators.h, the host side of the kernels (cl/element_wise.c), the layers, the words of model texts and the tests
 * expand this table; `of` is free for their use. A row's functions are in cpu/NAME.c, cl/NAME.cl and cpu/plain/.
 *
 *     relu       y = max(x, 0);  dx = dy where y > 0, else 0
 *     tanh       y = tanh(x);  dx = dy (1 - y^2)
 *     sigmoid    y = 1 / (1 + exp(-x));  dx = dy y (1 - y)
 *     gelu       y = x Phi(x), Phi the normal distribution (Hendrycks, Gimpel, 2016);
 *                dx = dy (Phi(x) + x phi(x)), phi(x) = exp(-x^2/2) / sqrt(2 pi)
 *     gelu_tanh  GPT-2's gelu: y = x s, s = (1 + tanh(u)) / 2, u = sqrt(2/pi) (x + 0.044715 x^3);
 *                dx = dy (s + 2 x s (1 - s) du/dx)
 *     silu       also known as swish: y = x s, s = 1 / (1 + exp(-x));  dx = dy s (1 + x (1 - s))
 *     softplus   y = log(1 + exp(beta x)) / beta;  dx = dy / (1 + exp(-beta x))
 */
/* clang-format off */
#define GS_ELEMENT_WISE_ROWS(X, WITH, OWN, of) \
    OWN(of, relu, relu_forward, relu_backward, y, ) \
    X(of, tanh, tanh_forward, tanh_backward, y, "tanh(x)") \
    X(of, sigmoid, sigmoid_forward, sigmoid_backward, y, "1 / (1 + exp(-x))") \
    OWN(of, gelu, gelu_forward, gelu_backward, x, ) \
    OWN(of, gelu_tanh, gelu_tanh_forward, gelu_tanh_backward, x, ) \
    X(of, silu, silu_forward, silu_backward, x, "x / (1 + exp(-x))") \
    WITH(of, softplus, softplus_forward, softplus_backward, x, BETA, "log(1 + exp(BETA x)) / BETA")
/* clang-format on */
#define GS_ELEMENT_WISE(X, WITH, of) GS_ELEMENT_WISE_ROWS(X, WITH, X, of)

typedef struct gs_backend {
    const char *name; /* "cpu" or "cl" */

    /* ---- memory ---- */

    /* Reserve `bytes` (at least 1), filled with zeros. The ledger counts them under the current kind (see gs_alloc). */
    gs_status (*alloc)(gs_device *, size_t bytes, gs_mem *out);
    void (*free)(gs_device *, gs_mem); /* GS_NONE is allowed */
    /* Copy from the host. After write returns, the caller may change `from`. */
    gs_status (*write)(gs_device *, gs_mem to, const void *from, size_t bytes);
    /* Host memory as a gs_mem that operators can read (and write, if alloc_offloaded made it). It must stay valid until
     * they are done. NULL: the device cannot do this, or its operators still run after their calls return. */
    gs_mem (*host_memory)(const void *host);
    /* Copy to the host, after all earlier work; wait for the copy. */
    gs_status (*read)(gs_device *, void *to, gs_mem from, size_t bytes);
    /* The same in two calls, so that the device can work in between. It reads the results of work before read_begin;
     * later work need not wait for the host. When read_end returns, the data are there. One read at a time. */
    gs_status (*read_begin)(gs_device *, void *to, gs_mem from, size_t bytes);
    gs_status (*read_end)(gs_device *);
    /* Make device memory visible to the host for reading and writing, after all earlier work. Nothing is copied if
     * device and host share memory. The device must not touch the memory until unmap. */
    gs_status (*map)(gs_device *, gs_mem, size_t bytes, void **host);
    gs_status (*unmap)(gs_device *, gs_mem, void *host);
    /* x[i] = value, i < count */
    gs_status (*fill)(gs_device *, gs_mem x, float value, size_t count);
    /* to[i] = from[i], i < count; `to` and `from` must not overlap */
    gs_status (*copy)(gs_device *, gs_mem to, gs_mem from, size_t count);
    /* Wait until all work is done. */
    gs_status (*finish)(gs_device *);

    /* ---- offloaded memory: device->offload ---- */

    /* Reserve `bytes` (at least 1), filled with zeros, outside the device's memory: in a mapped file (cpu; io/mapped.h)
     * or in host memory (cl). The ledger counts them as offloaded, under the current kind: see gs_alloc_offloaded.
     * Until `settle`, only fetch and offload may use this memory. */
    gs_status (*alloc_offloaded)(gs_device *, size_t bytes, void **host);
    void (*free_offloaded)(gs_device *, void *host); /* NULL is allowed */
    /* Start copying `bytes` bytes into the device memory `to`, once the work enqueued before this call is done. With
     * host_memory, operators work on `host` itself and `to` is ignored; fetch and offload then only hint when its pages
     * should be in memory. *number identifies this call for await; later calls have higher numbers and finish later. */
    gs_status (*fetch)(gs_device *, gs_mem to, void *host, size_t bytes, uint64_t *number);
    /* Operators called from now on wait for copy `number` (0: for none). device->offload_times counts the wait. */
    gs_status (*await)(gs_device *, uint64_t number);
    /* Start writing `from` back to `host`, once the work enqueued before this call is done. A later fetch into `from`
     * waits for it. *number: as in fetch; may be NULL. */
    gs_status (*offload)(gs_device *, void *host, gs_mem from, size_t bytes, uint64_t *number);
    /* Wait until everything is fetched and written back. Then device->offload_times is up to date. */
    gs_status (*settle)(gs_device *);

    /* Close the device and free its own memory; all that was allocated on it must have been freed before. */
    void (*close)(gs_device *);

    /* ---- from data to tensors ---- */

    /* y[i] = scale[c] * bytes[i] + shift[c], i < count, where c is the channel of i: floor(i / plane) modulo channels.
     * `bytes` is a whole allocation (its `at` is 0) of uint8. */
    gs_status (*bytes_to_float)(gs_device *, gs_mem y, gs_mem bytes, const gs_byte_scale *, size_t count);
    /* y[i][k] = (labels[i] == k); y is (n, classes), labels are n int32 */
    gs_status (*one_hot)(gs_device *, gs_mem y, gs_mem labels, size_t n, int classes);

    /* ---- 16-bit numbers ---- */

    /* to = x, rounded to device->precision, which is not f32; two numbers in each element. Operators that round x or y
     * (see above) accept `to` and give the same bits as for x itself. The caller sets to.half. `relu`: x is the y of a
     * relu. Then a 0 becomes -0, so that a positive y that rounds to +0 still lets dy pass in the backward of the relu
     * or the epilogue. NULL: this backend keeps f32. */
    gs_status (*narrow)(gs_device *, gs_mem to, gs_mem x, size_t count, bool relu);

    /* ---- layers ---- */

    /* y[i][o] = b[o] + sum_k x[i][k] w[o][k];  x (n, in), w (out, in), b (out), y (n, out). `then`: gs_epilogue */
    gs_status (*linear_forward)(gs_device *, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n, int in,
                                int out, const gs_epilogue *then);
    /* dx = dy w;  dw (+)= dy^T x;  db[o] (+)= sum_i dy[i][o];  (+)= means += with `add`, else = */
    gs_status (*linear_backward)(gs_device *, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x, gs_mem w,
                                 size_t n, int in, int out, bool add, const gs_epilogue *then);

    /* linear_* with the long sums cut into `leaves`, so that workers that divide the layer compute the same bits as one
     * worker (parallel/tensor.h). cpu uses one thread; cl supports f32 only.
     *
     * y = x w^T: the sum over the inputs is cut into `leaves` parts, a power of two. Part i begins at input floor(i in
     * / leaves). Each part is summed as linear_forward would, and the parts are summed in a binary tree, neighbours
     * first. */
    gs_status (*linear_tree_forward)(gs_device *, gs_mem y, gs_mem x, gs_mem w, size_t n, int in, int out,
                                     int leaves);
    /* dx = dy w: the sum over the outputs is also cut into leaves. The outputs form `blocks` equal consecutive blocks,
     * and a leaf holds its part of each block. With a share, the outputs are one rank's, and the share tells where its
     * leaves begin. dw and db are those of linear_backward. */
    gs_status (*linear_tree_backward)(gs_device *, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                      gs_mem w, size_t n, int in, int out, bool add, int leaves, int blocks,
                                      const gs_share *);

    /* y[i][o][r][s] = b[o] + sum_{c,u,v} x[i][first + c][r stride_h + u dilation_h - pad_h]
     * [s stride_w + v dilation_w - pad_w] w[o][c][u][v], where x outside the image is 0; c < in_c / groups, and `first`
     * is the first channel of o's group: floor(o / (out_c / groups)) in_c / groups */
    gs_status (*conv2d_forward)(gs_device *, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                                const gs_conv2d_sizes *, const gs_epilogue *then);
    /* dw[o][c][u][v] (+)= sum_{i,r,s} dy[i][o][r][s] x[i][c][...];  db[o] (+)= sum_{i,r,s} dy[i][o][r][s];
     * dx is, for each pixel, the sum of dy times w over all windows that contain the pixel */
    gs_status (*conv2d_backward)(gs_device *, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x, gs_mem w,
                                 size_t n, const gs_conv2d_sizes *, bool add, const gs_epilogue *then);

    /* True if linear_backward takes gs_epilogue.leaves in f32, and linear_tree_backward takes no dw (GS_NONE). */
    bool sums_leaves;
    /* True if linear_* and conv2d_* support this epilogue on this device. Its index and y are ignored. */
    bool (*fuses)(gs_device *, const gs_epilogue *);

    /* y = the largest x of each window (padding never wins; NaN wins over numbers); index (int32, same shape as y) =
     * its offset h * in_w + w in its channel's plane, the first in reading order on a tie */
    gs_status (*max_pool2d_forward)(gs_device *, gs_mem y, gs_mem index, gs_mem x, size_t n,
                                    const gs_pool2d_sizes *);
    /* dx of each pixel = the sum of dy over all windows whose index is that pixel; 0 if there are none */
    gs_status (*max_pool2d_backward)(gs_device *, gs_mem dx, gs_mem dy, gs_mem index, size_t n,
                                     const gs_pool2d_sizes *);

    /* y = sum of x over the window / (kernel_h kernel_w); padding counts as zeros, as in PyTorch by default */
    gs_status (*avg_pool2d_forward)(gs_device *, gs_mem y, gs_mem x, size_t n, const gs_pool2d_sizes *);
    /* dx = sum of dy over the windows that contain the pixel / (kernel_h kernel_w) */
    gs_status (*avg_pool2d_backward)(gs_device *, gs_mem dx, gs_mem dy, size_t n, const gs_pool2d_sizes *);

    /* The element-wise operators: the rows of GS_ELEMENT_WISE, above. */
#define GS_SLOTS(of, name, forward, backward, reads, ...)                                                    \
    gs_status (*forward)(gs_device *, gs_mem y, gs_mem x, size_t count);                                     \
    gs_status (*backward)(gs_device *, gs_mem dx, gs_mem dy, gs_mem reads, size_t count);
#define GS_SLOTS_WITH(of, name, forward, backward, reads, number, ...)                                       \
    gs_status (*forward)(gs_device *, gs_mem y, gs_mem x, size_t count, float number);                       \
    gs_status (*backward)(gs_device *, gs_mem dx, gs_mem dy, gs_mem reads, size_t count, float number);
    GS_ELEMENT_WISE(GS_SLOTS, GS_SLOTS_WITH, )
#undef GS_SLOTS
#undef GS_SLOTS_WITH

    /* Batch normalisation in steps, so that the values of several workers can be summed between them; u = (x - mean) /
     * sqrt(var + eps), for each channel. Ioffe and Szegedy, "Batch normalization: accelerating deep network training by
     * reducing internal covariate shift" (ICML 2015).
     *
     * mean = sum x / m;  var = sum (x - mean)^2 / m;  m = n plane;  mean and var are 0 if m is 0. The order of the sums
     * does not depend on the number of threads. mean, var (c) */
    gs_status (*batch_norm_statistics)(gs_device *, gs_mem mean, gs_mem var, gs_mem x, size_t n,
                                       const gs_batch_norm_sizes *);
    /* The running statistics after this batch, times `samples` (gs_param in layer/layer.h): dmean (+)= samples ((1 -
     * momentum) running_mean + momentum mean); dvar is the same for the unbiased variance, var m / (m - 1). If m is 1
     * there is none, and the running variance is unchanged. */
    gs_status (*batch_norm_running)(gs_device *, gs_mem dmean, gs_mem dvar, gs_mem running_mean,
                                    gs_mem running_var, gs_mem mean, gs_mem var, float m, float samples,
                                    const gs_batch_norm_sizes *, bool add);
    /* y = w u + b;  w, b (c); in evaluation, mean and var are the running statistics. y may be x. */
    gs_status (*batch_norm_forward)(gs_device *, gs_mem y, gs_mem x, gs_mem w, gs_mem b, gs_mem mean,
                                    gs_mem var, size_t n, const gs_batch_norm_sizes *);
    /* db (+)= sum dy;  dw (+)= sum dy u;  sums (2, c) = these two sums without earlier values, for backward */
    gs_status (*batch_norm_sums)(gs_device *, gs_mem sums, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                 gs_mem mean, gs_mem var, size_t n, const gs_batch_norm_sizes *, bool add);
    /* dx = w / sqrt(var + eps) (dy - sums[0] / m - u sums[1] / m), because mean and var depend on x. In evaluation they
     * do not, so sums is GS_NONE, and dx = w / sqrt(var + eps) dy. dx may be dy. */
    gs_status (*batch_norm_backward)(gs_device *, gs_mem dx, gs_mem dy, gs_mem x, gs_mem w, gs_mem mean,
                                     gs_mem var, gs_mem sums, float m, size_t n, const gs_batch_norm_sizes *);

    /* Layer normalisation of each of n rows of c elements: y = w u + b, u = (x - mean) rstd, with the row's mean = sum
     * x / c and rstd = 1 / sqrt(sum (x - mean)^2 / c + eps), which are kept for backward. w, b (c); mean, rstd (n). Ba,
     * Kiros, Hinton, "Layer normalization" (arXiv 1607.06450, 2016). */
    gs_status (*layer_norm_forward)(gs_device *, gs_mem y, gs_mem mean, gs_mem rstd, gs_mem x, gs_mem w,
                                    gs_mem b, size_t n, int c, float eps);
    /* db (+)= sum dy and dw (+)= sum dy u over the rows, in an order that depends only on n and c; dx = rstd (g - sum g
     * / c - u sum g u / c), g = dy w, with sums over the row, because mean and rstd depend on x too. */
    gs_status (*layer_norm_backward)(gs_device *, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                     gs_mem w, gs_mem mean, gs_mem rstd, size_t n, int c, bool add);

    /* Look up rows of a table: y[i] = w[x[i] - first], i < n. x holds n floats with integer values; w (rows, c) holds
     * rows `first` to first + rows - 1 of the table; y is (n, c). If row x[i] is none of these, y[i] is `other`, and
     * backward skips it. */
    gs_status (*embedding_forward)(gs_device *, gs_mem y, gs_mem x, gs_mem w, size_t n, int rows, int c,
                                   int first, float other);
    /* dw[r] (+)= sum of dy[i] over all i with x[i] = first + r, in the order of i, so always with the same bits */
    gs_status (*embedding_backward)(gs_device *, gs_mem dw, gs_mem dy, gs_mem x, size_t n, int rows, int c,
                                    int first, bool add);
    /* Add the same array to each sample: y[i][k] = x[i][k] + w[k], i < n, k < count. y may be x. */
    gs_status (*positions_forward)(gs_device *, gs_mem y, gs_mem x, gs_mem w, size_t n, size_t count);
    /* dw[k] (+)= sum_i dy[i][k], in the order of i; dx is dy itself */
    gs_status (*positions_backward)(gs_device *, gs_mem dw, gs_mem dy, size_t n, size_t count, bool add);

    /* Scaled dot-product attention for each sample and head (Vaswani et al., "Attention is all you need", NeurIPS
     * 2017): y_i = sum_j p_ij v_j, p_i = softmax_j(s_ij), s_ij = q_i k_j / sqrt(d), over all j, or over j <= i. softmax
     * (n, heads, 2, length) is for backward: first m_i, the largest s_ij, for all i, then l_i = sum_j exp(s_ij - m_i).
     * Memory grows with length, not with its square: Dao et al., "FlashAttention" (NeurIPS 2022). */
    gs_status (*attention_forward)(gs_device *, gs_mem y, gs_mem softmax, gs_mem x, size_t n,
                                   const gs_attention_sizes *);
    /* dx holds dq, dk and dv, like x: with p_ij = exp(s_ij - m_i) / l_i and ds_ij = p_ij (dy_i v_j - dy_i y_i),
     * dv_j = sum_i p_ij dy_i,  dq_i = sum_j ds_ij k_j / sqrt(d),  dk_j = sum_i ds_ij q_i / sqrt(d) */
    gs_status (*attention_backward)(gs_device *, gs_mem dx, gs_mem dy, gs_mem x, gs_mem y, gs_mem softmax,
                                    size_t n, const gs_attention_sizes *);

    /* Causal attention for `tokens` new tokens of each sample after `past` earlier ones, whose keys and values are
     * cached. past + tokens <= length; x (n, tokens, 3, heads, d), y (n, tokens, heads, d). First the k and v of the
     * new tokens are stored at positions past, past + 1, ... of keys (n, heads, d, length) and values (n, heads,
     * length, d). Then, for token t at position i = past + t, y_t = sum_{j <= i} p_ij v_j. */
    gs_status (*attention_cached_forward)(gs_device *, gs_mem y, gs_mem keys, gs_mem values, gs_mem x,
                                          size_t n, size_t past, size_t tokens, const gs_attention_sizes *);

    /* y[i] = x[i] / (1 - p) if uniform(word of element i) >= p, else 0: "inverted" dropout, with expectation x.
     * Backward is the same operator applied to dy; it draws the same mask again. */
    gs_status (*dropout)(gs_device *, gs_mem y, gs_mem x, size_t count, gs_dropout_draw);

    /* y = a + b; the sum in a residual block, forward and backward. y may be a or b. */
    gs_status (*add)(gs_device *, gs_mem y, gs_mem a, gs_mem b, size_t count);

    /* ---- losses; stats: GS_STATS floats, the first three of which are increased ---- */

    /* p[i] = softmax(x[i]), computed as exp(x - max) / sum;  loss = sum_{i,k} -q[i][k] log p[i][k], with q[i][k] = (1 -
     * smoothing) (labels[i] == k) + smoothing / classes;  0 <= smoothing < 1, and with 0 the loss is sum_i -log
     * p[i][labels[i]]. log p is x - max - log(sum), which is finite even where p rounds to 0. stats += (loss, number of
     * i whose largest x (the first on a tie; a NaN wins over numbers) is at labels[i], n). x and p (n, classes), labels
     * n int32 in 0..classes-1. Label smoothing: Szegedy et al., "Rethinking the Inception architecture for computer
     * vision" (CVPR 2016), 7. */
    gs_status (*softmax_cross_entropy_forward)(gs_device *, gs_mem p, gs_mem stats, gs_mem x, gs_mem labels,
                                               size_t n, int classes, float smoothing);
    /* dx[i][k] = p[i][k] - q[i][k] */
    gs_status (*softmax_cross_entropy_backward)(gs_device *, gs_mem dx, gs_mem p, gs_mem labels, size_t n,
                                                int classes, float smoothing);

    /* The same for a group whose ranks each hold only some of the classes, as columns of x and p (parallel/tensor.h);
     * `classes` counts a rank's own. Three operators; the caller sums over the ranks after the first and the second:
     *
     *     largest   most[rank][i] = the largest x[i][k] here, NaN if any is NaN; the rest of most (ranks, n) is kept
     *     sums      with M[i] = the largest most[.][i]:  p[i][k] = exp(x[i][k] - M[i]);
     *               sums[0][i] = the sum of p[i] here, in parts (gs_share);
     *               sums[1][i] = sum_k q[i][k] (x[i][k] - M[i]) here, q as above;
     *               sums[2][i] = 1 where the largest of all classes (the first on a tie) is here, at the label, else 0
     *     end       p[i] /= sums[0][i];  stats += (sum_i log sums[0][i] - sums[1][i], sum_i sums[2][i], n)
     *
     * Source: Shoeybi et al., "Megatron-LM" (arXiv 1909.08053, 2019), 3. */
    gs_status (*softmax_part_largest)(gs_device *, gs_mem most, gs_mem x, size_t n, int classes,
                                      const gs_share *);
    gs_status (*softmax_part_sums)(gs_device *, gs_mem p, gs_mem sums, gs_mem most, gs_mem x, gs_mem labels,
                                   size_t n, int classes, float smoothing, const gs_share *);
    gs_status (*softmax_part_end)(gs_device *, gs_mem p, gs_mem stats, gs_mem sums, size_t n, int classes);
    /* dx[i][k] = p[i][k] - q[i][k] for this rank's classes */
    gs_status (*softmax_part_backward)(gs_device *, gs_mem dx, gs_mem p, gs_mem labels, size_t n, int classes,
                                       float smoothing, const gs_share *);

    /* loss = sum_i (1/k) sum_j (x[i][j] - t[i][j])^2;  stats += (loss, number of i whose largest x and largest t, each
     * with the tie rule of softmax_cross_entropy, are at the same j, n).  x, t (n, k) */
    gs_status (*mean_squared_error_forward)(gs_device *, gs_mem stats, gs_mem x, gs_mem t, size_t n, int k);
    /* dx = (2/k) (x - t) */
    gs_status (*mean_squared_error_backward)(gs_device *, gs_mem dx, gs_mem x, gs_mem t, size_t n, int k);

    /* ---- optimiser ---- */

    /* For every parameter: g = scale dw + weight_decay w; v = momentum v + g; w -= lr v. A v below FLT_MIN becomes 0;
     * otherwise, if a gradient stays 0, v would become subnormal, and subnormal floats are slow. All workers repeat the
     * update, so its bits must be the same on all devices: each product and each sum is rounded, without FMA, in the
     * order momentum v + (scale dw + weight_decay w). scale is 1 / (global number of samples). With momentum 0, v is
     * not read and may be GS_NONE. */
    gs_status (*sgd_update)(gs_device *, gs_mem w, gs_mem v, gs_mem dw, size_t count, float scale, float lr,
                            float momentum, float weight_decay);
    /* Like sgd, but with the step w -= lr (g + momentum v). v is always needed. */
    gs_status (*nesterov_update)(gs_device *, gs_mem w, gs_mem v, gs_mem dw, size_t count, float scale,
                                 float lr, float momentum, float weight_decay);
    /* The rows of GS_STEP_UPDATES: X(of, NAME, update), in cpu/NAME.c, cl/NAME.cl and cpu/plain/adam.c; `of` is free
     * for the table's users. For every parameter (m and v below FLT_MIN become 0; lion ignores v, which is GS_NONE):
     *
     *     adam  g = scale dw + l2 w;  m = beta1 m + rest1 g;  v = beta2 v + (rest2 g) g;
     *           w = keep w - rate (m / (root sqrt(v) + epsilon))
     *     lamb  the direction of LAMB's step (optim/lamb.c) replaces dw: dw is the argument w, and w the argument dw:
     *           g = scale dw;  m and v as in adam;  dw = rate (m / (root sqrt(v) + epsilon)) + l2 w
     *     lion  g = scale dw;  w = keep w - rate sign(beta1 m + rest1 g);  m = beta2 m + rest2 g
     *
     * The bits are the same on all devices that round quotients and roots correctly. CPUs and today's GPUs do; OpenCL
     * devices report whether they do (CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT). On other devices a quotient may be off by
     * 2.5 units in the last place, and a root by 3. Workers on such devices, if all of one kind, agree with each other,
     * but not with workers on other devices. */
#define GS_STEP_UPDATES(X, of) X(of, adam, adam_update) X(of, lamb, lamb_direction) X(of, lion, lion_update)
#define GS_SLOT(of, name, update)                                                                            \
    gs_status (*update)(gs_device *, gs_mem w, gs_mem m, gs_mem v, gs_mem dw, size_t count, gs_adam_step);
    GS_STEP_UPDATES(GS_SLOT, )
#undef GS_SLOT
    /* *out = the sum of squares of x[0] .. x[count - 1]; out->top is at least `top` (optim/norm.h). Waits. */
    gs_status (*squares)(gs_device *, gs_mem x, size_t count, uint32_t top, gs_squares *out);

    /* ---- the device's limits, for measuring (predict/profile.c) ---- */

    /* y[i] = scale y[i] + shift, repeated `rounds` times in registers: 2 * rounds * count FLOPs */
    gs_status (*fma_loop)(gs_device *, gs_mem y, float scale, float shift, size_t count, size_t rounds);
    /* y[i] = a[i] + scale b[i]: moves 12 * count bytes (the "triad" of McCalpin's STREAM, 1995) */
    gs_status (*triad)(gs_device *, gs_mem y, gs_mem a, gs_mem b, float scale, size_t count);

    /* y (6, count) = a + b, a b, a / b, sqrt(|a|), fma(a, b, c), and a b + c rounded twice, for the self-test of
     * gs_device_set_exact; count is a multiple of 16 */
    gs_status (*arithmetic)(gs_device *, gs_mem y, gs_mem a, gs_mem b, gs_mem c, size_t count);
} gs_backend;

/* Call alloc for memory of this kind. Memory from a direct call of alloc counts as workspace. */
static inline gs_status gs_alloc(gs_device *d, gs_memory_kind kind, size_t bytes, gs_mem *out) {
    d->kind = kind;
    const gs_status status = d->ops->alloc(d, bytes, out);
    d->kind = GS_MEMORY_WORKSPACE;
    return status;
}

/* The same for alloc_offloaded. */
static inline gs_status gs_alloc_offloaded(gs_device *d, gs_memory_kind kind, size_t bytes, void **host) {
    d->kind = kind;
    const gs_status status = d->ops->alloc_offloaded(d, bytes, host);
    d->kind = GS_MEMORY_WORKSPACE;
    return status;
}

/* For a backend: fill dw and db, which may be GS_NONE, with zeros. */
static inline gs_status gs_clear(gs_device *d, gs_mem dw, size_t dw_count, gs_mem db, size_t db_count) {
    GS_TRY(d->ops->fill(d, dw, 0, dw_count));
    return db.base ? d->ops->fill(d, db, 0, db_count) : GS_OK;
}

/* Like read, but the host memory need not exist in a dry run. */
static inline gs_status gs_host_read(gs_device *d, void *to, gs_mem from, size_t bytes) {
    return d->dry ? GS_OK : d->ops->read(d, to, from, bytes);
}

/* For a backend: *then, or an empty epilogue if `then` is NULL. It is a bug (gs_bug) if the device does not support the
 * epilogue, or if the pooling does not fit the y of the convolution that `sizes` describes (NULL: a linear layer). */
gs_epilogue gs_epilogue_of(gs_device *, const gs_epilogue *then, const gs_conv2d_sizes *sizes);
