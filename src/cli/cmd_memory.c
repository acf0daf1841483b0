#include "cli/cli.h"
#include "io/json.h"
#include "parallel/cut.h"

static const double MB = 1e6;

enum { COLUMNS = 5 /* maximum number of workers side by side */ };

static void print_row(const char *word, const gs_memory_plan *p, int first, int end, gs_memory_place place,
                      int kind) {
    printf("%-14s", word);
    for (int i = first; i < end; i++) {
        const gs_memory_use *use = &p->worker[i].use[place];
        printf(" %12.2f", (kind < 0 ? gs_memory_total(use) : use->bytes[kind]) / MB);
    }
    printf("\n");
}

static void print_workers(const gs_memory_plan *p, int first, int end) {
    bool host = false, offloaded = false;
    printf("\n%-14s", "MB at the peak");
    for (int i = first; i < end; i++) {
        char name[60];
        snprintf(name, sizeof name, "%d %s", i, p->worker[i].device);
        printf(" %12s", strlen(name) > 12 ? name + strlen(name) - 12 : name);
    }
    printf("\n");
    for (int k = 0; k < GS_MEMORY_KINDS; k++)
        print_row(gs_memory_word((gs_memory_kind)k), p, first, end, GS_ON_DEVICE, k);
    print_row("total", p, first, end, GS_ON_DEVICE, -1);
    for (int i = first; i < end; i++) host = host || gs_memory_total(&p->worker[i].use[GS_ON_HOST]) > 0;
    for (int i = first; i < end; i++)
        offloaded = offloaded || gs_memory_total(&p->worker[i].use[GS_OFFLOADED]) > 0;
    if (offloaded) print_row("+ offloaded", p, first, end, GS_OFFLOADED, -1);
    if (host) print_row("+ on the host", p, first, end, GS_ON_HOST, -1);
}

static void print_layers(const gs_memory_plan *p) {
    printf("\n%-12s %-27s %9s %9s %9s %9s\n", "MB of layer", "", "weights", "optimizer", "state", "activat.");
    for (size_t i = 0; i < p->layers; i++) {
        const gs_memory_layer *l = &p->layer[i];
        gs_print_name(stdout, l->name, 12);
        printf(" %-27.27s %9.3f %9.3f %9.3f %9.3f\n", l->what, l->weights / MB, l->optimizer / MB,
               l->state / MB, l->activations / MB);
    }
    printf("%-12s %-27s %9s %9s %9s %9.3f\n", "all",
           p->layout.pp > 1 ? "of its stage, and shared" : "buffers that layers share", "", "", "",
           p->shared / MB);
    if (p->layout.zero < 2)
        printf("gradients are as large as the weights\n");
    else
        printf("a worker holds 1/%d of the %sgradients, and windows of whole layers\n",
               p->all_workers / p->layout.tp, p->layout.zero > 2 ? "weights and " : "");
}

static void print_options(const gs_memory_options *o) {
    enum {
        OPTION = 22,
        FORMULA = 80 - 44 /* columns; if either is longer, the formula goes on the next line */
    };
    if (o->count > 0) printf("\n%9s %9s  with each of these alone\n", "saves MB", "peak MB");
    for (int i = 0; i < o->count; i++) {
        const gs_memory_option *one = &o->of[i];
        if (one->saves < 0.005 * MB) continue; /* would print as "0.00" */
        const bool is_long = strlen(one->option) > OPTION || strlen(one->formula) > FORMULA;
        printf("%9.2f %9.2f  %-*s%s%s\n", one->saves / MB, one->peak / MB, is_long ? 0 : OPTION + 1,
               one->option, is_long ? "\n                     " : "", one->formula);
    }
}

static void print_text(const gs_memory_plan *p, bool layers) {
    char sum[40];
    const double each = gs_memory_bytes_each(p, sum, sizeof sum);
    gs_print_fact("model", "%s parameters, %.4g bytes each with gradient and optimiser",
                  gs_thousands((double)p->params), each);
    if (p->layout.zero) gs_print_fact("", "with ZeRO %d: %s bytes", p->layout.zero, sum);
    gs_print_fact("batch", "%zu, of which a worker computes up to %zu at once, and %zu in a test", p->batch,
                  p->worker[0].micro_batch, p->worker[0].eval_block);
    if (p->layout.pp > 1)
        gs_print_fact("stages",
                      "%d, each on %d of the %d workers, stage 0 on the first; a worker holds the layers of "
                      "its stage%s",
                      p->layout.pp, p->all_workers / p->layout.pp, p->all_workers,
                      gs_pipeline_is_measured(p->settings.pipeline_cut)
                          ? ", cut by counted FLOPs (train measures, and then says which --pipeline-cut)"
                          : "");
    if (p->layout.tp > 1)
        gs_print_fact("tensor", "%d workers share linear layers: each holds %s of the parameters",
                      p->layout.tp, gs_thousands((double)p->own));
    for (int i = 0; i < p->workers; i += COLUMNS)
        print_workers(p, i, i + COLUMNS < p->workers ? i + COLUMNS : p->workers);
    if (p->set_bytes > 0)
        printf("\nbeside that, the process holds the data set once: %.2f MB\n", p->set_bytes / MB);
    if (layers) print_layers(p);
    gs_flush_output();
}

static void print_json(const gs_memory_plan *p, const gs_memory_options *o, bool layers, const char *fit) {
    cJSON *all = GS_JSON_OBJECT(GS_FIELD("parameters", p->params), GS_FIELD("batch", p->batch),
                                GS_FIELD("data_set_bytes", p->set_bytes));
    if (*fit) GS_JSON_ADD(all, GS_FIELD("fit", fit));
    cJSON *workers = cJSON_AddArrayToObject(all, "workers");
    for (int i = 0; i < p->workers; i++) {
        const gs_memory_worker *w = &p->worker[i];
        cJSON_AddItemToArray(
            workers, GS_JSON_OBJECT(GS_FIELD("device", w->device), GS_FIELD("micro_batch", w->micro_batch),
                                    GS_FIELD("eval_block", w->eval_block),
                                    GS_FIELD("device_bytes", gs_memory_json(&w->use[GS_ON_DEVICE])),
                                    GS_FIELD("host_bytes", gs_memory_json(&w->use[GS_ON_HOST])),
                                    GS_FIELD("offloaded_bytes", gs_memory_json(&w->use[GS_OFFLOADED]))));
    }
    cJSON *list = layers ? cJSON_AddArrayToObject(all, "layers") : NULL;
    for (size_t i = 0; list && i < p->layers; i++) {
        const gs_memory_layer *l = &p->layer[i];
        cJSON_AddItemToArray(
            list,
            GS_JSON_OBJECT(GS_FIELD("name", (const char *)l->name), GS_FIELD("what", (const char *)l->what),
                           GS_FIELD("weights", l->weights), GS_FIELD("optimizer", l->optimizer),
                           GS_FIELD("state", l->state), GS_FIELD("activations", l->activations)));
    }
    cJSON *options = cJSON_AddArrayToObject(all, "options");
    for (int i = 0; i < o->count; i++)
        cJSON_AddItemToArray(options, GS_JSON_OBJECT(GS_FIELD("option", (const char *)o->of[i].option),
                                                     GS_FIELD("saves_bytes", o->of[i].saves),
                                                     GS_FIELD("peak_bytes", o->of[i].peak),
                                                     GS_FIELD("formula", (const char *)o->of[i].formula)));
    gs_json_print(all);
}

static int tell(gs_settings *s, bool layers, bool json) {
    gs_memory_plan plan;
    gs_memory_options options;
    char why[GS_FIT_TEXT] = "";
    gs_status status = gs_memory_plan_create(s, &plan);
    if (status == GS_OK) status = gs_memory_check(s, &plan, why, sizeof why);
    if (*why) gs_tell("memory", "--fit chose %s", why);
    if (status == GS_OK && !json) print_text(&plan, layers);
    gs_show_activity(NULL, 0, "dry runs of what would save memory");
    if (status == GS_OK) gs_memory_options_find(&plan, &options);
    gs_show_activity(NULL, 0, NULL);
    if (status == GS_OK && json) print_json(&plan, &options, layers, why);
    if (status == GS_OK && !json) print_options(&options);
    gs_memory_plan_free(&plan);
    if (status == GS_OK && strcmp(s->data, gs_settings_default().data) == 0)
        gs_tell_usual_images("memory", s->model, (gs_shape){1, 28, 28, 0});
    return gs_exit_status("memory", status);
}

int gs_cmd_memory(int argc, char **argv) {
    gs_settings s = gs_settings_default();
    bool json = false, layers = false;
    int exit_status;
    const gs_option own[] = {
        GS_RUN_OPTION("pipeline-cut",
                      "where the stages begin: flops (by counting; nothing is measured here), or 3,6"),
        {"layers", GS_OPTION_FLAG, &layers, 0, 0, NULL, "also a line for each layer of worker 0"},
        {"json", GS_OPTION_FLAG, &json, 0, 0, NULL, "the ledger as a JSON object, in bytes"},
        {0},
    };
    const gs_option *options = gs_run_options(&s, GS_TRAINING | GS_LEARNING | GS_BY_MEMORY, own);
    const gs_help help = {"memory [options of train]",
                          "Show the memory that a training run would take, by kind, before anything runs.\n"
                          "A dry run counts what the run would allocate, and computes nothing. On cl this\n"
                          "is the device's memory; the host's memory has its own line. Not counted: the\n"
                          "program, OpenCL's own memory, and messages under way. A run of `train` ends with\n"
                          "the memory that it took, and the copies of messages of its threads.\n\n"
                          "  weights, gradients, optimizer  4 bytes for each number\n"
                          "  state                          batch_norm's running statistics\n"
                          "  activations                    y and dx of the layers\n"
                          "  workspace                      scratch memory of the operators\n"
                          "  communication                  copies of gradients, to be summed\n"
                          "  data                           samples",
                          "gradsum memory --model gpt --data jargon --devices cpu,cpu --zero 2", NULL};
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    if (gs_memory_limit(&s) != GS_OK) return gs_exit_status("memory", GS_E_USAGE);
    return tell(&s, layers, json);
}
