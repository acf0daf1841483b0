/* The inside of remote.h: a socket between a checker and one hand-in process. */
#pragma once

#include "remote.h"

enum {
    LAB_HAND_IN_FD = 3,        /* the hand-in's end */
    LAB_WIRE_BUFFER = 1 << 16, /* bytes */
    LAB_MOST_ARRAY = 1 << 28,  /* bytes of an array that somebody sends */
    LAB_MOST_RANKS = 64,
    LAB_MOST_NESTED = 16, /* calls that wait for each other */
    LAB_NOTE = 200,       /* letters about a call's arguments */
    LAB_COMMON = 1000     /* function numbers from here on: remote/common.c, the same for all labs */
};

typedef enum lab_way { LAB_ASKS, LAB_IS_ASKED, LAB_ANSWERS, LAB_IS_ANSWERED } lab_way;

struct lab_wire {
    int fd;
    lab_way way;
    int nested;           /* calls under way */
    struct gs_sync *sync; /* the checker's, of the call under way; NULL: it has none */
    struct gs_comm *comm;
    struct lab_room *rooms; /* arrays that came in with the call under way */
    char called[LAB_NOTE];  /* the numbers that the call under way was asked with: "n = 0, epoch = 1" */
    size_t out_used, in_used, in_end;
    unsigned char out[LAB_WIRE_BUFFER], in[LAB_WIRE_BUFFER];
};

extern const lab_function lab_common[];

/* This thread's wire. The checker's are in checker.c, the hand-in's only one in hand_in.c. */
lab_wire *lab_wire_here(void);

/* The other end is gone, or has sent what makes no sense. Does not return. */
_Noreturn void lab_wire_lost(lab_wire *, const char *why);

/* A blank was met in the hand-in: never in the checker. Does not return in the checker. */
void lab_wire_blank(const char *task);

/* Ask the hand-in whether LeakSanitizer finds memory that is lost. For the checker. */
bool lab_wire_leaks(lab_wire *);

/* Ask the other end for a function. Serves its own calls back meanwhile. */
void lab_wire_ask(lab_wire *, int index, void *arguments);

/* Serve one call of the other end, which is the next thing to come. False: the other end has closed the wire. */
bool lab_wire_serve(lab_wire *);

/* What begins each message; after LAB_BLANK comes the blank's text. LAB_READY is the first byte of a hand-in, from its
 * main. */
enum { LAB_BLANK_TEXT = 48 };
typedef enum lab_tag { LAB_CALL = 'c', LAB_ANSWER = 'a', LAB_BLANK = 'b', LAB_READY = 'r' } lab_tag;

/* Add to what is noted of the call under way, if this program asks; a comma comes between two notes. */
void lab_wire_note(lab_wire *, const char *format, ...) __attribute__((format(printf, 2, 3)));

void lab_wire_write(lab_wire *, const void *, size_t bytes);
void lab_wire_read(lab_wire *, void *, size_t bytes);
void lab_wire_flush(lab_wire *);

/* ---- rooms.c: memory for one array, with not one byte more ---- */

/* In turn: an ordinary block, whose ends AddressSanitizer watches; one that ends where no memory follows; one that
 * begins where there is none before. The last two need no sanitizer, so no code can be kept from being watched. Each
 * call begins with another of the three, so that in three calls each of its arrays has been all of them; *list is NULL
 * where a call begins. NULL: out of memory. */
void *lab_room_create(struct lab_room **list, size_t bytes);
void lab_rooms_free(struct lab_room **list);
