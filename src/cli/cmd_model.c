#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static void shape_text(gs_shape s, char *text, size_t size) {
    if (s.h == 1 && s.w == 1)
        snprintf(text, size, "%d", s.c);
    else
        snprintf(text, size, "%dx%dx%d", s.c, s.h, s.w);
}

static gs_status print_layer(gs_layer *l, void *context) {
    (void)context;
    if (!*l->name) return GS_OK; /* the sequence of all layers */
    char what[96], out[32];
    l->ops->describe(l, what, sizeof what);
    shape_text(l->out, out, sizeof out);
    if (l->children > 0) snprintf(what, sizeof what, "%s", l->ops->name);
    size_t params = l->weight.count + l->bias.count;
    printf("%-12.12s %-28.28s %-11s %12s %12s\n", l->name, what, out,
           l->children ? "" : gs_thousands((double)params), l->children ? "" : gs_thousands(l->flops));
    return GS_OK;
}

/* A named model and its text, in lines of up to 80 columns. */
static void print_name(const char *name) {
    enum { MARGIN = 12, COLUMNS = 80 };
    int column = printf("  %-9s ", name);
    for (const char *from = gs_model_text(name); *from;) {
        int length = (int)strcspn(from, ",");
        bool more = from[length] == ',';
        if (column + length + 1 > COLUMNS) {
            printf("\n%*s", MARGIN, "");
            column = MARGIN;
        }
        column += printf("%.*s%s", length, from, more ? ", " : "\n");
        from += length + more;
        from += strspn(from, " ");
    }
}

int gs_cmd_model(int argc, char **argv) {
    gs_shape in = {1, 28, 28};
    bool help;
    int words;
    const gs_option options[] = {
        {"input", GS_OPTION_SHAPE, &in, 0, 0, "CxHxW", "shape of one image (default 1x28x28)"},
        {0},
    };
    gs_status status = gs_options_parse(options, argc, argv, &words, &help);
    if (status == GS_OK && help) {
        gs_options_help("model NAME|TEXT [--input CxHxW]",
                        "Show the layers of a model, the shape that each gives out, its parameters, and\n"
                        "the floating point operations of one sample forward (multiply-add: 2).",
                        "gradsum model \"conv 32 3x3 pad 1, relu, max_pool 2, flatten, linear 10\"", options);
        printf("\nnames:\n");
        for (const char *const *name = gs_model_names(); *name; name++) print_name(*name);
        return GS_EXIT_OK;
    }
    if (status == GS_OK && words != 1)
        status = gs_fail(GS_E_USAGE, "one name or text is wanted, there are %d%s", words,
                         words > 1 ? " (put a text in quotes)" : "");
    gs_model *model;
    if (status == GS_OK) status = gs_model_plan(argv[1], in, &model);
    if (status != GS_OK) return gs_failed("model", status);
    char shape[32];
    shape_text(in, shape, sizeof shape);
    printf("%-12s %-28s %-11s %12s %12s\n", "layer", "", "output", "parameters", "FLOPs");
    printf("%-12s %-28s %-11s\n", "", "input", shape);
    gs_layer_walk(model->net, print_layer, NULL);
    printf("%-12s %-28s %-11s %12s %12s\n", "", "total", "", gs_thousands((double)model->params),
           gs_thousands(model->flops_forward));
    printf("\nbackward: %s FLOPs a sample, without the first layer's input gradient\n",
           gs_thousands(model->flops_backward));
    gs_model_free(model);
    return GS_EXIT_OK;
}
