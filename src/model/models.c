/* The named models. A text ends with the number of classes in the model's usual data; in a language model's text, the
 * size of its vocabulary follows "embedding". */
#include "model/model_text.h"

const gs_named_model gs_models[] = {
    /* Softmax regression, the simplest classifier: one weight per pixel and class. */
    {.name = "softmax", .text = "flatten, linear 10"},

    /* A multi-layer perceptron. */
    {.name = "mlp", .text = "flatten, linear 512, relu, linear 256, relu, linear 10"},

    /* LeNet-5, with relu and max pooling instead of sigmoids and means. LeCun, Bottou, Bengio, Haffner, "Gradient-based
     * learning applied to document recognition" (Proceedings of the IEEE, 1998). */
    {.name = "lenet",
     .text = "conv 6 5x5 pad 2, relu, max_pool 2, conv 16 5x5, relu, max_pool 2, "
             "flatten, linear 120, relu, linear 84, relu, linear 10"},

    /* A plain convolutional network: most of its work is in one convolution. */
    {.name = "cnn",
     .text = "conv 32 3x3 pad 1, relu, conv 64 3x3 pad 1, relu, max_pool 2, flatten, linear 128, "
             "relu, linear 10"},

/* He, Zhang, Ren, Sun, "Deep residual learning for image recognition" (CVPR 2016). `same` keeps the shape; `down`
 * halves the image, and its shortcut is a 1x1 convolution (option B in the paper). */
#define NORMED "block normed C K S P = conv C K stride S pad P no_bias, batch_norm; "
#define BASIC                                                                                                \
    NORMED "block same C = residual (normed C 3 1 1, relu, normed C 3 1 1), relu; "                          \
           "block down C = residual (normed C 3 2 1, relu, normed C 3 1 1 | normed C 1 2 0), relu; "

/* ResNets for 32 x 32 images, with 6n + 2 layers: n = 3 and 9. */
#define SMALL(n, n_1)                                                                                        \
    BASIC "normed 16 3 1 1, relu, " n " x same 16, down 32, " n_1 " x same 32, down 64, " n_1                \
          " x same 64, global_avg_pool, flatten, linear 10"
    {.name = "resnet20", .text = SMALL("3", "2"), .what = "residual blocks, for images of 32x32"},
    {.name = "resnet56", .text = SMALL("9", "8"), .what = "the same, deeper"},

/* ResNets for 224 x 224 images. */
#define STEM "normed 64 7 2 3, relu, max_pool 3 stride 2 pad 1, "
    {.name = "resnet18",
     .text = BASIC STEM "2 x same 64, down 128, same 128, down 256, same 256, down 512, same 512, "
                        "global_avg_pool, flatten, linear 1000",
     .what = "residual blocks, for images of 224x224",
     .in = {3, 224, 224, 0},
     .torchvision = true},

    /* Three convolutions per block: one to C channels, one of 3x3 with stride S, and one to W = 4 C channels. */
    {.name = "resnet50",
     .text = NORMED
     "block body C W S = normed C 1 1 0, relu, normed C 3 S 1, relu, normed W 1 1 0; "
     "block same C W = residual (body C W 1), relu; "
     "block first C W S = residual (body C W S | normed W 1 S 0), relu; " STEM
     "first 64 256 1, 2 x same 64 256, first 128 512 2, 3 x same 128 512, first 256 1024 2, "
     "5 x same 256 1024, first 512 2048 2, 2 x same 512 2048, global_avg_pool, flatten, linear 1000",
     .what = "the same, deeper, with bottlenecks",
     .in = {3, 224, 224, 0},
     .torchvision = true},

    /* Simonyan, Zisserman, "Very deep convolutional networks for large-scale image recognition" (ICLR 2015). For 224 x
     * 224 images. */
    {.name = "vgg11",
     .text = "block c C = conv C 3 pad 1, relu; block f N = linear N, relu, dropout 0.5; "
             "c 64, max_pool 2, c 128, max_pool 2, 2 x c 256, max_pool 2, 2 x c 512, max_pool 2, "
             "2 x c 512, max_pool 2, flatten, f 4096, f 4096, linear 1000",
     .what = "plain convolutions, for images of 224x224",
     .in = {3, 224, 224, 0},
     .torchvision = true},

/* Radford, Wu, Child, Luan, Amodei, Sutskever, "Language models are unsupervised multitask learners" (2019). Initial
 * values are normal with std 0.02, or 0.02 / sqrt(2 layers) in layers added to the residual. No dropout. */
#define GPT(vocabulary, layers, heads, width, width_3, width_4, gelu, std)                                   \
    "block add N = linear N std " std "; "                                                                   \
    "block layer = residual (layer_norm, linear " width_3 " std 0.02, attention " heads                      \
    " causal, add " width "), "                                                                              \
    "residual (layer_norm, linear " width_4 " std 0.02, " gelu ", add " width "); "                          \
    "embedding " vocabulary " " width " std 0.02, positions std 0.02, " layers " x layer, layer_norm, tied"

    /* nanoGPT's sizes for a CPU (Karpathy 2022), and the vocabulary of its Shakespeare text in characters. */
    {.name = "gpt",
     .text = GPT("65", "4", "4", "128", "384", "512", "gelu", "0.00707107"),
     .what = "a small GPT (with exact gelu), for 65 tokens and a context of 64",
     .in = {1, 1, 1, 64}},

    /* The paper's smallest model, 124 million parameters. */
    {.name = "gpt2",
     .text = GPT("50257", "12", "12", "768", "2304", "3072", "gelu tanh", "0.00408248"),
     .what = "GPT-2 (with gelu tanh): 50257 tokens, a context of 1024",
     .in = {1, 1, 1, 1024}},
    {0},
};
