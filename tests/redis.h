/* A server of Redis for tests, on this machine. */
#pragma once

/* Its port; 0: it is not installed. It dies with this process. */
int gs_test_redis_start(void);

void gs_test_redis_end(void); /* none may run */
