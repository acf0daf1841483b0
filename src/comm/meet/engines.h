/* What other programs that start processes say of them in the environment. A new one is a row in engines.c, and a
 * function if it says where the processes meet. Only for src/comm/. */
#pragma once

#include "comm/comm.h"

enum { GS_PROCESSES = 4096 /* at most */, GS_ENGINE_PORTS = 16 };

/* Fill in rank, size, and how to meet, if one of them has started this process; else nothing changes. GS_E_USAGE: its
 * variables make no sense, or this is one of several processes and neither they nor GRADSUM_RENDEZVOUS say where these
 * meet. */
gs_status gs_engines_look(gs_rendezvous *);

/* A whole number of the variable `name`, in its range. GS_E_USAGE: it is none. */
gs_status gs_engine_number(const char *name, const char *text, int least, int most, int *out);

/* The first host in a list of Slurm's: "node[07-09,12],gpu1" -> "node07". False: there is none, or it is too long. */
bool gs_engine_first_host(const char *list, char *host, size_t size);
