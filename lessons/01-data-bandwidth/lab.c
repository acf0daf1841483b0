/* Lesson 1: what bounds a run, and when do more workers help? The blanks are marked "task 1.1" to "task 1.5"; tasks.h
 * says what each function must do.
 *
 *     make lab-01                                                     builds and grades this file
 *     build/lessons/01/gradsum profile --model lenet --throttle 5     your predictions beside the measurement
 */
#include "tasks.h"

#include <math.h>
#include "lab.h"

double lab_together(double loader, double step, double *waits) {
    /* task 1.1: two things happen at the same time, and the slower one sets the pace. Set *waits, return
     * samples a second. */
    (void)loader, (void)step;
    *waits = 0;
    lab_blank("1.1");
    return 0;
    /* end of task 1.1 */
}

double lab_amdahl(double serial, int workers) {
    /* task 1.2: the time of one worker is 1; what is the time of `workers`? Return the ratio. */
    (void)serial, (void)workers;
    lab_blank("1.2");
    return 0;
    /* end of task 1.2 */
}

double lab_speed_up(double loader, double step, int workers, bool shared) {
    /* task 1.3: what do `workers` compute in a second, what does one? Return the ratio. */
    (void)loader, (void)step, (void)workers, (void)shared;
    lab_blank("1.3");
    return 0;
    /* end of task 1.3 */
}

int lab_data_bound_from(double loader, double step, bool shared) {
    /* task 1.4: look for the smallest number of workers that need MORE than is supplied. Think of a disk that is
     * too slow for one, of one that is never too slow, and of one that supplies exactly enough for 4. */
    (void)loader, (void)step, (void)shared;
    lab_blank("1.4");
    return 0;
    /* end of task 1.4 */
}

size_t lab_crossover(double step, int workers, double sum_seconds) {
    /* task 1.5: write the time of a step of one worker and of `workers`, for a batch of B; then look for the
     * smallest B. It may be in the millions. */
    (void)step, (void)workers, (void)sum_seconds;
    lab_blank("1.5");
    return 0;
    /* end of task 1.5 */
}
