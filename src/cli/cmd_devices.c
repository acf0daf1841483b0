#include "cli/cli.h"
#include "io/json.h"
#include "train/layout/layout_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_json(const gs_device_info *d) {
    cJSON *o = GS_JSON_OBJECT(GS_FIELD("device", d->name), GS_FIELD("kind", d->kind),
                              GS_FIELD("description", d->description), GS_FIELD("units", d->units),
                              GS_FIELD("memory_mb", (double)d->memory / 1e6),
                              GS_FIELD("sub_devices", d->sub_devices), GS_FIELD("note", d->note));
    gs_json_print(o);
}

static void print_text(const gs_device_info *d) {
    char parts[256] = "";
    if (d->sub_devices > 1)
        snprintf(parts, sizeof parts, "up to %d sub-devices: %s/0of%d ... %s/%dof%d", d->sub_devices, d->name,
                 d->sub_devices, d->name, d->sub_devices - 1, d->sub_devices);
    printf("%-8s %s\n", d->name, d->description);
    printf("         %s, %d unit%s, %.1f GB\n", d->kind, d->units, d->units == 1 ? "" : "s",
           (double)d->memory / 1e9);
    if (*parts) gs_print_fact("", "%s", parts);
    if (*d->note) gs_print_fact("", "%s", d->note);
}

/* ---- who would hold what ---- */

static const char *device_of(const void *list, int rank) {
    static char name[48];
    return gs_devices_name(list, rank, name) == GS_OK ? name : "?";
}

/* The table that train begins with. */
static gs_status draw_layout(const gs_settings *s) {
    gs_layout l;
    gs_memory_plan plan = {0};
    gs_model *model = NULL;
    char *devices = NULL;
    GS_TRY(gs_layout_read(s->layout, &l));
    const int workers = l.dp * l.tp * l.pp;
    gs_status status = gs_devices_for(s, workers, GS_LAYOUT_WORKERS, &devices);
    if (status == GS_OK) status = gs_layout_settled(s, workers, &plan, &model);
    if (status == GS_OK) gs_print_layout(&plan.settings, model, workers, device_of, devices);
    gs_model_free(model);
    gs_memory_plan_free(&plan);
    free(devices);
    return status;
}

/* The list takes no options but --json, and a drawing not that one. */
static gs_status check(const gs_settings *s, bool json) {
    const gs_settings usual = gs_settings_default();
    const char *extra = s->model                                 ? "model"
                        : strcmp(s->data, usual.data) != 0       ? "data"
                        : strcmp(s->devices, usual.devices) != 0 ? "devices"
                        : s->pipeline_schedule                   ? "pipeline-schedule"
                        : s->batch != usual.batch                ? "batch"
                                                                 : NULL;
    if (s->layout && json)
        return gs_fail(GS_E_USAGE,
                       "--json lists the devices, and --layout draws a run; use only one of them");
    if (s->layout || !extra) return GS_OK;
    return gs_fail(GS_E_USAGE, "--%s is of the run that --layout LIST draws; wanted --layout too", extra);
}

int gs_cmd_devices(int argc, char **argv) {
    bool json = false;
    int count, exit_status;
    gs_settings s = gs_settings_default();
    const gs_option options[] = {
        {"layout", GS_OPTION_TEXT, &s.layout, 0, 0, "LIST",
         "draw which worker holds what with train --layout LIST, instead of the list"},
        {"model", GS_OPTION_TEXT, &s.model, 0, 0, "NAME|TEXT", "of --layout: the model (default mlp)"},
        {"data", GS_OPTION_TEXT, &s.data, 0, 0, "NAME|DIR", "of --layout: the data, whose shape it takes"},
        {"devices", GS_OPTION_TEXT, &s.devices, 0, 0, "LIST",
         "of --layout: the workers' devices; one: for all"},
        {"batch", GS_OPTION_BATCH, &s.batch, 1, 1e9, "B", "of --layout: the global batch, or all"},
        {"pipeline-schedule", GS_OPTION_TEXT, &s.pipeline_schedule, 0, 0, "S", "of --layout: as of train"},
        {"json", GS_OPTION_FLAG, &json, 0, 0, NULL, "one JSON object per line"},
        {0},
    };
    const gs_help help = {"devices [--json | --layout LIST]",
                          "List the devices that --device takes: the CPU and every OpenCL device, and how\n"
                          "many sub-devices each can be split into. With --layout: which worker of such a\n"
                          "run would hold which part of the model.",
                          "gradsum devices --layout dp2,pp2,zero1 --model lenet", NULL};
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    if (check(&s, json) != GS_OK) return gs_exit_status("devices", GS_E_USAGE);
    if (s.layout) {
        const gs_status drawn = draw_layout(&s);
        return drawn == GS_OK ? GS_EXIT_OK : gs_exit_status("devices", drawn);
    }
    gs_device_info *all;
    const char *problem;
    gs_status status = gs_device_list(&all, &count, &problem);
    if (status != GS_OK) return gs_exit_status("devices", status);
    for (int i = 0; i < count; i++) json ? print_json(&all[i]) : print_text(&all[i]);
    if (count == 1 && !json) printf("There is no OpenCL device (Debian: apt-get install pocl-opencl-icd).\n");
    if (problem && *problem) gs_tell("devices", "%s", problem);
    free(all);
    return GS_EXIT_OK;
}
