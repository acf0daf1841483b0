#include <pthread.h>
#include "cl/cl.h"

static pthread_mutex_t setting_up = PTHREAD_MUTEX_INITIALIZER;

void gs_cl_lock(void) {
    pthread_mutex_lock(&setting_up);
}

void gs_cl_unlock(void) {
    pthread_mutex_unlock(&setting_up);
}
