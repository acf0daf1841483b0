/* Lab 21: failures. See README.md, and tasks.h for what each function must do. */
#include "tasks.h"

#include <math.h>
#include <string.h>

gs_status lab_save(const char *name, const char *temporary, const void *data, size_t bytes) {
    /* task 21.1: in which order do bytes and names reach the disk? And what does a failed call leave behind? */
    gs_status status = disk_write(temporary, data, bytes);
    if (status == GS_OK) status = disk_sync(temporary);
    if (status == GS_OK) status = disk_rename(temporary, name);
    if (status == GS_OK) return disk_sync_folder();
    disk_remove(temporary);
    return status;
    /* end of task 21.1 */
}

uint64_t lab_newest(size_t files, const lab_file *file) {
    /* task 21.2: count the parts of each checkpoint that match their manifest. */
    uint64_t newest = 0;
    for (size_t i = 0; i < files; i++) {
        int whole = 0;
        for (size_t k = 0; k < files; k++)
            whole += file[k].step == file[i].step && file[k].of == file[i].of && file[k].has_manifest &&
                     lab_hash(file[k].data, file[k].bytes) == file[k].hash;
        if (whole == file[i].of && file[i].step > newest) newest = file[i].step;
    }
    return newest;
    /* end of task 21.2 */
}

double lab_mtbf(size_t kinds, const lab_things *kind) {
    /* task 21.3: how many failures are there in a second, of all things together? */
    double rate = 0;
    for (size_t k = 0; k < kinds; k++) rate += (double)kind[k].count / kind[k].mtbf;
    return 1 / rate;
    /* end of task 21.3 */
}

double lab_expected(const gs_failures *f, double mtbf, double every) {
    /* task 21.3: segment by segment. How long is the last one? */
    double time = 0, rest = f->work;
    while (rest > 0) {
        double length = rest > every ? every + f->checkpoint : rest;
        time += mtbf * exp(f->restart / mtbf) * expm1(length / mtbf);
        rest -= every;
    }
    return time;
    /* end of task 21.3 */
}

double lab_interval(double checkpoint, double mtbf) {
    /* task 21.3: a formula, or a search. As segments get longer, the cost falls, then rises. */
    double less = 0, more = mtbf;
    for (int i = 0; i < 100; i++) {
        double tau = (less + more) / 2;
        if ((1 - tau / mtbf) * exp((tau + checkpoint) / mtbf) > 1)
            less = tau;
        else
            more = tau;
    }
    return less;
    /* end of task 21.3 */
}

int lab_suspect(int me, int ranks, const int *waits_for, const double *seconds, double timeout) {
    /* task 21.4: from rank to rank. How do you notice a circle? */
    int r = me;
    for (int hops = 0; hops <= ranks; hops++) {
        if (waits_for[r] < 0 || seconds[r] < timeout / 2) return r;
        r = waits_for[r];
    }
    return -1;
    /* end of task 21.4 */
}

gs_status gs_snapshots_agree(const gs_snapshot_id *all, int size, uint64_t *step, int *first) {
    /* task 21.5: who is a survivor? What is each one's last step, and which step do all have? Are the states equal? */
    *first = -1;
    for (int r = size - 1; r >= 0; r--) {
        const gs_snapshot_id *last = gs_snapshot_id_newest(all + r * GS_SNAPSHOTS);
        if (!last) continue;
        if (*first < 0 || last->step < *step) *step = last->step;
        *first = r;
    }
    for (int r = 0; r < size && *first >= 0; r++) {
        if (!gs_snapshot_id_newest(all + r * GS_SNAPSHOTS)) continue;
        const gs_snapshot_id *its = gs_snapshot_id_of_step(all + r * GS_SNAPSHOTS, *step);
        const gs_snapshot_id *wanted = gs_snapshot_id_of_step(all + *first * GS_SNAPSHOTS, *step);
        if (!its || !wanted || strcmp(its->hash, wanted->hash) != 0)
            return gs_fail(GS_E_DIFFER, "rank %d does not have the state of rank %d", r, *first);
    }
    return GS_OK;
    /* end of task 21.5 */
}
