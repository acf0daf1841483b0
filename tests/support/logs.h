/* Reads what train --log has written. Anything that is missing or is not JSON fails the test. */
#pragma once

#include "tests/support/files.h"
#include "tests/support/program.h"

bool gs_test_is_there(const char *folder, const char *name);

/* A path for a new log, which does not exist yet. */
const char *gs_test_new_log(void);

/* metrics.jsonl as an array, without an incomplete last line. The result is kept. */
cJSON *gs_test_json(const char *folder, const char *name);
cJSON *gs_test_metrics(const char *folder);

double gs_test_number(const cJSON *, const char *name);
const char *gs_test_text_of(const cJSON *, const char *name);

/* Lines of metrics.jsonl: "step", "worker", "epoch". */
bool gs_test_is_kind(const cJSON *line, const char *kind);
int gs_test_count_kind(const cJSON *lines, const char *kind);
