/* Only for store_server.c: the socket at which it listens. */
#pragma once

#include "comm/meet/store.h"

enum { GS_STORE_WHERE = 160 };

/* See gs_store_server_create. where: "10.0.0.7 port 29400 (eth0)". */
gs_status gs_store_listen(const gs_meet_place *, int ports, const unsigned char key[GS_SECRET], int *listener,
                          int *port, char where[GS_STORE_WHERE]);
