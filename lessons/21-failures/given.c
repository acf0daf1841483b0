/* Lab 21, as given: `gradsum simulate --mtbf` uses the formulas of lab.c instead of the library's (in the open source
 * src/predict/interval.c). gs_snapshots_agree has the library's name, and replaces src/persist/snapshot_id.c. */
#include "tasks.h"

double gs_failures_time(const gs_failures *f, double mtbf, double every) {
    return lab_expected(f, mtbf, every);
}

double gs_failures_daly(double checkpoint, double mtbf) {
    return lab_interval(checkpoint, mtbf);
}
