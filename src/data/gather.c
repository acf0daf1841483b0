/* Copies samples and their targets from a data set, for a batch. */
#include <string.h>

#include "data/folder_set.h"
#include "data/text_set.h"

/* Copy one sample's targets. Labels are converted to int32; targets stay floats. */
static void copy_target(const gs_dataset *d, size_t sample, size_t i, void *targets) {
    const size_t k = (size_t)d->outputs, each = (size_t)gs_dataset_labels_each(d);
    if (d->targets)
        memcpy((float *)targets + i * k, d->targets + sample * k, k * sizeof(float));
    else
        for (size_t j = 0; j < each; j++) ((int32_t *)targets)[i * each + j] = d->labels[sample * each + j];
}

static void gather_from_memory(const gs_dataset *d, const gs_sample_request *w, unsigned char *inputs,
                               void *targets) {
    const unsigned char *from = d->inputs ? (const unsigned char *)d->inputs : d->images;
    const size_t bytes = gs_dataset_input_bytes(d);
    for (size_t i = 0; i < w->n; i++) {
        const size_t sample = gs_sample_request_at(w, i);
        if (sample >= d->count) gs_bug("gs_dataset_gather: sample %zu of %zu", sample, d->count);
        if (inputs && w->augment)
            gs_augment_sample(w->augment, d, w->seed, w->epoch, sample, inputs + i * bytes);
        else if (inputs)
            memcpy(inputs + i * bytes, from + sample * bytes, bytes);
        if (targets) copy_target(d, sample, i, targets);
    }
}

/* shift: the offset of a text's windows. */
static gs_status gather(const gs_dataset *d, const gs_sample_request *w, int shift, void *inputs,
                        void *targets) {
    if (d->folder) return gs_folder_set_read(d->folder, d, w, inputs, targets);
    if (d->text)
        gs_text_gather(d->text, shift, w->order, w->first, w->n, inputs, targets);
    else
        gather_from_memory(d, w, inputs, targets);
    return GS_OK;
}

gs_status gs_dataset_gather(const gs_dataset *d, const uint32_t *order, size_t first, size_t n, void *inputs,
                            void *targets) {
    return gather(d, &(gs_sample_request){.order = order, .first = first, .n = n}, 0, inputs, targets);
}

gs_status gs_augment_gather(const gs_augment *a, const gs_dataset *d, uint64_t seed, uint64_t epoch,
                            const uint32_t *order, size_t n, void *inputs, void *targets) {
    const gs_sample_request wanted = {
        .order = order, .n = n, .seed = seed, .epoch = epoch, .augment = a && gs_augment_is_on(a) ? a : NULL};
    return gather(d, &wanted, d->text ? gs_text_shift(d->text, seed, epoch) : 0, inputs, targets);
}
