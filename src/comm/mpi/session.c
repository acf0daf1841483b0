/* MPI_Init_thread and MPI_Finalize wait for the other processes with no limit of their own. So one thread makes both
 * calls (MPI wants them from the same thread). Whoever needs them waits for that thread, but not forever. */
#ifdef GRADSUM_MPI
#include "comm/mpi/session.h"
#include "core/clock.h"
#include "core/thread.h"

#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

static const double LOOK = 0.2; /* seconds between two looks at the clock */

typedef enum phase { NOT_BEGUN, BEGINNING, BEGUN, ENDING, ENDED } phase;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    phase phase;
    bool broken;
    int error, level;
    double timeout;
} session = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void set_phase_locked(phase now) {
    session.phase = now;
    pthread_cond_broadcast(&session.changed);
}

/* Wait until the phase is `wanted`; false if that takes too long. */
static bool wait_locked(phase wanted) {
    const double until = gs_awake_seconds() + session.timeout;
    while (session.phase != wanted && gs_awake_seconds() < until) {
        const struct timespec look = gs_timespec(gs_seconds() + LOOK);
        pthread_cond_clockwait(&session.changed, &session.lock, CLOCK_MONOTONIC, &look);
    }
    return session.phase == wanted;
}

static void *run_session(void *argument) {
    int level = MPI_THREAD_SINGLE, error = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    if (error == MPI_SUCCESS) error = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (error == MPI_SUCCESS) error = MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    pthread_mutex_lock(&session.lock);
    session.level = level;
    session.error = error;
    set_phase_locked(BEGUN);
    while (session.phase != ENDING) pthread_cond_wait(&session.changed, &session.lock);
    pthread_mutex_unlock(&session.lock);
    MPI_Finalize();
    pthread_mutex_lock(&session.lock);
    set_phase_locked(ENDED);
    pthread_mutex_unlock(&session.lock);
    return argument;
}

static void end_session(void) {
    pthread_mutex_lock(&session.lock);
    if (session.phase == BEGUN && session.error == MPI_SUCCESS && !session.broken) {
        set_phase_locked(ENDING);
        wait_locked(ENDED);
    }
    pthread_mutex_unlock(&session.lock);
}

static gs_status waited_too_long(double timeout) {
    long pid;
    int rank;
    if (gs_mpi_stopped_sibling(&rank, &pid))
        return gs_fail(
            GS_E_PEER,
            "MPI_Init waited %g s for the other processes of mpirun: rank %d (process %ld) is stopped",
            timeout, rank, pid);
    return gs_fail(GS_E_PEER,
                   "MPI_Init waited %g s for the other processes of mpirun; it does not say which, and none "
                   "on this machine is stopped",
                   timeout);
}

static gs_status begin_locked(double timeout) {
    pthread_t thread;
    session.timeout = timeout;
    if (session.phase == NOT_BEGUN) {
        if (gs_thread_start(&thread, run_session, NULL) != 0)
            return gs_fail(GS_E_MEMORY, "cannot start a thread for MPI");
        pthread_detach(thread);
        atexit(end_session);
        session.phase = BEGINNING;
    }
    if (session.broken) return gs_fail(GS_E_PEER, "MPI has already failed in this process");
    if (session.phase != BEGUN && !wait_locked(BEGUN)) return waited_too_long(timeout);
    if (session.error != MPI_SUCCESS)
        return gs_fail(GS_E_PEER, "MPI_Init_thread failed with error %d", session.error);
    return GS_OK;
}

gs_status gs_mpi_begin(double timeout, int *level) {
    pthread_mutex_lock(&session.lock);
    gs_status status = begin_locked(timeout);
    *level = session.level;
    pthread_mutex_unlock(&session.lock);
    return status;
}

void gs_mpi_break(void) {
    pthread_mutex_lock(&session.lock);
    session.broken = true;
    pthread_mutex_unlock(&session.lock);
}
#endif
