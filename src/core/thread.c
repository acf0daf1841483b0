#include "core/thread.h"

enum { STACK = 8 << 20 };

int gs_thread_start(pthread_t *thread, void *(*run)(void *), void *argument) {
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error != 0) return error;
    error = pthread_attr_setstacksize(&attributes, STACK);
    if (error == 0) error = pthread_create(thread, &attributes, run, argument);
    pthread_attr_destroy(&attributes);
    return error;
}

void gs_thread_enlarge_default(void) {
#ifdef __GLIBC__
    pthread_attr_t attributes;
    size_t size;
    if (pthread_getattr_default_np(&attributes) != 0) return;
    if (pthread_attr_getstacksize(&attributes, &size) == 0 && size < STACK &&
        pthread_attr_setstacksize(&attributes, STACK) == 0)
        pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
#endif
}
