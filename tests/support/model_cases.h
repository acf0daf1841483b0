/* Small models whose training is compared with PyTorch's (test_model_training.c). Together they contain every layer in
 * every position that matters: at either end of a branch, before and after layers that own their buffers. This reveals
 * buffers that wrongly overlap. tests/golden/make.py reads this file too.
 *
 *    name, batch, input (c, h, w), loss, text
 *
 * No include guard: the including file defines MODEL.
 */
MODEL(softmax, 7, 1, 4, 4, GS_SOFTMAX_CROSS_ENTROPY, "flatten, linear 5")
MODEL(mlp, 5, 1, 3, 3, GS_SOFTMAX_CROSS_ENTROPY, "flatten, linear 8, relu, linear 7 no_bias, tanh, linear 4")
MODEL(element_wise, 4, 2, 3, 2, GS_MEAN_SQUARED_ERROR, "relu, flatten, linear 8, tanh, sigmoid, relu, dropout 0, linear 6, dropout 0, relu, linear 3, sigmoid")
MODEL(images, 5, 1, 9, 9, GS_SOFTMAX_CROSS_ENTROPY, "conv 4 3x3 pad 1, relu, max_pool 2, conv 6 3x2 stride 2x1 pad 1x0 no_bias, tanh, avg_pool 2x1, relu, flatten, linear 10, sigmoid, linear 5")
MODEL(groups, 3, 4, 7, 6, GS_SOFTMAX_CROSS_ENTROPY, "conv 8 3x3 pad 1 groups 4, relu, conv 8 3x3 pad 2 groups 8 dilation 2 no_bias, relu, max_pool 2, conv 6 2x2 pad 1 dilation 2x1, tanh, flatten, linear 5")
MODEL(pools, 3, 2, 7, 6, GS_MEAN_SQUARED_ERROR, "max_pool 3 stride 2 pad 1, relu, conv 3 2, max_pool 2x1 stride 1, sigmoid, avg_pool 2 stride 1 pad 1, tanh, global_avg_pool, linear 3")
MODEL(residual, 3, 2, 6, 6, GS_SOFTMAX_CROSS_ENTROPY, "conv 4 3x3 pad 1, relu, residual (conv 4 3x3 pad 1, relu, conv 4 3x3 pad 1), relu, residual (relu, conv 6 3x3 stride 2 pad 1, tanh | conv 6 1x1 stride 2 no_bias), avg_pool 2x1 stride 1, global_avg_pool, linear 3")
MODEL(shared, 4, 2, 4, 4, GS_SOFTMAX_CROSS_ENTROPY, "residual (tanh, conv 2 1x1), residual (relu | sigmoid), residual (conv 2 3x3 pad 1, relu), residual (residual (sigmoid | relu, conv 2 1x1, tanh)), flatten, residual (relu, linear 32, dropout 0), residual (linear 32, tanh, flatten | linear 32), linear 4")
MODEL(units, 4, 2, 3, 2, GS_SOFTMAX_CROSS_ENTROPY, "gelu, flatten, linear 8, gelu, relu, linear 6, silu, residual (gelu tanh, linear 6, silu, gelu), dropout 0, gelu, silu, tanh, linear 4, gelu tanh")
MODEL(norms, 5, 2, 6, 6, GS_SOFTMAX_CROSS_ENTROPY, "conv 4 3x3 pad 1 no_bias, batch_norm, relu, residual (conv 4 3x3 pad 1 no_bias, batch_norm | batch_norm), tanh, avg_pool 2, flatten, linear 6 no_bias, batch_norm, sigmoid, linear 3")
MODEL(group_norms, 5, 4, 5, 3, GS_SOFTMAX_CROSS_ENTROPY, "group_norm 2, conv 6 3x3 pad 1, group_norm 3, softplus 2, conv 6 3x3 pad 1, tanh, group_norm 1, flatten, linear 3")
MODEL(layer_norms, 5, 2, 3, 3, GS_SOFTMAX_CROSS_ENTROPY, "flatten, layer_norm, linear 8, layer_norm, tanh, residual (layer_norm, linear 8, relu), layer_norm, dropout 0, linear 3")
MODEL(tied, 5, 4, 1, 1, GS_SOFTMAX_CROSS_ENTROPY, "embedding 7 6, positions, residual (layer_norm, linear 18, attention 2 causal, linear 6), layer_norm, tied, flatten, linear 3")
MODEL(transformer, 4, 6, 1, 1, GS_SOFTMAX_CROSS_ENTROPY, "embedding 5 8, positions, residual (layer_norm, linear 24, attention 2 causal, linear 8), residual (layer_norm, linear 16, gelu, linear 8), layer_norm, linear 12 no_bias, attention 1, tanh, flatten, linear 3")
