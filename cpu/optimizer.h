/* What the updates of all optimisers share. */
#pragma once

#include "cpu/cpu.h"

#include <float.h>
#include <math.h>

/* Where a gradient stays 0, after a ReLU that lets nothing through any more, v = momentum v falls forever. Below
 * FLT_MIN, after some 800 steps, floats are subnormal: a core is many times slower with them, and they never become 0,
 * because 0.9 times the smallest of them is rounded to the smallest. So v ends here. `gradsum train --model mlp
 * --threads 1 --batch 16 --epochs 9 --steps 2500` made 12,000 samples/s without this line, and 21,800 with it. */
static inline float or_zero(float v) {
    return fabsf(v) < FLT_MIN ? 0.0f : v;
}
