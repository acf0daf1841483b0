/* `gradsum doctor`: is this machine fit for a run, and do the machines of a run reach each other? Each finding is a
 * line, and behind it what to do.
 */
#pragma once

#include "comm/comm.h"

struct gs_probe;

typedef enum gs_finding { GS_WELL, GS_NOTE, GS_WRONG } gs_finding;

typedef struct gs_doctor {
    bool json;
    int notes, wrong; /* so far */
    const char *data; /* what train would take */
    int processes;    /* on this machine, */
    int nodes, node;  /* of so many machines; which one this is */
    const char *meet; /* NULL: this machine alone is looked at */
    const char *interface;
    double timeout;  /* s to wait for latecomers */
    char facts[900]; /* what the other machines are told: lines of a name and a value */
} gs_doctor;

/* ---- say.c ---- */

/* A finding about `what`; advice: what to do, or NULL. */
void gs_doctor_say(gs_doctor *, gs_finding, const char *what, const char *advice, const char *format, ...)
    GS_PRINTF(5, 6);

/* A heading, in text. */
void gs_doctor_title(const gs_doctor *, const char *);

/* The last line, and the exit status of the command. */
int gs_doctor_end(const gs_doctor *);

/* Append "name value" to what the other machines are told. */
void gs_doctor_fact(gs_doctor *, const char *name, const char *format, ...) GS_PRINTF(3, 4);

/* ---- machine.c, computes.c, network.c: this machine ---- */

void gs_doctor_machine(gs_doctor *);  /* version, cores, memory, files, shared memory, folders */
void gs_doctor_computes(gs_doctor *); /* devices, libraries, kernels, data */
void gs_doctor_network(gs_doctor *);  /* interfaces, names, ports, the secret */

/* ---- others.c: the others ---- */

/* Meet them, and tell what was found. */
void gs_doctor_others(gs_doctor *);
