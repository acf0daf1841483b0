/* Why the stages of a pipeline wait: the time in which they do not compute, split into its causes.
 *
 * T is the time from the first forward of a step to its last backward. The p stages have p T of it, and compute for the
 * sum of all passes, `busy`; for the rest they wait. The causes are read off the critical path of the step, as it was
 * measured. From the pass that ends last, go back: it waited for the pass before it on its stage, or for the one whose
 * message it needs, whichever ended later; and so on, back to the first forward. For p = 2 and m = 3, drawn as in
 * schedule.h, with = behind what is on the path:
 *
 *     stage 0   0= 1  .  .  0  0  2  1  1  .  2= 2=
 *     stage 1   .  0= 0= 0= 1= 1= 1= 2= 2= 2= .  .
 *
 * T is the sum of the passes on the path and of the gaps between them: a pass begins somewhat later than what it waited
 * for has ended.
 *
 * Let t(x) be what pass x took; mean(x) the mean over all micro-batches of the passes of the same layers in the same
 * direction; f and b the means of all forward and of all backward passes. A path with n_f forward and n_b backward
 * passes takes the sum of t(x) and of the gaps, and a stage of v runs of layers has m v passes in each direction. So
 *
 *     p T - busy  =  p ((n_f - m v) f + (n_b - m v) b)         fill and drain: the path has more than one stage's work
 *                  + p (the sum over the path of mean(x) - f, of backward passes - b)      stages of unequal times
 *                  + p (the sum over the path of t(x) - mean(x))                           uneven times of a pass
 *                  + p (the sum of the gaps)                     messages: copies, late wake-ups, loads in between
 *
 * exactly, summed over the steps that were measured. A right schedule has n_f = n_b = v m + p - 1: then fill and drain
 * alone make the formula's share, fill / (busy + fill) = (p - 1) / (v m + p - 1). A schedule that lets stages wait
 * where they need not has a longer path: micro-batches one by one have n_f = p m. Where a stage takes far longer than
 * the others, the path stays with it and may be shorter. A part may be below 0, where the path went through passes that
 * were faster than the mean.
 *
 * Source: critical path analysis of message traces: Yang and Miller, "Critical path analysis for the execution of
 * parallel and distributed programs" (ICDCS 1988).
 */
#pragma once

#include "train/pipeline/schedule.h"

/* Seconds, of all stages together and summed over steps. */
typedef struct gs_pipeline_waits {
    double all;  /* p T */
    double busy; /* all - busy = fill + unequal + uneven + messages */
    double fill, unequal, uneven, messages;
} gs_pipeline_waits;

/* What fill and drain would be as a share of the time if there were no other waits; 0: there is no time at all. */
static inline double gs_pipeline_fill_alone(const gs_pipeline_waits *w) {
    return w->busy + w->fill > 0 ? w->fill / (w->busy + w->fill) : 0;
}

/* time[(stage x steps + step) x passes + i]: when pass i of a stage's list was made (gs_passes_of_stage), by a clock
 * that is the same for all stages within a step. seconds: NULL, or room for 2 p v: forward passes of each run r = chunk
 * x p + stage, then backward ones, summed. steps: at least 1. GS_E_MEMORY. */
gs_status gs_pipeline_waits_of(const gs_pipeline *, const gs_instructions *lists, const gs_pass_time *time,
                               size_t steps, gs_pipeline_waits *out, double *seconds);
