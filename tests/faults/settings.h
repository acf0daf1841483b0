/* The runs in which mistakes are planted: name, settings that differ from fault_settings(). */
#pragma once

#include "gradsum.h"

/* clang-format off */
#define FAULT_SETTINGS(X) \
    X(one) X(two) X(three) X(four) X(two_epochs) X(images) X(zero1) X(tied_pipeline) X(two_rounded) \
    X(two_dropout) X(accumulate_dropout) X(two_norm) X(two_tied) X(accumulate) X(accumulate_two) \
    X(accumulate_three) X(pieces) X(smoothed) X(clip_two) X(clip_three) X(clip_zero) X(clip_f16) X(f16) \
    X(scheduled_accumulate) X(scheduled_two) X(adam) X(adamw) X(decay) X(decay_three) X(lamb_zero) X(gpt) \
    X(resnet) X(pool)
/* clang-format on */

#define FAULT_DECLARE(name) void settings_##name(gs_settings *);
FAULT_SETTINGS(FAULT_DECLARE)
#undef FAULT_DECLARE
