/* Shared by optimisers of Adam's kind: the constants of one step. */
#pragma once

#include "optim/optimizer.h"

/* The constants of the next update, without weight decay: t = updates + 1. `keep` is 1, `l2` is 0. */
gs_adam_step gs_adam_step_of(const gs_optimizer *, float scale);
