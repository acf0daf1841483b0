/* A model's text, and the resulting shapes and sizes. */
#include <stdlib.h>
#include "fuzz.h"
#include "model/model.h"

FUZZ(in) {
    gs_shape shape = {1 + fuzz_byte(in) % 4, 1 + fuzz_byte(in) % 33, 1 + fuzz_byte(in) % 33, 0};
    char *text = fuzz_text(in);
    gs_model *model = NULL;
    if (gs_model_create(NULL, &(gs_model_config){.text = text, .in = shape}, &model) == GS_OK && !model)
        fuzz_wrong("a plan without a model");
    gs_model_free(model);
    free(text);
}
