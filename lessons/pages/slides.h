/* A lecture for each lesson: slides that consist of what its README says.
 *
 * lessons/NN-name/slides.txt chooses. Line by line:
 *
 *     # Title                 a new slide
 *     - words                 an item of its list: words of the README, as they stand there
 *     > words                 the same, large
 *     words                   the same, as a sentence
 *     block words             the program text or the table of the README in which these words stand
 *     block 3-9 words         its lines 3 to 9
 *     figure name.svg         a figure of the lesson; name.txt: as text; name.txt 3-9: some of its lines
 *     predict 7a              the question of a box "Predict before you run", and its command
 *
 * A slide with the lesson's goal comes first; the tasks of the lab and the questions come last, by themselves. */
#pragma once

#include <stdio.h>
#include "lessons/pages/ast.h"

/* Write FOLDER/NN-name.html for each lesson of the tree that has a slides.txt, and an index. GS_E_FORMAT: a slide says
 * what its README does not. */
gs_status slides_write(const char *tree, const char *folder);

/* ---- readme.c: what is found in a README ---- */

typedef struct readme {
    char *text, *words; /* as it is; with one blank for each run of blanks */
    ast a;
} readme;

gs_status readme_open(char *text, size_t bytes, readme *); /* takes the text */
void readme_close(readme *);

/* Does the README say these words? The first letter may be of the other case, and a full stop may be added. */
bool readme_says(const readme *, const char *words);

/* The block of code or the table with these words; NULL: none, or several. */
cmark_node *readme_block(const readme *, const char *words, int *found);

/* The first node of a type after the heading `heading`, before the next one of its level; NULL: none. */
cmark_node *readme_after(const readme *, const char *heading, const char *type);

/* The first paragraph that begins with these words. */
cmark_node *readme_paragraph(const readme *, const char *begin);

cmark_node *readme_box(const readme *, const char *id);

/* ---- show.c: as HTML ---- */

/* Words with Markdown in them, without a paragraph around. */
void show_words(FILE *, const char *words);
/* Lines `first` to `last` of a text, in letters as large as fit; last 0: all. */
void show_text(FILE *, const char *text, int first, int last);
void show_table(FILE *, const ast *, cmark_node *table);
/* A picture, inside the page. */
void show_svg(FILE *, const char *svg);
