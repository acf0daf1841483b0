#include "cli/launch/board.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/clock.h"
#include "train/train.h"

#define VARIABLE "GRADSUM_BOARD"
#define SEAT "GRADSUM_SEAT"
#define NAME "gradsum-board"

enum { MEET = 3010 };
static const double LOOK = 0.005,
                    MARGIN = 60; /* seconds; more than the launcher takes to decide, beyond time-outs */

struct gs_elastic_board {
    atomic_int generation, stepped, over;
    atomic_int exact;
    int file; /* the launcher's */
    int size;
    char meet[MEET];
    struct {
        atomic_int asks; /* for this generation */
        int rank;        /* in `generation` */
    } seat[GS_LAUNCH_MOST];
};

/* ---- the launcher ---- */

gs_elastic_board *gs_elastic_board_create(void) {
    const int file = memfd_create(NAME, 0);
    if (file < 0) return NULL;
    gs_elastic_board *b = MAP_FAILED;
    if (ftruncate(file, sizeof *b) == 0)
        b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (b == MAP_FAILED) {
        close(file);
        return NULL;
    }
    b->file = file;
    atomic_store(&b->generation, 1);
    return b;
}

void gs_elastic_board_free(gs_elastic_board *b) {
    if (!b) return;
    close(b->file);
    munmap(b, sizeof *b);
}

int gs_elastic_board_generation(const gs_elastic_board *b) {
    return atomic_load(&b->generation);
}

int gs_elastic_board_stepped(const gs_elastic_board *b) {
    return atomic_load(&b->stepped);
}

bool gs_elastic_board_is_exact(const gs_elastic_board *b) {
    return atomic_load(&b->exact) != 0;
}

bool gs_elastic_board_asks(const gs_elastic_board *b, int seat) {
    return atomic_load(&b->seat[seat].asks) > atomic_load(&b->generation);
}

void gs_elastic_board_begin(gs_elastic_board *b, int generation, int size, const int *rank,
                            const char *meet) {
    b->size = size;
    for (int i = 0; i < GS_LAUNCH_MOST; i++) b->seat[i].rank = rank[i];
    snprintf(b->meet, sizeof b->meet, "%s", meet);
    atomic_store(&b->generation, generation); /* last: who sees it finds the rest */
}

void gs_elastic_board_end(gs_elastic_board *b) {
    atomic_store(&b->over, 1);
}

bool gs_elastic_board_set(const gs_elastic_board *b, int seat) {
    char file[16], number[40];
    snprintf(file, sizeof file, "%d", b->file);
    snprintf(number, sizeof number, "%d %d", seat, gs_elastic_board_generation(b));
    return setenv(VARIABLE, file, 1) == 0 && setenv(SEAT, number, 1) == 0 &&
           gs_launch_set_number("GRADSUM_GENERATION", gs_elastic_board_generation(b));
}

/* ---- a process ---- */

typedef struct place {
    gs_elastic_board *board; /* NULL: there is none */
    int seat, generation;
} place;

/* The launcher's memory, if that is what the variable names: it may be left over from elsewhere. */
static place find_place(void) {
    const char *number = getenv(VARIABLE), *seat = getenv(SEAT);
    place p = {0};
    if (!number || !seat || sscanf(seat, "%d %d", &p.seat, &p.generation) != 2) return p;
    const int file = gs_launch_inherited(VARIABLE, NAME);
    if (file < 0 || p.seat < 0 || p.seat >= GS_LAUNCH_MOST) return p;
    gs_elastic_board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (b != MAP_FAILED) p.board = b;
    return p;
}

static place *here(void) {
    static place p;
    static bool looked;
    if (!looked) p = find_place();
    looked = true;
    return &p;
}

bool gs_elastic_board_is_there(void) {
    return here()->board != NULL;
}

static gs_elastic_board_answer take(const place *p, gs_rendezvous *r) {
    static char meet[MEET];
    const int rank = p->board->seat[p->seat].rank;
    if (rank < 0) return GS_BOARD_LETS_GO;
    memcpy(meet, p->board->meet, sizeof meet);
    r->rank = rank;
    r->size = p->board->size;
    r->directory = meet;
    gs_launch_set_number("GRADSUM_RANK", rank); /* launch_why.c says by it who has failed */
    gs_launch_set_number("GRADSUM_GENERATION", p->generation);
    return GS_BOARD_GOES_ON;
}

gs_elastic_board_answer gs_elastic_board_next(gs_rendezvous *r) {
    place *p = here();
    if (!p->board) return GS_BOARD_ENDS;
    const double until = gs_awake_seconds() + 2 * r->timeout + MARGIN;
    atomic_store(&p->board->seat[p->seat].asks, p->generation + 1);
    while (atomic_load(&p->board->generation) <= p->generation) {
        if (atomic_load(&p->board->over) || gs_stop_requested || gs_awake_seconds() > until)
            return GS_BOARD_ENDS;
        gs_nap(LOOK);
    }
    p->generation = atomic_load(&p->board->generation);
    return take(p, r);
}

void gs_elastic_board_say_exact(void) {
    const place *p = here();
    if (p->board) atomic_store(&p->board->exact, 1);
}

bool gs_elastic_board_is_later(void) {
    const place *p = here();
    return p->board && p->generation > 1;
}

void gs_elastic_board_has_stepped(void) {
    const place *p = here();
    if (p->board) atomic_store(&p->board->stepped, p->generation);
}
