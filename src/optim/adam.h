/* What optimisers of Adam's kind share: the numbers of one step. */
#pragma once

#include "optim/optimizer.h"

/* Of the next update, without weight decay: t = updates + 1. `keep` is 1, `l2` is 0. */
gs_adam_step gs_adam_step_of(const gs_optimizer *, float scale);
