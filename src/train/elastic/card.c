#include "train/elastic/agree.h"

#include <stddef.h>

const gs_card *gs_card_newest(const gs_card *of) {
    const gs_card *found = NULL;
    for (int i = 0; i < GS_COPIES; i++)
        if (of[i].valid && (!found || of[i].step > found->step)) found = &of[i];
    return found;
}

const gs_card *gs_card_of_step(const gs_card *of, uint64_t step) {
    for (int i = 0; i < GS_COPIES; i++)
        if (of[i].valid && of[i].step == step) return &of[i];
    return NULL;
}
