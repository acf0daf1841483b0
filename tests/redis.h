/* A server of Redis for tests, on this machine. */
#pragma once

/* Its port; 0: it is not installed. It dies with this process. */
int gs_test_redis_start(void);

/* It answers nobody for so many seconds, which begin now; returns at once. */
void gs_test_redis_pause(double seconds);

void gs_test_redis_end(void); /* none may run */
