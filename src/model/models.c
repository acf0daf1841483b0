/* The models that have a name. */
#include <string.h>
#include "model/model_text.h"

enum { MODELS = 4 };

static const char *const names[MODELS + 1] = {"softmax", "mlp", "lenet", "cnn", NULL};

static const char *const texts[MODELS] = {
    /* Softmax regression, the simplest classifier: one weight for each pixel and class. */
    "flatten, linear 10",

    /* A multi-layer perceptron. */
    "flatten, linear 512, relu, linear 256, relu, linear 10",

    /* LeNet-5 with relu and max pooling in place of its sigmoids and means. LeCun, Bottou, Bengio, Haffner,
     * "Gradient-based learning applied to document recognition" (Proceedings of the IEEE, 1998). */
    ("conv 6 5x5 pad 2, relu, max_pool 2, conv 16 5x5, relu, max_pool 2, "
     "flatten, linear 120, relu, linear 84, relu, linear 10"),

    /* A plain convolutional network: most of its work lies in one convolution. */
    "conv 32 3x3 pad 1, relu, conv 64 3x3 pad 1, relu, max_pool 2, flatten, linear 128, relu, linear 10",
};

const char *gs_model_text(const char *name_or_text) {
    for (int i = 0; i < MODELS; i++)
        if (strcmp(name_or_text, names[i]) == 0) return texts[i];
    return name_or_text;
}

const char *const *gs_model_names(void) {
    return names;
}
