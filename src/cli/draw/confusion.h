/* The confusion matrix of `eval --confusion`. Both want result->confusion. */
#pragma once

#include "cli/cli.h"

/* A row for each label: how many of its samples were taken for which class, and its accuracy. Classes with names
 * (data/class_names.h) are shown by them; where these are too wide for columns, columns have numbers, and so have the
 * rows beside the name. Where that is wider than the screen too: a line for each label that has samples, with its
 * accuracy and what it was most often taken for. */
void gs_confusion_print(FILE *, const gs_screen *, const gs_result *);

/* "confusion": rows of counts; "class_accuracy": 0 to 1, null for a class without samples; "class_names"
 * where there are some. */
void gs_confusion_json(const gs_result *, struct cJSON *);
