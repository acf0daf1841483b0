/* The page of `compare --report`: each run leaves a log in a folder that lasts as long as the comparison. */
#pragma once

#include "train/train.h"

struct cJSON;

typedef struct gs_compare_page {
    const char *path; /* of the page */
    int argc;         /* the command that makes it */
    char *const *argv;
    int runs; /* that it will have */
    int done;
    char folder[400];
    struct cJSON *report;
    char problem[600]; /* why a log is not whole; "" */
} gs_compare_page;

/* GS_E_FILE: the page could not be written, or there is no folder for logs (TMPDIR says where). */
gs_status gs_compare_page_open(gs_compare_page *, const char *path, int argc, char *const *argv, int runs);

/* gs_train, and its log. */
gs_status gs_compare_page_train(gs_compare_page *, const gs_settings *, gs_result *);

/* The run that was trained last, as the table shows it: its name, the largest difference of its weights, and the index
 * of the run that its speed is compared with. */
gs_status gs_compare_page_add(gs_compare_page *, const char *name, const gs_result *, double difference,
                              int base);

/* Write the page. GS_E_FILE also where a log was not written to its end: the page is there, and says what is
 * missing. */
gs_status gs_compare_page_write(gs_compare_page *);

/* What was not written is lost, and the logs are removed. */
void gs_compare_page_free(gs_compare_page *);
