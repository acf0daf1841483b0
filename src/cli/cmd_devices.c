#include "cli/cli.h"
#include "io/json.h"

#include <stdlib.h>

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

int gs_cmd_devices(int argc, char **argv) {
    bool json = false;
    int count, exit_status;
    const gs_option options[] = {
        {"json", GS_OPTION_FLAG, &json, 0, 0, NULL, "one JSON object per line"},
        {0},
    };
    const gs_help help = {"devices [--json]",
                          "List the devices that --device takes: the CPU and every OpenCL device, and how\n"
                          "many sub-devices each can be split into.",
                          "gradsum devices --json", NULL};
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
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
