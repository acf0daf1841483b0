#include "cli/cli.h"
#include "cli/draw/confusion.h"
#include "cli/draw/eval_page.h"
#include "cli/draw/wrapped.h"
#include "cli/launch/shared.h"
#include "core/text.h"
#include "io/file.h"
#include "io/json.h"

#include <math.h>
#include <stdio.h>

/* For a text: the loss per token in nats; as perplexity, a choice among so many equally likely ones; and in bits. */
static void print_text(const gs_settings *s, const gs_result *r) {
    char text[300] = "";
    gs_append(text, sizeof text, "test loss %.6f", gs_shown(r->test_loss));
    if (s->loss == GS_SOFTMAX_CROSS_ENTROPY)
        gs_append(text, sizeof text, ", perplexity %.4f, %.4f bits per %s", gs_shown(exp(r->test_loss)),
                  gs_shown(r->test_loss / M_LN2), gs_tokens_word(r->token, 1));
    gs_append(text, sizeof text, ", accuracy %.2f %%, %d worker%s, %s tokens/s", 100 * r->test_accuracy,
              r->workers, gs_s((unsigned)r->workers), gs_thousands(r->samples_per_s * r->tokens));
    gs_print_items(0, text);
}

static void add_text(const gs_settings *s, const gs_result *r, cJSON *o) {
    if (!r->tokens) return;
    cJSON_AddNumberToObject(o, "context", r->tokens);
    cJSON_AddNumberToObject(o, "tokens_per_s", r->samples_per_s * r->tokens);
    if (s->loss != GS_SOFTMAX_CROSS_ENTROPY) return;
    char bits[32];
    snprintf(bits, sizeof bits, "test_bits_per_%s", gs_tokens_word(r->token, 1));
    cJSON_AddItemToObject(o, "test_perplexity", gs_json_number(exp(r->test_loss)));
    cJSON_AddItemToObject(o, bits, gs_json_number(r->test_loss / M_LN2));
}

static void print_images(const gs_result *r) {
    char top[32] = "", text[200];
    if (r->top_accuracy >= 0) snprintf(top, sizeof top, ", top-%d %.2f %%", GS_TOP, 100 * r->top_accuracy);
    snprintf(text, sizeof text, "test accuracy %.2f %%%s, loss %.6f, %d worker%s, %s samples/s",
             100 * r->test_accuracy, top, gs_shown(r->test_loss), r->workers, gs_s((unsigned)r->workers),
             gs_thousands(r->samples_per_s));
    gs_print_items(0, text);
}

/* matrix: show the confusion matrix too. */
static void print_result(const gs_settings *s, const gs_result *r, bool matrix, bool json) {
    if (!json) {
        if (r->tokens)
            print_text(s, r);
        else
            print_images(r);
        gs_screen screen = gs_screen_of(stdout);
        if (matrix) gs_confusion_print(stdout, &screen, r);
        return;
    }
    cJSON *o =
        GS_JSON_OBJECT(GS_FIELD("event", "end"), GS_FIELD("status", "done"), GS_FIELD("data", s->data),
                       GS_FIELD("workers", r->workers), GS_FIELD("test_accuracy", r->test_accuracy),
                       GS_FIELD("test_loss", r->test_loss), GS_FIELD("samples_per_s", r->samples_per_s));
    add_text(s, r, o);
    if (r->top_accuracy >= 0) cJSON_AddNumberToObject(o, "test_top5_accuracy", r->top_accuracy);
    if (matrix) gs_confusion_json(r, o);
    gs_json_print(o);
}

/* What cannot be written is said before the work begins. */
static gs_status check_own(const gs_settings *s, const char *page) {
    if (!s->load) return gs_fail(GS_E_USAGE, "--load FILE is required: the weights to evaluate");
    if (page && gs_text_is_at(s->data))
        return gs_fail(GS_E_USAGE, "--report shows what images are taken for, but the data are %s", s->data);
    return page ? gs_file_check_target(page, GS_FILE_PAGE) : GS_OK;
}

int gs_cmd_eval(int argc, char **argv) {
    gs_settings s = gs_settings_default();
    const char *page = NULL;
    bool json = false;
    int exit_status;
    const gs_option own[] = {
        GS_RUN_OPTION("load", "the weights (safetensors)"),
        GS_RUN_OPTION("mean", GS_MEAN_HELP_OF_FILE),
        GS_RUN_OPTION("std", GS_STD_HELP_OF_FILE),
        GS_RUN_OPTION("confusion", NULL),
        GS_RUN_OPTION("keep-going", "show the result even if the loss is not finite"),
        {"report", GS_OPTION_TEXT, &page, 0, 0, "FILE",
         "a page (.html) with the confusion matrix and the samples that the model gets most wrong"},
        {"json", GS_OPTION_FLAG, &json, 0, 0, NULL, "the result as a JSON object"},
        {0},
    };
    gs_rendezvous processes;
    gs_status status = gs_rendezvous_from_environment(&processes);
    if (status != GS_OK) return gs_failed("eval", status);
    processes.tell = gs_tell_sentence;
    processes.met = gs_launch_has_met;
    s.timeout = processes.timeout; /* unless --timeout says otherwise */
    const gs_option *options = gs_run_options(&s, GS_ALL_RUNS, own);
    const gs_help help = {"eval --load FILE [options]",
                          "Print accuracy, top-5 accuracy (with more than 5 classes: is the label among the\n"
                          "5 likeliest?) and loss on the test set, which is split over the workers. For a\n"
                          "text: the loss per token, its perplexity, exp(loss), and bits per character.\n"
                          "Inference needs no synchronisation except for the final count, and gives the\n"
                          "same result for any number of workers and threads.",
                          "gradsum eval --load lenet.safetensors --devices cpu,cpu", NULL};
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    status = check_own(&s, page);
    if (status != GS_OK) return gs_failed("eval", status);
    const bool matrix = s.confusion;
    s.confusion = s.confusion || page; /* the page shows it */
    s.processes = &processes;
    processes.timeout = s.timeout;

    gs_result result;
    status = gs_eval(&s, &result);
    if (status == GS_E_DIVERGED && processes.rank != 0) return GS_EXIT_FAILED; /* all know; rank 0 says it */
    if (status != GS_OK && json && processes.rank == 0) gs_json_failed(status, NULL);
    if (status != GS_OK) return gs_failed("eval", status);
    gs_tell_scaling("eval", &s);
    gs_tell_test_set("eval", &s);
    gs_tell_skipped("eval", &result);
    if (result.rank == 0) print_result(&s, &result, matrix, json);
    if (result.rank == 0 && page) status = gs_eval_page(&s, &result, page, argc, argv);
    gs_result_free(&result);
    return status == GS_OK ? GS_EXIT_OK : gs_failed("eval", status);
}
