/* Loss scaling, for gradients in f16 (device->precision).
 *
 * In f16, magnitudes below 2^-25 become 0. Gradients are often that small, and they are far below 65504, the largest
 * f16. So the loss's gradient is multiplied by a power of two, `scale`, which scales all gradients computed from it;
 * the update divides by it.
 *
 *     f16    0 --|--------------------------------------------|--> infinity
 *              2^-24         gradients                      65504
 *                         [=========]----- x scale ---->[=========]
 *
 * The largest usable scale is unknown and changes during training. It is found by trial: `scale` starts at 2^7. If a
 * summed gradient is infinite or NaN, the update is skipped and scale is halved. After GS_LOSS_SCALE_STEPS updates in a
 * row without a skip, it is doubled. All workers look at the same sum, or inform each other, so all skip the same
 * updates and use the same scale.
 *
 * Other frameworks start at 2^16, but their loss is the batch mean and ours is the sum: with 512 rows the scaled
 * gradients come out the same. An initial scale that is far too large does harm, because the skipped updates are those
 * with the largest gradients: a gpt run that started at 2^16 skipped 7 of its first 23 updates.
 *
 * bf16 has f32's range and needs no loss scaling.
 *
 * Source: Micikevicius et al., "Mixed precision training" (ICLR 2018), 3.2; finding the scale by trial: NVIDIA, "Train
 * with mixed precision" (its user's guide). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Powers of two: the initial scale, and its limits. */
#define GS_LOSS_SCALE_FIRST 0x1p7f
#define GS_LOSS_SCALE_LEAST 0x1p-24f
#define GS_LOSS_SCALE_MOST 0x1p24f
enum {
    GS_LOSS_SCALE_STEPS = 2000,
    GS_LOSS_SCALE_HOPELESS = 32 /* after this many skips in a row at the lowest scale, no scale will work */
};

typedef struct gs_loss_scale {
    float scale;      /* for the next step; 0: the loss is not scaled, and the fields below are unused */
    uint32_t good;    /* updates since the scale last changed */
    float used;       /* the scale of the last step */
    uint32_t floored; /* so far: updates skipped in a row at the lowest scale */
    bool skipped;     /* the last step's update was skipped ... */
    uint64_t skips;   /* ... and the number of skips in this run */
} gs_loss_scale;

/* Record a step and whether its gradients were finite. */
void gs_loss_scale_step(gs_loss_scale *, bool finite);

/* Can a run have these values of `scale` and `good`? For values read from a file. */
bool gs_loss_scale_is_valid(double scale, uint64_t good);
