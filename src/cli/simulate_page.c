#include "cli/simulate.h"
gs_status gs_simulate_page(const gs_simulate_answer *a, const char *path, int argc, char *const *argv) {
    (void)a, (void)path, (void)argc, (void)argv;
    return GS_OK;
}
