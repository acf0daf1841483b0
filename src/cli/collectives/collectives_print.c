/* The table of collectives: what stands in it. */
#include "cli/collectives/collectives.h"
#include "io/json.h"

#include <stdio.h>

static const char *const kinds[GS_TABLE_KINDS] = {"cpu", "cl"};

/* Each rank has a part of the array. */
static bool has_parts(gs_operation operation) {
    return operation == GS_ALL_GATHER || operation == GS_GATHER || operation == GS_SCATTER ||
           operation == GS_ALL_TO_ALL;
}

gs_call gs_table_call(const gs_table *t, gs_operation operation, int number) {
    size_t whole = (size_t)t->size / 4, part = whole / (size_t)t->ranks;
    bool parts = has_parts(operation);
    size_t count = operation == GS_BARRIER ? 0 : parts ? part : whole;
    int root = 0;
    if (operation == GS_SEND) root = (number + 1) % t->ranks;
    if (operation == GS_RECV) root = (number + t->ranks - 1) % t->ranks;
    return (gs_call){operation, parts && count == 0 ? 1 : count, GS_F32, GS_SUM, root};
}

static void print_time(double seconds, char text[16]) {
    double us = seconds * 1e6;
    if (us < 9995)
        snprintf(text, 16, "%.*f us", us < 99.95 ? 1 : 0, us);
    else
        snprintf(text, 16, "%.*f ms", us < 99950 ? 1 : 0, us / 1e3);
}

static double gb_per_s(const gs_table *t, gs_operation operation, double seconds) {
    gs_call call = gs_table_call(t, operation, 0);
    return 4e-9 * (double)call.count * (has_parts(operation) ? t->ranks : 1) / seconds;
}

void gs_table_print_head(const gs_table *t, int kind) {
    char link[80];
    if (kind == 0)
        printf("%d rank%s, arrays of %s bytes; best of %d run%s or more, GB/s of the array\n", t->ranks,
               gs_s(t->ranks), gs_thousands((double)t->size), t->runs, gs_s(t->runs));
    if (kind == 0 && gs_link_is_there(&t->link))
        printf("a message takes %s; all collectives are made of messages\n",
               gs_link_text(&t->link, link, sizeof link));
    if (kind == 0 && t->bind)
        printf("each rank is bound to CPUs of its own, but not over gloo (--bind none undoes it)\n");
    printf("\n%-14s", "");
    for (int i = 0; i < t->transport_count; i++) {
        char name[24];
        snprintf(name, sizeof name, "%s, %s", t->transports[i], kinds[kind]);
        printf(" %15s", name);
    }
    printf("\n");
}

static void print_json_cell(const gs_table *t, gs_operation operation, gs_table_column at, bool right) {
    const gs_outcome *o = &t->outcome[0];
    char link[80];
    cJSON *json = GS_JSON_OBJECT(GS_FIELD("operation", gs_operation_name(operation)),
                                 GS_FIELD("transport", t->transports[at.transport]),
                                 GS_FIELD("buffers", kinds[at.kind]), GS_FIELD("ranks", t->ranks),
                                 GS_FIELD("right", right), GS_FIELD("seconds", o->seconds));
    if (operation != GS_BARRIER)
        cJSON_AddNumberToObject(json, "gb_per_s", gb_per_s(t, operation, o->seconds));
    if (gs_link_is_there(&t->link))
        cJSON_AddStringToObject(json, "link", gs_link_text(&t->link, link, sizeof link));
    gs_json_print(json);
}

void gs_table_print_cell(gs_table *t, gs_operation operation, gs_table_column at) {
    const gs_outcome *wrong = NULL;
    for (int r = t->ranks - 1; r >= 0; r--)
        if (t->outcome[r].error.status != GS_OK) wrong = &t->outcome[r];
    t->cells++;
    t->wrong += wrong != NULL;
    char time[16];
    print_time(t->outcome[0].seconds, time);
    if (t->json)
        print_json_cell(t, operation, at, !wrong);
    else if (wrong)
        printf(" %15s", "WRONG");
    else if (operation == GS_BARRIER) /* no line ends with blanks */
        printf("%*s %8s", at.transport > 0 ? 7 : 0, "", time);
    else
        printf(" %8s %6.2f", time, gb_per_s(t, operation, t->outcome[0].seconds));
    fflush(stdout);
    if (wrong)
        fprintf(stderr, "%sgradsum collectives: %s, %s buffers: %s\n", t->json ? "" : "\n",
                t->transports[at.transport], kinds[at.kind], wrong->error.message);
}
