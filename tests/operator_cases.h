/* The table of operator cases. Every backend must do all of them right: against PyTorch, against finite differences,
 * and like the cpu backend (test_operators.c). tests/golden/make.py reads this file too, to ask PyTorch.
 *
 * SMALL cases reach every kernel and every branch; under a checker that is a hundred times slower they run alone
 * (GRADSUM_TEST_SMALL=1). CASE adds sizes that are odd, prime or a little more than a power of two.
 *
 * No include guard: whoever includes it defines what SMALL and CASE become.
 */

/*    linear  n, in, out, bias */
SMALL(linear, 1, 1, 1, 1)
SMALL(linear, 7, 5, 3, 1)
SMALL(linear, 3, 33, 18, 0)
SMALL(linear, 0, 4, 3, 1)
CASE(linear, 1, 257, 33, 1)
CASE(linear, 7, 1, 257, 1)
CASE(linear, 33, 7, 1, 0)
CASE(linear, 33, 257, 7, 1)
CASE(linear, 257, 33, 33, 1)
CASE(linear, 64, 64, 64, 1)
CASE(linear, 128, 100, 10, 1)

/*    conv2d  n, in_c, in_h, in_w, out_c, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, bias */
SMALL(conv2d, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1)
SMALL(conv2d, 2, 3, 5, 4, 2, 1, 1, 1, 1, 0, 0, 1)
SMALL(conv2d, 2, 2, 5, 6, 3, 3, 3, 1, 1, 1, 1, 1)
SMALL(conv2d, 1, 2, 6, 5, 3, 2, 3, 2, 1, 1, 0, 0)
SMALL(conv2d, 0, 2, 5, 5, 3, 3, 3, 1, 1, 1, 1, 1)
CASE(conv2d, 7, 1, 28, 28, 6, 5, 5, 1, 1, 2, 2, 1)
CASE(conv2d, 7, 6, 14, 14, 16, 5, 5, 1, 1, 0, 0, 1)
CASE(conv2d, 1, 16, 28, 28, 33, 3, 3, 1, 1, 1, 1, 1)
CASE(conv2d, 2, 33, 9, 7, 20, 3, 3, 1, 1, 1, 1, 1)
CASE(conv2d, 3, 3, 33, 7, 8, 3, 5, 2, 3, 1, 2, 1)
CASE(conv2d, 7, 3, 7, 33, 7, 5, 3, 3, 2, 2, 0, 0)
CASE(conv2d, 2, 4, 7, 5, 5, 7, 5, 1, 1, 0, 0, 1)
CASE(conv2d, 2, 5, 9, 9, 4, 1, 1, 2, 2, 0, 0, 1)
CASE(conv2d, 1, 3, 4, 4, 2, 3, 3, 1, 1, 3, 2, 1)
CASE(conv2d, 3, 2, 12, 10, 3, 2, 2, 3, 3, 0, 0, 1)
CASE(conv2d, 33, 7, 8, 8, 33, 3, 3, 2, 2, 1, 1, 0)
CASE(conv2d, 1, 1, 1, 257, 1, 1, 7, 1, 1, 0, 3, 1)
CASE(conv2d, 1, 257, 3, 3, 1, 1, 1, 1, 1, 0, 0, 1)

/*    pooling  n, c, in_h, in_w, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w */
SMALL(max_pool2d, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0)
SMALL(max_pool2d, 2, 3, 6, 4, 2, 2, 2, 2, 0, 0)
SMALL(max_pool2d, 1, 2, 5, 7, 3, 3, 1, 1, 1, 1)
SMALL(max_pool2d, 0, 2, 4, 4, 2, 2, 2, 2, 0, 0)
CASE(max_pool2d, 7, 6, 28, 28, 2, 2, 2, 2, 0, 0)
CASE(max_pool2d, 2, 5, 9, 7, 3, 2, 2, 3, 1, 1)
CASE(max_pool2d, 1, 3, 7, 33, 2, 3, 3, 1, 1, 0)
CASE(max_pool2d, 3, 2, 7, 5, 7, 5, 1, 1, 0, 0)
CASE(max_pool2d, 1, 33, 10, 10, 2, 2, 3, 3, 0, 0)
CASE(max_pool2d, 1, 1, 1, 257, 1, 4, 1, 1, 0, 2)

SMALL(avg_pool2d, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0)
SMALL(avg_pool2d, 2, 3, 6, 4, 2, 2, 2, 2, 0, 0)
SMALL(avg_pool2d, 1, 2, 5, 7, 3, 3, 1, 1, 1, 1)
SMALL(avg_pool2d, 0, 2, 4, 4, 2, 2, 2, 2, 0, 0)
CASE(avg_pool2d, 7, 6, 28, 28, 2, 2, 2, 2, 0, 0)
CASE(avg_pool2d, 2, 5, 9, 7, 3, 2, 2, 3, 1, 1)
CASE(avg_pool2d, 1, 3, 7, 33, 2, 3, 3, 1, 1, 0)
CASE(avg_pool2d, 3, 2, 7, 5, 7, 5, 1, 1, 0, 0)
CASE(avg_pool2d, 1, 33, 10, 10, 2, 2, 3, 3, 0, 0)
CASE(avg_pool2d, 1, 1, 1, 257, 1, 4, 1, 1, 0, 2)

/*    element-wise  count */
SMALL(relu, 1)
SMALL(relu, 7)
SMALL(relu, 33)
SMALL(relu, 0)
CASE(relu, 257)
CASE(relu, 40003)
SMALL(tanh, 1)
SMALL(tanh, 7)
SMALL(tanh, 33)
SMALL(tanh, 0)
CASE(tanh, 257)
CASE(tanh, 40003)
SMALL(sigmoid, 1)
SMALL(sigmoid, 7)
SMALL(sigmoid, 33)
SMALL(sigmoid, 0)
CASE(sigmoid, 257)
CASE(sigmoid, 40003)

/*    losses  n, classes */
SMALL(softmax_cross_entropy, 1, 1)
SMALL(softmax_cross_entropy, 7, 10)
SMALL(softmax_cross_entropy, 2, 33)
SMALL(softmax_cross_entropy, 0, 10)
CASE(softmax_cross_entropy, 33, 7)
CASE(softmax_cross_entropy, 257, 10)
CASE(softmax_cross_entropy, 7, 257)
SMALL(mean_squared_error, 1, 1)
SMALL(mean_squared_error, 7, 10)
SMALL(mean_squared_error, 2, 33)
SMALL(mean_squared_error, 0, 10)
CASE(mean_squared_error, 33, 7)
CASE(mean_squared_error, 257, 10)
CASE(mean_squared_error, 7, 257)

/*    sgd_update  count, and in thousandths: scale, lr, momentum, weight_decay.  Three steps. */
SMALL(sgd_update, 1, 1000, 100, 900, 0)
SMALL(sgd_update, 33, 125, 50, 900, 10)
SMALL(sgd_update, 7, 250, 50, 0, 10)
SMALL(sgd_update, 0, 1000, 100, 900, 0)
CASE(sgd_update, 257, 8, 100, 500, 1)
CASE(sgd_update, 40003, 16, 10, 900, 5)
