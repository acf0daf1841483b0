/* Loss scaling, for gradients in f16 (device->precision).
 *
 * Numbers below 2^-25 become 0 in f16. Gradients are often that small, while 65504, the largest number, is far away. So
 * the loss's gradient is multiplied by a power of two, `scale`, and with it all gradients that follow; the update
 * divides by it.
 *
 *     f16    0 --|--------------------------------------------|--> infinity
 *              2^-24         gradients                      65504
 *                         [=========]----- x scale ---->[=========]
 *
 * The largest scale that suits is unknown, and changes. It is found by trying: `scale` begins at 2^7. If a summed
 * gradient is infinite or NaN, the update is skipped and scale is halved. After GS_LOSS_SCALE_STEPS updates without
 * that it is doubled. All workers look at the same sum, or tell each other, so all skip the same updates and have the
 * same scale.
 *
 * Others begin at 2^16, but their loss is the mean of a batch, and ours the sum: with 512 rows the gradients are the
 * same. A scale that is far too large at first does harm, because the skipped updates are those of the largest
 * gradients: gpt that began at 2^16 skipped 7 of its first 23.
 *
 * bf16 has f32's range, and needs none of this.
 *
 * Source: Micikevicius et al., "Mixed precision training" (ICLR 2018), 3.2; a scale that is found by trying: NVIDIA,
 * "Train with mixed precision" (its user's guide).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Powers of two: where it begins, and its limits. */
#define GS_LOSS_SCALE_FIRST 0x1p7f
#define GS_LOSS_SCALE_LEAST 0x1p-24f
#define GS_LOSS_SCALE_MOST 0x1p24f
enum {
    GS_LOSS_SCALE_STEPS = 2000,
    GS_LOSS_SCALE_HOPELESS = 32 /* consecutive updates left out with the least scale: no scale will do */
};

typedef struct gs_loss_scale {
    float scale;      /* of the next step; 0: the loss is not scaled, and all below means nothing */
    uint32_t good;    /* updates since it was changed */
    float used;       /* that of the last step */
    uint32_t floored; /* the last consecutive updates that were left out with the least scale */
    bool skipped;     /* the last step's update was left out ... */
    uint64_t skips;   /* ... and so many of this run were */
} gs_loss_scale;

/* Count a step, whose gradients were finite or not. */
void gs_loss_scale_step(gs_loss_scale *, bool finite);

/* Can a run have this scale and this count? For values from a file. */
bool gs_loss_scale_is_valid(double scale, uint64_t good);
