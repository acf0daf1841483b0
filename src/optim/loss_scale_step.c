#include "optim/loss_scale.h"

void gs_loss_scale_step(gs_loss_scale *s, bool finite) {
    s->used = s->scale;
    s->skipped = !finite;
    s->floored = finite || s->scale > GS_LOSS_SCALE_LEAST ? 0 : s->floored + 1;
    s->good = finite ? s->good + 1 : 0;
    if (!finite) {
        s->skips++;
        if (s->scale > GS_LOSS_SCALE_LEAST) s->scale /= 2;
    } else if (s->good == GS_LOSS_SCALE_STEPS) {
        s->good = 0;
        if (s->scale < GS_LOSS_SCALE_MOST) s->scale *= 2;
    }
}
