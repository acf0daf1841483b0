/* Which settings take less memory: the rows of one table, cheapest in time first. `gradsum memory` lists what each
 * would save, and --fit goes through them in this order. A new option joins by its row in memory_levers.c.
 */
#pragma once

#include "train/memory/memory.h"

typedef struct gs_memory_lever {
    /* It gives up what was asked for, or changes the training, or is a row for the list alone: --fit leaves it. */
    bool asked_for;
    /* How far it can be moved from the settings of the plan: degrees 0, 1, ... take less and less; 0: it cannot. */
    int (*degrees)(const gs_memory_plan *);
    /* Which of them is row i of the list, from 0; -1: there are no more rows. NULL: all are. */
    int (*listed)(const gs_memory_plan *, int i);
    /* Make that degree of it in *s, and fill in option, formula and costs. */
    void (*set)(const gs_memory_plan *, int degree, gs_settings *s, gs_memory_option *);
} gs_memory_lever;

enum { GS_MEMORY_LEVERS = 13 };
extern const gs_memory_lever gs_memory_levers[GS_MEMORY_LEVERS];

/* What the fullest worker takes with these settings; INFINITY: they are refused. *again: as of a plan (NULL: nobody
 * asks). */
double gs_memory_with(const gs_memory_plan *, const gs_settings *, double *again);
