#include "cli/cli.h"
#include "io/npy.h"

#include <stdlib.h>

static void print_classes(const gs_settings *s) {
    enum { MANY = 20 };
    char text[MANY * (GS_CLASS_NAME + 2) + 1] = "", name[GS_CLASS_NAME];
    gs_dataset *set;
    if (gs_load_set(s, GS_TEST, &set) != GS_OK) return;
    for (int k = 0; k < set->names.count && set->names.count <= MANY; k++)
        gs_append(text, sizeof text, "%s%s", k ? ", " : "", gs_class_name(&set->names, k, name));
    gs_dataset_free(set);
    if (*text) gs_print_fact("columns", "%s", text);
}

int gs_cmd_predict(int argc, char **argv) {
    gs_settings s = gs_settings_default();
    const char *out = NULL;
    int exit_status;
    const gs_option own[] = {
        GS_RUN_OPTION("load", "the weights (safetensors)"),
        GS_RUN_OPTION("mean", GS_MEAN_HELP_OF_FILE),
        GS_RUN_OPTION("std", GS_STD_HELP_OF_FILE),
        GS_REFUSED("skip-broken", "each row of the array belongs to a file: remove the broken one"),
        {"out", GS_OPTION_TEXT, &out, 0, 0, "FILE", "where to write the array (.npy)"},
        GS_RUN_OPTION("keep-going", "write the logits even if one is not finite"),
        {0},
    };
    const gs_option *options = gs_run_options(&s, GS_ALL_RUNS, own);
    const gs_help help = {"predict --load FILE -o OUT.npy [options]",
                          "Write the logits of every test sample, in order, as a NumPy array (n, classes).\n"
                          "For a text: (windows, context x vocabulary).",
                          "gradsum predict --load lenet.safetensors --data fashion-mnist -o out.npy", NULL};
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    gs_rendezvous r;
    gs_status status = !s.load ? gs_fail(GS_E_USAGE, "--load FILE is required: the weights to use")
                       : !out  ? gs_fail(GS_E_USAGE, "-o FILE is required: where to write the logits")
                               : gs_file_check_target(out, GS_FILE_ARRAY);
    if (status == GS_OK) status = gs_rendezvous_from_environment(&r);
    if (status == GS_OK && r.size > 1) /* all ranks would write this file */
        status = gs_fail(GS_E_USAGE, "this is rank %d of %d, and predict is for one process", r.rank, r.size);
    if (status != GS_OK) return gs_exit_status("predict", status);

    float *logits;
    size_t rows;
    int columns;
    gs_activity work = {.tells = true};
    const gs_observer observer = {.context = &work, .testing = gs_show_testing};
    status = gs_predict_all(&s, &observer, &logits, &rows, &columns);
    gs_show_activity(NULL, 0, NULL);
    if (status != GS_OK) return gs_exit_status("predict", status);
    gs_tell_scaling("predict", &s);
    gs_tell_test_set("predict", &s);
    status = gs_npy_save(out, logits, rows, (size_t)columns);
    free(logits);
    if (status != GS_OK) return gs_exit_status("predict", status);
    gs_print_line("%s: logits (%zu, %d)", out, rows, columns);
    print_classes(&s);
    return GS_EXIT_OK;
}
