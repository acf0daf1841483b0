/* The Euclidean norm of an array, sqrt(sum x^2), with the same bits on every device, for any number of threads, and for
 * any number of workers that hold the whole array or shards of it.
 *
 * A sum of floats depends on its order, which differs between devices. A sum of integers does not:
 *
 *     largest   the bits of the largest |x|: the bits of non-negative floats sort as the floats do, so this is a
 *               comparison of integers. NaN is above infinity, and both are above all finite numbers
 *     top       its exponent bits, at least 1
 *     x^2       a float is M 2^(E - 150), M < 2^24, with exponent bits E. M^2 is exact in 48 bits. In units of
 *               2^(2 top - 314) the square is M^2 2^14 / 4^(top - E), below 2^62: a shift by 14 to the left, and by
 *               2 (top - E) to the right, which drops everything below 2^-62 of the largest
 *     sum       the upper and lower 32 bits are added separately, in 64 bits: no overflow for up to 2^32 elements
 *
 * Nothing else is rounded, so the sum is exact to about 2^-60 of the largest square for each element, far better than a
 * sum of floats. No floats are multiplied, so it does not matter whether a device has doubles or flushes subnormal
 * floats to zero.
 *
 * It is used for clipping by the global norm, like torch.nn.utils.clip_grad_norm_ (gs_optimizer_clip), and for the
 * per-tensor rates of lars.c and lamb.c. One batch with an unusually large gradient can throw the weights far away from
 * where training has brought them; a shorter step in the same direction cannot. A norm that is infinite or NaN makes
 * weights NaN, and the run diverges. Source: Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural
 * networks" (ICML 2013).
 *
 * For an array in shards, each shard is squared in a second call, which gets the largest `top` of all shards; the
 * resulting `high` and `low` are added up (gs_optimizer_clip_held). */
#pragma once

#include "optim/optimizer.h"

/* sqrt(sum x^2); infinite or NaN if an x is. */
double gs_norm_of(const gs_squares *);

/* The norm of x[0] .. x[count - 1], on the device. GS_E_OPENCL. */
gs_status gs_norm(gs_device *, gs_mem x, size_t count, double *norm);

/* Before an update of shards: compute the norm of all gradients for `clip`, and with a loss scale find out whether all
 * are finite. *may_update false: skip the update. Squares are added as integers, in units that suit the largest
 * gradient, so the bits do not depend on which worker holds which shard. All workers call it. */
gs_status gs_optimizer_clip_held(gs_optimizer *, double samples, const gs_held *, bool *may_update);
