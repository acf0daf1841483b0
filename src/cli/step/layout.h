/* A real step of a run whose workers share the model, recorded and shown: `gradsum step --pipeline 2`, `--zero 3`,
 * `--tensor 2`, with the options of train. The run makes a few steps, of which the last is traced
 * (train/timeline/timeline.h).
 *
 *     layout.c          make the run, and keep its timeline; show it as JSON, and as a page (src/page/layout.js)
 *     layout_facts.c    what is counted in it, beside the formulas: a table, and sentences
 *     layout_text.c     the pictures in 80 columns
 */
#pragma once

#include <stdio.h>

#include "gradsum.h"
#include "train/layout/layout_plan.h"
#include "train/timeline/timeline.h"

/* What of a layout is shown: the first of these that it has. */
typedef enum gs_step_kind { GS_STEP_PIPELINE, GS_STEP_TENSOR, GS_STEP_ZERO } gs_step_kind;

typedef struct gs_step_layout {
    gs_settings settings; /* settled */
    gs_step_kind kind;
    gs_layout layout;
    char name[GS_LAYOUT_TEXT]; /* "pp2" */
    int workers;
    gs_memory_plan memory;
    gs_model *plan;         /* the whole model */
    gs_model *divided;      /* with tp: whose layers have roles; else NULL */
    gs_layer **layer;       /* of the one that is trained, by number */
    gs_timeline_part *part; /* [workers] */
    gs_result result;
    double start, end; /* of the traced step, over all workers */
} gs_step_layout;

/* ---- layout_facts.c ---- */

enum {
    GS_STEP_CELLS = 7,
    GS_STEP_CELL = 28,
    GS_STEP_ROWS = 64,
    GS_STEP_SENTENCES = 5,
    GS_STEP_SENTENCE = 400
};

typedef struct gs_step_facts {
    int columns, rows, sentences;
    char head[GS_STEP_CELLS][GS_STEP_CELL];
    char cell[GS_STEP_ROWS][GS_STEP_CELLS][GS_STEP_CELL];
    char sentence[GS_STEP_SENTENCES][GS_STEP_SENTENCE];
    double measured, formula; /* a pipeline's bubble, a share; else bytes that worker 0 sent */
    const gs_bubble *bubble;  /* of a pipeline: the same by cause; else NULL */
} gs_step_facts;

void gs_step_facts_of(const gs_step_layout *, gs_step_facts *);

/* The children of the outermost sequence that have parameters first .. first + count - 1: "1", "2-4". */
void gs_step_children_of(const gs_step_layout *, uint64_t first, uint64_t count, char *text, size_t size);

/* Where a worker is, with what a layout has several of: "3, stage 1"; "3, s1 r0 p1" (stage, replica, part). */
enum { GS_STEP_PLACE = 32 };
const char *gs_step_place_text(const gs_layout *, int rank, char text[GS_STEP_PLACE]);

/* With --sequence: each sequence has so many tokens, and part r of a group has *each, from r times *each on. 0: they
 * are not divided. */
int gs_step_tokens_of(const gs_step_layout *, int *each);

/* ---- layout_text.c ---- */

void gs_step_layout_show(const gs_step_layout *);
