/* Five updates by each optimiser, compared with PyTorch's, or, for lars, lamb and lion, with the papers' formulas
 * computed on PyTorch's tensors (test_optimizers.c). tests/golden/make.py reads this file too. The weights are those of
 * "flatten, linear OUT, linear 3" with IN inputs.
 *
 *    small, name, IN, OUT, samples, lr, momentum or beta1, beta2, epsilon, weight decay
 *
 * No include guard: the including file defines UPDATES.
 */
UPDATES(1, nesterov, 1, 1, 1, 0.1, 0.9, 0, 0, 0)
UPDATES(1, nesterov, 5, 7, 8, 0.05, 0.5, 0, 0, 0.01)
UPDATES(0, nesterov, 400, 170, 64, 0.01, 0.97, 0, 0, 0.001)
UPDATES(1, adam, 1, 1, 1, 0.001, 0.9, 0.999, 1e-8, 0)
UPDATES(1, adam, 5, 7, 8, 0.01, 0.8, 0.95, 1e-3, 0.1)
UPDATES(1, adam, 3, 4, 7, 0.01, 0, 0.9, 1e-6, 0)
UPDATES(0, adam, 400, 170, 64, 0.003, 0.9, 0.999, 1e-8, 0.01)
UPDATES(1, adamw, 1, 1, 1, 0.001, 0.9, 0.999, 1e-8, 0.01)
UPDATES(1, adamw, 5, 7, 8, 0.01, 0.8, 0.95, 1e-3, 0.1)
UPDATES(0, adamw, 400, 170, 64, 0.003, 0.9, 0.999, 1e-8, 0.3)
UPDATES(1, lars, 1, 1, 1, 0.01, 0.9, 0, 0, 0)
UPDATES(1, lars, 5, 7, 8, 0.02, 0.5, 0, 0, 0.1)
UPDATES(0, lars, 400, 170, 64, 0.01, 0.9, 0, 0, 0.0005)
UPDATES(1, lamb, 1, 1, 1, 0.01, 0.9, 0.999, 1e-6, 0)
UPDATES(1, lamb, 5, 7, 8, 0.02, 0.8, 0.95, 1e-3, 0.1)
UPDATES(0, lamb, 400, 170, 64, 0.003, 0.9, 0.999, 1e-6, 0.3)
UPDATES(1, lion, 1, 1, 1, 0.001, 0.9, 0.99, 0, 0)
UPDATES(1, lion, 5, 7, 8, 0.01, 0.8, 0.95, 0, 0.1)
UPDATES(0, lion, 400, 170, 64, 0.0003, 0.9, 0.99, 0, 0.3)
