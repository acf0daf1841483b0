#include "cli/cli.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_json(const gs_device_info *d) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "device", d->name);
    cJSON_AddStringToObject(o, "kind", d->kind);
    cJSON_AddStringToObject(o, "description", d->description);
    cJSON_AddNumberToObject(o, "units", d->units);
    cJSON_AddNumberToObject(o, "memory_mb", (double)d->memory / 1e6);
    cJSON_AddNumberToObject(o, "sub_devices", d->sub_devices);
    cJSON_AddStringToObject(o, "note", d->note);
    char *text = cJSON_PrintUnformatted(o);
    if (text) printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(o);
}

static void print_text(const gs_device_info *d) {
    char parts[256] = "";
    if (d->sub_devices > 1)
        snprintf(parts, sizeof parts, ", up to %d sub-devices: %s/0of%d ... %s/%dof%d", d->sub_devices,
                 d->name, d->sub_devices, d->name, d->sub_devices - 1, d->sub_devices);
    printf("%-8s %s\n", d->name, d->description);
    printf("         %s, %d unit%s, %.1f GB%s\n", d->kind, d->units, d->units == 1 ? "" : "s",
           (double)d->memory / 1e9, parts);
    if (*d->note) printf("         %s\n", d->note);
}

int gs_cmd_devices(int argc, char **argv) {
    bool json = false, help;
    int words, count;
    const gs_option options[] = {
        {"json", GS_OPTION_FLAG, &json, 0, 0, NULL, "one JSON object a line"},
        {0},
    };
    gs_status status = gs_options_parse(options, argc, argv, &words, &help);
    if (status == GS_OK && help) {
        gs_options_help("devices [--json]",
                        "List the devices that --device takes: the CPU, every OpenCL device, and into\n"
                        "how many sub-devices each can be split.",
                        "gradsum devices", options);
        return GS_EXIT_OK;
    }
    if (status == GS_OK) status = gs_no_words(words, argv);
    gs_device_info *all;
    const char *problem;
    if (status == GS_OK) status = gs_device_list(&all, &count, &problem);
    if (status != GS_OK) return gs_failed("devices", status);
    for (int i = 0; i < count; i++) json ? print_json(&all[i]) : print_text(&all[i]);
    if (count == 1 && !json) printf("There is no OpenCL device (Debian: apt-get install pocl-opencl-icd).\n");
    if (problem && *problem) fprintf(stderr, "gradsum devices: %s\n", problem);
    free(all);
    return GS_EXIT_OK;
}
