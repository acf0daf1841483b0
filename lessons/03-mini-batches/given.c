/* Lab 3, as given: the student's update replaces the backend's operator (src/backend.h). */
#include "tasks.h"

#include "cpu/cpu.h" /* gs_cpu_floats(m): where the floats of a gs_mem begin; NULL for GS_NONE */
#include "lab.h"

static gs_status sgd_update(gs_device *d, gs_mem w, gs_mem v, gs_mem dw, size_t count, float scale, float lr,
                            float momentum, float weight_decay) {
    (void)d;
    lab_sgd(gs_cpu_floats(w), gs_cpu_floats(v), gs_cpu_floats(dw), count, scale, lr, momentum, weight_decay);
    return GS_OK;
}

static void edit(gs_backend *table) {
    table->sgd_update = sgd_update;
}

void lab_install(void) {
    gs_backend_replace(edit);
}
