/* Five updates by sgd with growing gradients, clipped to a norm, for comparison with PyTorch's (test_optimizers.c).
 * tests/golden/make.py reads this file too. The weights are those of "flatten, linear OUT, linear 3" with IN inputs.
 *
 *    IN, OUT, samples, lr, momentum, weight decay, norm
 *
 * No include guard: the including file defines CLIP.
 */
CLIP(1, 1, 1, 0.1, 0, 0, 0.5)
CLIP(5, 7, 8, 0.05, 0.9, 0.01, 1.75)
CLIP(5, 7, 8, 0.05, 0.9, 0.01, 1000)
CLIP(40, 30, 64, 0.1, 0.5, 0.001, 2)
