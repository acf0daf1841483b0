/* How the calls of lab 1 travel. */
#include "tasks.h"

#include "remote/remote.h"

enum { TOGETHER, AMDAHL, SPEED_UP, DATA_BOUND_FROM, CROSSOVER };

/* Arguments and results of all five: each function has some of them. */
typedef struct prediction {
    double loader, step, serial, sum_seconds;
    int workers;
    bool shared;
    double *waits;
    double result;
    int from;
    size_t batch;
} prediction;

static void pass(lab_wire *w, void *arguments) {
    prediction *a = arguments;
    LAB_VALUES(w, a->loader, a->step, a->serial, a->sum_seconds, a->workers, a->shared);
    LAB_INOUT(w, a->waits, 1);
    LAB_RESULT(w, a->result);
    LAB_RESULT(w, a->from);
    LAB_RESULT(w, a->batch);
}

#ifdef LAB_HAND_IN

LAB_CALLER(call_together, prediction, a->result = lab_together(a->loader, a->step, a->waits))
LAB_CALLER(call_amdahl, prediction, a->result = lab_amdahl(a->serial, a->workers))
LAB_CALLER(call_speed_up, prediction, a->result = lab_speed_up(a->loader, a->step, a->workers, a->shared))
LAB_CALLER(call_data_bound_from, prediction, a->from = lab_data_bound_from(a->loader, a->step, a->shared))
LAB_CALLER(call_crossover, prediction, a->batch = lab_crossover(a->step, a->workers, a->sum_seconds))

#else

double lab_together(double loader, double step, double *waits) {
    LAB_ASK(TOGETHER, prediction, result, .loader = loader, .step = step, .waits = waits);
}

double lab_amdahl(double serial, int workers) {
    LAB_ASK(AMDAHL, prediction, result, .serial = serial, .workers = workers);
}

double lab_speed_up(double loader, double step, int workers, bool shared) {
    LAB_ASK(SPEED_UP, prediction, result, .loader = loader, .step = step, .workers = workers,
            .shared = shared);
}

int lab_data_bound_from(double loader, double step, bool shared) {
    LAB_ASK(DATA_BOUND_FROM, prediction, from, .loader = loader, .step = step, .shared = shared);
}

size_t lab_crossover(double step, int workers, double sum_seconds) {
    LAB_ASK(CROSSOVER, prediction, batch, .step = step, .workers = workers, .sum_seconds = sum_seconds);
}
#endif

const lab_function lab_functions[] = {
    {sizeof(prediction), pass, LAB_THEIRS(call_together)},
    {sizeof(prediction), pass, LAB_THEIRS(call_amdahl)},
    {sizeof(prediction), pass, LAB_THEIRS(call_speed_up)},
    {sizeof(prediction), pass, LAB_THEIRS(call_data_bound_from)},
    {sizeof(prediction), pass, LAB_THEIRS(call_crossover)},
    {0},
};
