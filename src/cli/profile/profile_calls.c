#include "cli/profile/profile_calls.h"

#include <stdio.h>
#include <stdlib.h>

#include "io/json.h"

gs_status gs_profile_layout_settle(gs_settings *s, int workers, int argc, char **argv, gs_profile_layout *l) {
    static const char *const options[] = {"workers",           "bind",         "timeout",      "sequence",
                                          "pipeline-schedule", "pipeline-cut", "micro-batches"};
    *l = (gs_profile_layout){.wanted = s->layout || s->zero || s->pipeline || s->tensor};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (!l->wanted && gs_option_is_given(options[i], argc, argv))
            return gs_fail(
                GS_E_USAGE,
                "--%s is for several workers, and profile has one; wanted a layout with it: --zero 1 "
                "to 3, --pipeline P, --tensor T, or --layout LIST",
                options[i]);
    GS_TRY(gs_layout_settle(s));
    if (!l->wanted) return GS_OK;
    const gs_layout layout = gs_layout_of(s, gs_layout_workers(s, workers));
    gs_layout_text(&layout, l->name);
    return GS_OK;
}

gs_status gs_profile_layout_alone(const gs_settings *s, char device[48], gs_settings *one) {
    GS_TRY(gs_devices_name(s->devices, 0, device));
    *one = *s;
    one->devices = device;
    one->layout = one->pipeline_schedule = one->pipeline_cut = NULL;
    one->zero = one->pipeline = one->tensor = one->micro_batches = 0;
    one->sequence = false;
    return GS_OK;
}

gs_status gs_profile_layout_run(const gs_settings *settings, int workers, gs_profile_layout *l) {
    gs_settings s = *settings;
    char *devices = NULL;
    GS_TRY(gs_devices_for(&s, gs_layout_workers(&s, workers), GS_PROFILE_WORKERS, &devices));
    s.devices = devices;
    const gs_status status = gs_context(gs_profile_calls_run(&s, &l->calls), "--layout %s", l->name);
    free(devices);
    return status;
}

static double percent(double part, double of) {
    return of > 0 ? 100 * part / of : 0;
}

void gs_profile_layout_print(const gs_profile_layout *l) {
    const gs_profile_calls *c = &l->calls;
    double seconds = 0, bytes = 0, hidden = 0;
    printf("\n");
    gs_print_fact("layout", "%s: what each of %d workers sends in a step, the mean of %d steps", l->name,
                  c->workers, c->steps);
    printf("\n");
    printf("%-28s %7s %9s %9s %9s\n", "", "calls", "ms", "MB sent", "hidden");
    for (int i = 0; i < GS_PROFILE_ACTS; i++) {
        if (!(c->act[i].calls > 0)) continue;
        printf("%-28s %7.1f %9.3f %9.3f %7.0f %%\n", gs_profile_act_names[i], c->act[i].calls,
               1e3 * c->act[i].seconds, c->act[i].bytes / 1e6, percent(c->act[i].hidden, c->act[i].seconds));
        seconds += c->act[i].seconds;
        bytes += c->act[i].bytes;
        hidden += c->act[i].hidden;
    }
    printf("%-28s %7s %9.3f %9.3f %7.0f %%\n\n", "all", "", 1e3 * seconds, bytes / 1e6,
           percent(hidden, seconds));
    char text[160];
    snprintf(text, sizeof text,
             "Layers take %.3f ms of a step of %.3f ms. Hidden: while the worker computes a layer; what it "
             "sends itself is not.",
             1e3 * c->layers, 1e3 * c->step);
    gs_print_wrapped(0, text);
}

cJSON *gs_profile_layout_json(const gs_profile_layout *l) {
    const gs_profile_calls *c = &l->calls;
    cJSON *o = GS_JSON_OBJECT(GS_FIELD("layout", l->name), GS_FIELD("workers", c->workers),
                              GS_FIELD("steps", c->steps), GS_FIELD("step_seconds", c->step),
                              GS_FIELD("layers_seconds", c->layers));
    cJSON *calls = cJSON_AddArrayToObject(o, "calls");
    for (int i = 0; i < GS_PROFILE_ACTS; i++)
        if (c->act[i].calls > 0)
            cJSON_AddItemToArray(calls, GS_JSON_OBJECT(GS_FIELD("what", gs_profile_act_names[i]),
                                                       GS_FIELD("calls", c->act[i].calls),
                                                       GS_FIELD("seconds", c->act[i].seconds),
                                                       GS_FIELD("bytes", c->act[i].bytes),
                                                       GS_FIELD("hidden_seconds", c->act[i].hidden)));
    return o;
}
