/* Lab 6, as given: the student's functions become two schemes of the running framework. */
#include "tasks.h"

static gs_status server_sum(gs_sync *s, float *data, size_t count) {
    GS_TRY(collect(s, data, count));
    return give_back(s, data, count);
}

static gs_sync_scheme server, sharded_server;

void lab_install(void) {
    server = gs_sync_ps;
    server.what = "lab 6: the server of lab.c";
    server.sum = server_sum;
    server.cost = server_cost;
    server.time = server_time;
    gs_sync_replace("ps", &server);

    sharded_server = gs_sync_sharded_ps;
    sharded_server.what = "lab 6: every rank a server, of lab.c";
    sharded_server.sum = sharded;
    gs_sync_replace("sharded_ps", &sharded_server);
}
