#include "cli/cli.h"
#include "layer/layer.h"
#include "model/model_text.h"

#include <stdlib.h>

static void shape_text(gs_shape s, char *text, size_t size) {
    if (s.h == 1 && s.w == 1 && gs_shape_tokens(s) == 1)
        snprintf(text, size, "%d", s.c);
    else
        snprintf(text, size, "%s", gs_shape_product(s).text);
}

enum { NAME = 12, WHAT = 28 }; /* columns; longer text goes on its own line */

static gs_status print_layer(gs_layer *l, void *context) {
    (void)context;
    if (!*l->name) return GS_OK; /* the sequence that contains all layers */
    char what[96], out[64];
    gs_layer_describe(l, what, sizeof what);
    shape_text(l->out, out, sizeof out);
    if (l->children > 0) snprintf(what, sizeof what, "%s", l->ops->name);
    gs_print_name(stdout, l->name, NAME);
    printf(" ");
    gs_print_name(stdout, what, WHAT);
    if (strlen(what) > WHAT) printf("%*s", NAME + 1, "");
    if (l->children)
        printf(" %s\n", out);
    else
        printf(" %-11s %12s %12s\n", out, gs_thousands((double)gs_layer_params(l)), gs_thousands(l->flops));
    return GS_OK;
}

/* Print a model's text in lines of 80 columns, each block on its own line. The cursor is already at `margin`. */
static void print_text(const char *text, int margin) {
    for (const char *from = text; *from;) {
        const size_t length = strcspn(from, ";"), whole = length + (from[length] == ';');
        char *block = strndup(from, whole);
        if (from > text) printf("%*s", margin, "");
        gs_print_items(margin, block ? block : "(no memory)");
        free(block);
        from += whole;
        from += strspn(from, " ");
    }
}

/* Print a named model with its text, or with a description if its text would fill a page. */
static void print_name(const gs_named_model *m) {
    printf("  %-9s ", m->name);
    if (m->what)
        puts(m->what);
    else
        print_text(m->text, 12);
}

/* Print the names and the grammar (model/model_text.h). */
static void print_grammar(void) {
    enum { USAGE = 32, LINE = 78 };
    const char *usage, *what;
    printf("\nnames:\n");
    for (const gs_named_model *m = gs_models; m->name; m++) print_name(m);
    printf("  A number after a name sets the number of classes or tokens: \"gpt 96\".\n");
    printf("\nlayers, separated by commas; a new line counts as a space:\n");
    for (int i = 0; gs_model_layer_help(i, &usage, &what); i++) {
        const char *end = usage + strlen(usage); /* the end of the line; the rest goes on the next line */
        while (end - usage > LINE) end = memrchr(usage, ' ', (size_t)(end - usage));
        const bool broken = *end != 0, fits = strlen(usage) <= USAGE;
        if (!fits) printf("  %.*s\n", (int)(end - usage), usage);
        printf("  %-*s %s\n", USAGE, fits ? usage : broken ? end : "", what);
    }
    printf("\n  %-*s %s\n", USAGE, "N x LAYER, N x ( LAYERS )", "N times");
    printf("  %-*s %s\n", USAGE, "NAME NUMBER ...", "the layers of a block, defined before:");
    printf("  block NAME PARAM ... = LAYERS ;\n\n  block twice C = 2 x (conv C 3x3 pad 1, relu);\n"
           "  twice 16, max_pool 2, twice 32, global_avg_pool, flatten, linear 10\n");
    printf(
        "\nSIZE is K or HxW, such as 3 or 3x5; P is from 0 to below 1, such as 0.5; std S:\ninitial weights "
        "are normal with deviation S, and the bias is 0. The last layer\nneeds one output per class. To use "
        "a model from a file:\n--model \"$(cat FILE)\"\n");
}

static gs_status one_word(int words) {
    char list[120] = ""; /* "softmax, mlp, ..." */
    if (words == 1) return GS_OK;
    if (words > 1)
        return gs_fail(GS_E_USAGE, "wanted one name or text, got %d (put a text in quotes)", words);
    for (const gs_named_model *m = gs_models; m->name; m++)
        gs_append(list, sizeof list, "%s%s", *list ? ", " : "", m->name);
    return gs_fail(GS_E_USAGE,
                   "a model is required: a name (%s), or layers in quotes, such as \"flatten, linear 10\"; "
                   "gradsum model --help",
                   list);
}

static int show_text(const char *name_or_text) {
    char *text;
    gs_status status = gs_model_full_text(name_or_text, &text);
    if (status != GS_OK) return gs_exit_status("model", status);
    print_text(text, 0);
    free(text);
    return GS_EXIT_OK;
}

int gs_cmd_model(int argc, char **argv) {
    const gs_shape usual = {1, 28, 28, 0};
    gs_shape in = usual;
    bool only_text = false;
    int words, exit_status;
    const gs_option options[] = {
        {"input", GS_OPTION_SHAPE, &in, 0, 0, "CxHxW", "shape of one image"},
        {"text", GS_OPTION_FLAG, &only_text, 0, 0, NULL,
         "print the text that the name stands for, and no table"},
        {0},
    };
    const gs_help help = {
        "model NAME|TEXT [--input CxHxW | --text]",
        "Show the layers of a model: the output shape of each, its parameters, and the\nfloating-point "
        "operations of one sample's forward pass (a multiply-add is 2).",
        "gradsum model \"conv 32 3x3 pad 1, relu, max_pool 2, flatten, linear 10\"", print_grammar};
    if (!gs_options_taken(options, &help, argc, argv, &words, &exit_status)) return exit_status;
    gs_status status = one_word(words);
    if (status == GS_OK && gs_shape_same(in, usual) && gs_model_is_language(argv[1]))
        in = gs_model_named(argv[1])->in;
    if (status == GS_OK && only_text) return show_text(argv[1]);
    gs_model *model;
    if (status == GS_OK)
        status = gs_model_create(NULL, &(gs_model_config){.text = argv[1], .in = in}, &model);
    if (status != GS_OK) return gs_exit_status("model", status);
    char shape[64];
    shape_text(in, shape, sizeof shape);
    printf("%-12s %-28s %-11s %12s %12s\n", "layer", "", "output", "parameters", "FLOPs");
    printf("%-12s %-28s %s\n", "", "input", shape);
    gs_layer_walk(model->net, print_layer, NULL);
    printf("%-12s %-28s %-11s %12s %12s\n", "", "total", "", gs_thousands((double)model->params),
           gs_thousands(model->flops_forward));
    printf("\nbackward: %s FLOPs per sample, without the first layer's input gradient\n",
           gs_thousands(model->flops_backward));
    gs_model_free(model);
    if (!gs_option_is_given("input", argc, argv)) gs_tell_usual_images("model", argv[1], in);
    return GS_EXIT_OK;
}
