/* A weight file: its header and metadata, and loading its tensors into a model. */
#include <stdlib.h>
#include <string.h>
#include "fuzz.h"
#include "model/safetensors.h"

/* Makes a file whose header is the rest of the input, with the right length, and whose data are zeros. */
static size_t with_length(fuzz_input *in, size_t data, unsigned char *to, size_t room) {
    uint64_t length = in->size;
    if (length + data + sizeof length > room) length = room - data - sizeof length;
    memcpy(to, &length, sizeof length);
    fuzz_bytes(in, to + sizeof length, length);
    memset(to + sizeof length + length, 0, data);
    return sizeof length + length + data;
}

FUZZ(in) {
    static unsigned char file[1 << 16];
    static gs_model *model;
    const gs_model_config config = {.text = "linear 2", .in = {3, 1, 1, 0}};
    if (!model && gs_model_create(NULL, &config, &model) != GS_OK) fuzz_wrong("no model: %s", gs_message());
    uint8_t how = fuzz_byte(in);
    size_t size = how & 1 ? with_length(in, (size_t)(how >> 1), file, sizeof file) : in->size;
    const char *path = fuzz_file(how & 1 ? file : in->data, size);

    gs_weights_info saved;
    float *host = malloc(model->params * sizeof *host);
    if (gs_safetensors_read_info(path, &saved) == GS_OK) {
        if (saved.has_in && (saved.in.c < 1 || saved.in.h < 1 || saved.in.w < 1))
            fuzz_wrong("an input shape of 0");
        const gs_by_channel *std = &saved.scaling.std;
        if (std->count < 1 || std->count > GS_CHANNELS) fuzz_wrong("%d standard deviations", std->count);
        for (int c = 0; c < std->count; c++)
            if (!(std->of[c] >= 9e-9f)) fuzz_wrong("a standard deviation of 0");
    }
    gs_weights_info_free(&saved);
    gs_status checked = gs_safetensors_check(path, model), loaded = gs_safetensors_load(path, model, host);
    if (checked != loaded) fuzz_wrong("the check says %d, the load %d", (int)checked, (int)loaded);
    free(host);
}
