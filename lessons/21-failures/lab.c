/* Lab 21: failures. See README.md, and tasks.h for what each function must do. */
#include "tasks.h"

#include <math.h>
#include <string.h>

gs_status lab_save(const char *name, const char *temporary, const void *data, size_t bytes) {
    /* task 21.1: in which order do bytes and names reach the disk? And what does a failed call leave behind? */
    (void)name, (void)temporary, (void)data, (void)bytes;
    return lab_blank("21.1");
    /* end of task 21.1 */
}

uint64_t lab_newest(size_t files, const lab_file *file) {
    /* task 21.2: count the parts of each checkpoint that match their manifest. */
    (void)files, (void)file;
    lab_blank("21.2");
    return 0;
    /* end of task 21.2 */
}

double lab_mtbf(size_t kinds, const lab_things *kind) {
    /* task 21.3: how many failures are there in a second, of all things together? */
    (void)kinds, (void)kind;
    lab_blank("21.3");
    return 0;
    /* end of task 21.3 */
}

double lab_expected(const gs_failures *f, double mtbf, double every) {
    /* task 21.3: segment by segment. How long is the last one? */
    (void)f, (void)mtbf, (void)every;
    lab_blank("21.3 (lab_expected)");
    return 0;
    /* end of task 21.3 */
}

double lab_interval(double checkpoint, double mtbf) {
    /* task 21.3: a formula, or a search. As segments get longer, the cost falls, then rises. */
    (void)checkpoint, (void)mtbf;
    lab_blank("21.3 (lab_interval)");
    return 0;
    /* end of task 21.3 */
}

int lab_suspect(int me, int ranks, const int *waits_for, const double *seconds, double timeout) {
    /* task 21.4: from rank to rank. How do you notice a circle? */
    (void)me, (void)ranks, (void)waits_for, (void)seconds, (void)timeout;
    lab_blank("21.4");
    return 0;
    /* end of task 21.4 */
}

gs_status gs_snapshots_agree(const gs_snapshot_id *all, int size, uint64_t *step, int *first) {
    /* task 21.5: who is a survivor? What is each one's last step, and which step do all have? Are the states equal? */
    (void)all, (void)size, (void)step, (void)first;
    return lab_blank("21.5");
    /* end of task 21.5 */
}
