/* All marks of one student. */
#pragma once

#include "lessons/grade/graders.h"

/* The labs that every student gets a mark for: those of `asked`, or where that is NULL those of the tree that anybody
 * has handed in. */
gs_labs gs_labs_for_all(const gs_labs *asked, const gs_labs *known, const gs_hand_ins *);

/* Grade the hand-ins of a student, which begin at list[*next]; *next is then the next student's first. marks: an array
 * with a mark for each lab of `labs`, 0 points where there is no hand-in; with `others` then those of labs that there
 * are not. To be freed. */
gs_status gs_student_marks(gs_graders *, const gs_hand_ins *, int *next, const gs_labs *labs, bool others,
                           cJSON **marks);
