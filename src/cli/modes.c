#include "cli/cli.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>

const char *gs_modes_sum(const gs_settings *s) {
    static char text[80];
    if (s->every)
        snprintf(text, sizeof text, "weights averaged every %d step%s", s->every, s->every > 1 ? "s" : "");
    else if (s->exact)
        snprintf(text, sizeof text, "gradients summed in one fixed tree");
    else
        snprintf(text, sizeof text, "gradients summed by %s", s->sync);
    return text;
}

void gs_modes_print(const gs_settings *s) {
    if (s->accumulate > 1)
        printf("passes   %d over each worker's part of the batch before one sum\n", s->accumulate);
    if (s->slow.ms > 0) printf("slow     worker %d sleeps %g ms in each step\n", s->slow.rank, s->slow.ms);
    if (s->exact) printf("exact    the same bits for 1, 2, 4 and 8 workers on this kind of CPU\n");
    if (s->verify) printf("verify   all workers' weights are compared every %" PRIu64 " steps\n", s->verify);
}

void gs_modes_json(const gs_settings *s, cJSON *o) {
    cJSON_AddBoolToObject(o, "exact", s->exact);
    cJSON_AddNumberToObject(o, "verify", (double)s->verify);
    cJSON_AddNumberToObject(o, "accumulate", s->accumulate > 1 ? s->accumulate : 1);
    s->every ? cJSON_AddNumberToObject(o, "every", s->every) : cJSON_AddNullToObject(o, "every");
    cJSON_AddNumberToObject(o, "slow_rank", s->slow.rank);
    cJSON_AddNumberToObject(o, "slow_ms", s->slow.ms);
}
