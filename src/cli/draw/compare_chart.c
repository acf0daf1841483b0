#include "cli/draw/compare_chart.h"
#include "cli/draw/wrapped.h"
#include "io/json.h"

#include <math.h>
#include <string.h>

_Static_assert((int)GS_PHASES == (int)GS_SHARES, "a sign for each phase");

static const char *const short_names[GS_PHASES] = {"data", "forw", "back", "sync", "upd."};

/* ---- bars ---- */

enum { LONGEST = 20, NUMBER = 8 };

static void draw_speed_ups(FILE *to, const gs_screen *s, const gs_compare_bar *rows, int count, int width,
                           int cells) {
    double most = 0;
    for (int i = 0; i < count; i++) {
        if (rows[i].speed_up > most) most = rows[i].speed_up;
        if (rows[i].ideal > most) most = rows[i].ideal;
    }
    fprintf(to, "\nspeed-up        | if it grew with the workers\n");
    for (int i = 0; i < count; i++) {
        gs_bar bar;
        gs_bar_draw(&bar, s, rows[i].speed_up, most, rows[i].ideal, cells);
        gs_print_name(to, rows[i].name, width);
        fprintf(to, " %s %*.2f\n", bar.text, NUMBER - 1, rows[i].speed_up);
    }
}

static void draw_shares(FILE *to, const gs_screen *s, const gs_compare_bar *rows, int count, int width,
                        int cells) {
    fprintf(to, "\nshares of time ");
    for (int p = 0; p < GS_PHASES; p++) fprintf(to, " %s %s", gs_share_sign(s, p), gs_phase_names[p]);
    fprintf(to, "\n");
    for (int i = 0; i < count; i++) {
        gs_bar bar;
        gs_bar_shares(&bar, s, rows[i].share, cells);
        gs_print_name(to, rows[i].name, width);
        fprintf(to, " %s\n", bar.text);
    }
}

void gs_compare_chart(FILE *to, const gs_screen *s, const gs_compare_bar *rows, int count) {
    int width = 0;
    for (int i = 0; i < count; i++) {
        int length = (int)strlen(rows[i].name);
        if (length > width && length <= LONGEST) width = length;
    }
    int columns = gs_screen_columns(s), cells = columns - width - 1 - NUMBER;
    if (cells < 1) cells = 1;
    draw_speed_ups(to, s, rows, count, width, cells);
    draw_shares(to, s, rows, count, width, cells);
}

/* ---- the workers of a run ---- */

static void print_line(FILE *to, const char *who, const char *device, int width, const gs_worker_report *r) {
    double computing = 1 - r->share[GS_PHASE_SYNC], sum = 0;
    for (int p = 0; p < GS_PHASES; p++) sum += r->share[p];
    fprintf(to, "%4s %-*s %9s %8s", who, width, device, gs_thousands(r->samples_per_s),
            sum > 0 && computing > 0 ? gs_thousands(r->samples_per_s / computing) : "-");
    for (int p = 0; p < GS_PHASES; p++) {
        if (sum > 0)
            fprintf(to, " %4.0f", 100 * r->share[p]);
        else
            fprintf(to, " %4s", "-");
    }
    fputc('\n', to);
}

/* Speeds add up; the shares of all are the mean. */
static gs_worker_report report_of_all(const gs_result *r) {
    gs_worker_report all = {.samples_per_s = r->samples_per_s};
    for (int i = 0; i < r->workers; i++)
        for (int p = 0; p < GS_PHASES; p++) all.share[p] += r->worker[i].share[p] / r->workers;
    return all;
}

void gs_worker_lines(FILE *to, const gs_screen *s, const gs_result *r) {
    if (r->workers < 2 || !r->worker) return;
    int width = 9, room = gs_screen_columns(s) - 49; /* what the numbers leave */
    for (int i = 0; i < r->workers; i++) {
        int length = (int)strlen(r->worker[i].device);
        if (length > width) width = length;
    }
    bool fits = width <= (room > 9 ? room : 9);
    if (!fits) width = room > 9 ? room : 9;
    fprintf(to, "\n%4s %-*s %9s %8s", "", width, "", "", "without");
    fprintf(to, "  share of the time in %%\n");
    fprintf(to, "%4s %-*s %9s %8s", "rank", width, "device", "samples/s", "sync");
    for (int p = 0; p < GS_PHASES; p++) fprintf(to, " %4s", short_names[p]);
    fputc('\n', to);
    for (int i = 0; i < r->workers; i++) {
        char who[16];
        const char *device = r->worker[i].device;
        int length = (int)strlen(device);
        snprintf(who, sizeof who, "%d", i);
        /* the end of a name tells devices apart: cl:0.0/1of2 */
        print_line(to, who, length > width ? device + length - width : device, width, &r->worker[i]);
    }
    gs_worker_report all = report_of_all(r);
    char text[24];
    snprintf(text, sizeof text, "%d", r->workers);
    print_line(to, "all", text, width, &all);
    fputc('\n', to);
}

cJSON *gs_memory_json(const gs_memory_use *use) {
    cJSON *o = cJSON_CreateObject();
    for (int k = 0; k < GS_MEMORY_KINDS; k++)
        GS_JSON_ADD(o, GS_FIELD(gs_memory_word((gs_memory_kind)k), use->bytes[k]));
    return GS_JSON_ADD(o, GS_FIELD("total", gs_memory_total(use)));
}

void gs_worker_json(const gs_result *r, cJSON *o) {
    if (!r->worker) return;
    cJSON *array = cJSON_AddArrayToObject(o, "per_worker");
    for (int i = 0; i < r->workers; i++) {
        cJSON *w = GS_JSON_OBJECT(GS_FIELD("rank", i), GS_FIELD("device", r->worker[i].device),
                                  GS_FIELD("samples_per_s", r->worker[i].samples_per_s));
        double sum = 0;
        for (int p = 0; p < GS_PHASES; p++) sum += r->worker[i].share[p];
        cJSON *share = cJSON_AddObjectToObject(w, "share");
        for (int p = 0; p < GS_PHASES; p++)
            GS_JSON_ADD(share, GS_FIELD(gs_phase_names[p], sum > 0 ? r->worker[i].share[p]
                                                                   : NAN)); /* NAN: no step was measured */
        cJSON_AddItemToObject(w, "device_bytes", gs_memory_json(&r->worker[i].memory[GS_ON_DEVICE]));
        cJSON_AddItemToObject(w, "host_bytes", gs_memory_json(&r->worker[i].memory[GS_ON_HOST]));
        if (r->offload.on)
            cJSON_AddItemToObject(w, "offloaded_bytes", gs_memory_json(&r->worker[i].memory[GS_OFFLOADED]));
        if (gs_memory_total(&r->worker[i].planned[GS_ON_DEVICE]) > 0) {
            cJSON_AddItemToObject(w, "device_bytes_predicted",
                                  gs_memory_json(&r->worker[i].planned[GS_ON_DEVICE]));
            cJSON_AddItemToObject(w, "host_bytes_predicted",
                                  gs_memory_json(&r->worker[i].planned[GS_ON_HOST]));
        }
        cJSON_AddItemToArray(array, w);
    }
}
