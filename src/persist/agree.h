/* From which step do the processes of a new generation go on? Each tells the others what it has kept (carry.h), so all
 * come to the same answer. */
#pragma once

#include <stdint.h>

#include "core/error.h"

enum { GS_COPIES = 2 /* that a process keeps */, GS_CARD_HASH = 65 };

/* What a process tells the others of each of its copies. */
typedef struct gs_card {
    uint64_t valid, step, updates, good, samples, saved, params, vectors; /* valid 0: it has no such copy */
    float loss_scale;
    char hash[GS_CARD_HASH]; /* SHA-256 of the state */
} gs_card;

/* Of a process's GS_COPIES cards that of its last step, or that of this step; NULL: it has none (carry.c). */
const gs_card *gs_card_newest(const gs_card *of);
const gs_card *gs_card_of_step(const gs_card *of, uint64_t step);

/* all[size * GS_COPIES]: the cards of process 0, those of process 1, ...; a new one has none that is valid. *step: the
 * last step that all survivors have; *first: the first of them, who sends its state to the new ones; -1: nobody has
 * one, and the run begins. GS_E_DIFFER: a survivor has no copy of that step, or another state. */
gs_status gs_cards_agree(const gs_card *all, int size, uint64_t *step, int *first);
