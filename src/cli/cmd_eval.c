#include "cli/cli.h"
#include "cli/launch/shared.h"
#include "data/text_set.h"
#include "io/json.h"
#include "page/page.h"
#include "page/report.h"

#include <math.h>
#include <nettle/base64.h>
#include <stdlib.h>

/* For text, print the loss per token in nats and bits, and the perplexity (the number of equally likely choices). */
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

/* ---- the confusion matrix: a line per label; all of it is in the JSON and on the page ---- */

/* *samples: the number of samples with this label. Returns the share that was recognised; NaN without samples. */
static double accuracy_of(const gs_result *r, int label, double *samples) {
    const double *row = r->confusion + (size_t)label * (size_t)r->classes;
    *samples = 0;
    for (int k = 0; k < r->classes; k++) *samples += row[k];
    return row[label] / *samples;
}

/* Counts one column per UTF-8 character. */
static int columns_of(const char *text) {
    int columns = 0;
    for (; *text; text++) columns += ((unsigned char)*text & 0xc0) != 0x80;
    return columns;
}

/* For each label that has samples, print its accuracy and its most common mistake. */
static void print_confusion(const gs_result *r) {
    static const char head[] = "label";
    char room[GS_CLASS_NAME];
    int width = sizeof head - 1;
    for (int k = 0; k < r->classes; k++) {
        const int columns = columns_of(gs_class_name(&r->names, k, room));
        if (columns > width) width = columns;
    }
    printf("\n%-*s  samples  accuracy  most often taken for\n", width, head);
    for (int label = 0; label < r->classes; label++) {
        const double *row = r->confusion + (size_t)label * (size_t)r->classes;
        double samples, accuracy = accuracy_of(r, label, &samples);
        int mistake = -1;
        if (samples == 0) continue;
        for (int k = 0; k < r->classes; k++)
            if (k != label && row[k] > 0 && (mistake < 0 || row[k] > row[mistake])) mistake = k;
        const char *name = gs_class_name(&r->names, label, room);
        printf("%s%*s %8.0f %7.2f %%", name, width - columns_of(name), "", samples, 100 * accuracy);
        if (mistake >= 0) printf("  %s (%.0f)", gs_class_name(&r->names, mistake, room), row[mistake]);
        printf("\n");
    }
}

/* Add the class names, if there are any: in full if `whole`, otherwise in the form shown on a screen. */
static void add_names(cJSON *o, const char *field, const gs_result *r, bool whole) {
    char room[GS_CLASS_NAME];
    cJSON *names = cJSON_AddArrayToObject(o, field);
    for (int k = 0; k < r->classes && r->names.count > 0; k++)
        cJSON_AddItemToArray(
            names,
            gs_json_text(whole && k < r->names.count ? r->names.name[k] : gs_class_name(&r->names, k, room)));
}

/* "confusion": rows of counts; "class_accuracy": 0 to 1, null for a class without samples; "class_names", if any. */
static void confusion_json(const gs_result *r, cJSON *o) {
    cJSON *matrix = cJSON_AddArrayToObject(o, "confusion"),
          *by_class = cJSON_AddArrayToObject(o, "class_accuracy");
    for (int label = 0; label < r->classes; label++) {
        double samples, accuracy = accuracy_of(r, label, &samples);
        cJSON *row = cJSON_CreateDoubleArray(r->confusion + (size_t)label * (size_t)r->classes, r->classes);
        cJSON_AddItemToArray(matrix, row);
        cJSON_AddItemToArray(by_class, gs_json_number(accuracy));
    }
    if (r->names.count) add_names(o, "class_names", r, true);
}

/* ---- the result ---- */

/* matrix: also print the confusion matrix. */
static void print_result(const gs_settings *s, const gs_result *r, bool matrix, bool json) {
    if (!json) {
        if (r->tokens)
            print_text(s, r);
        else
            print_images(r);
        if (matrix) print_confusion(r);
        return;
    }
    cJSON *o =
        GS_JSON_OBJECT(GS_FIELD("event", "end"), GS_FIELD("status", "done"), GS_FIELD("data", s->data),
                       GS_FIELD("workers", r->workers), GS_FIELD("test_accuracy", r->test_accuracy),
                       GS_FIELD("test_loss", r->test_loss), GS_FIELD("samples_per_s", r->samples_per_s));
    add_text(s, r, o);
    if (r->top_accuracy >= 0) cJSON_AddNumberToObject(o, "test_top5_accuracy", r->top_accuracy);
    if (matrix) confusion_json(r, o);
    gs_json_print(o);
}

/* ---- pictures for the page ---- */

enum { SIDE = 96 }; /* maximum pixels per side of a picture on the page */

static float value_of(const gs_dataset *set, const unsigned char *raw, size_t i) {
    return set->inputs ? ((const float *)(const void *)raw)[i] : (float)raw[i];
}

/* For float data, the smallest value becomes black and the largest white. Returns null if samples are not pictures, or
 * if this one cannot be read. */
static cJSON *picture_of(const gs_dataset *set, size_t sample) {
    const gs_shape s = set->shape;
    const int longer = s.h > s.w ? s.h : s.w, by = (longer + SIDE - 1) / SIDE, h = s.h / by, w = s.w / by;
    if ((s.c != 1 && s.c != 3) || s.t > 0 || h < 2 || w < 2) return cJSON_CreateNull();
    const size_t bytes = (size_t)s.c * (size_t)h * (size_t)w;
    unsigned char *raw = malloc(gs_dataset_input_bytes(set)), *y = malloc(bytes);
    char *text = calloc(1, BASE64_ENCODE_RAW_LENGTH(bytes) + 1);
    cJSON *picture = NULL;
    if (raw && y && text && gs_dataset_gather(set, NULL, sample, 1, raw, NULL) == GS_OK) {
        float low = set->inputs ? INFINITY : 0, high = set->inputs ? -INFINITY : 255;
        for (size_t i = 0; set->inputs && i < gs_shape_size(s); i++) {
            low = fminf(low, value_of(set, raw, i));
            high = fmaxf(high, value_of(set, raw, i));
        }
        for (int i = 0; i < s.c * h * w; i++) { /* the centre of each by x by block of pixels */
            const int row = i / w % h * by + by / 2, column = i % w * by + by / 2;
            const int at = (i / (h * w) * s.h + row) * s.w + column;
            const float x = value_of(set, raw, (size_t)at);
            y[i] = high > low ? (unsigned char)lrintf(255 * (x - low) / (high - low)) : 0;
        }
        base64_encode_raw(text, bytes, y);
        picture =
            GS_JSON_OBJECT(GS_FIELD("h", h), GS_FIELD("w", w), GS_FIELD("c", s.c), GS_FIELD("bytes", text));
    }
    free(raw);
    free(y);
    free(text);
    return picture ? picture : cJSON_CreateNull();
}

/* ---- the page ---- */

/* The page of `eval -o`: accuracy, the confusion matrix, and the samples that the model gets most wrong.
 *
 * What the page's script (src/page/eval.js) reads:
 *
 *     version, command, load, data, workers; samples, classes, accuracy, top5 (or null), loss
 *     names      of the classes; [] if they have only numbers
 *     confusion  [[label, taken, samples]]   for counts above 0
 *     worst      [{sample, label, taken, loss (null: infinite), sure,
 *                  picture: {h, w, c: 1 or 3, bytes: base64 of (c, h, w)}, or null}]
 */
static void add_confusion(cJSON *o, const gs_result *r) {
    cJSON *cells = cJSON_AddArrayToObject(o, "confusion");
    for (int label = 0; label < r->classes; label++)
        for (int taken = 0; taken < r->classes; taken++) {
            const double count = r->confusion[(size_t)label * (size_t)r->classes + (size_t)taken];
            if (count > 0)
                cJSON_AddItemToArray(cells, GS_JSON_ARRAY(GS_JSON(label), GS_JSON(taken), GS_JSON(count)));
        }
}

static void add_worst(cJSON *o, const gs_result *r, const gs_dataset *set) {
    cJSON *list = cJSON_AddArrayToObject(o, "worst");
    for (int i = 0; i < r->worst.count; i++) {
        const gs_wrong *w = &r->worst.of[i];
        cJSON_AddItemToArray(list, GS_JSON_OBJECT(GS_FIELD("sample", w->sample), GS_FIELD("label", w->label),
                                                  GS_FIELD("taken", w->taken),
                                                  GS_FIELD("loss", gs_report_number(w->loss)),
                                                  GS_FIELD("sure", gs_report_number(w->sure)),
                                                  GS_FIELD("picture", picture_of(set, w->sample))));
    }
}

static cJSON *data_of(const gs_settings *s, const gs_result *r, const gs_dataset *set, int argc,
                      char *const *argv) {
    cJSON *o = gs_report_create(argc, argv);
    GS_JSON_ADD(o, GS_FIELD("load", s->load), GS_FIELD("data", s->data), GS_FIELD("workers", r->workers),
                GS_FIELD("samples", set->count), GS_FIELD("classes", r->classes),
                GS_FIELD("accuracy", gs_report_number(r->test_accuracy)),
                GS_FIELD("top5", gs_report_number(r->top_accuracy)),
                GS_FIELD("loss", gs_report_number(r->test_loss)));
    add_names(o, "names", r, false);
    add_confusion(o, r);
    add_worst(o, r, set);
    return o;
}

/* r: the result of gs_eval with settings->confusion. argv: the command line. */
static gs_status write_page(const gs_settings *s, const gs_result *r, const char *path, int argc,
                            char *const *argv) {
    gs_dataset *set;
    gs_settings as_run = *s;
    as_run.folder.size = r->folder_size;
    GS_TRY(gs_load_set(&as_run, GS_TEST, &set));
    cJSON *o = data_of(s, r, set, argc, argv);
    const gs_page page = {.title = "gradsum: an evaluation",
                          .style = {gs_page_eval_css},
                          .body = gs_page_eval_html,
                          .script = {gs_page_eval_js}};
    gs_status status = gs_page_write(path, &page, o);
    cJSON_Delete(o);
    gs_dataset_free(set);
    return status;
}

/* Report errors in the output paths before the work begins. */
static gs_status check_own(const gs_settings *s, const char *page) {
    if (!s->load) return gs_fail(GS_E_USAGE, "--load FILE is required: the weights to evaluate");
    if (page && gs_text_is_at(s->data))
        return gs_fail(GS_E_USAGE, "-o shows what images are taken for, but the data are %s", s->data);
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
        {"out", GS_OPTION_TEXT, &page, 0, 0, "FILE",
         "a page (.html) with the confusion matrix and the samples that the model gets most wrong"},
        {"json", GS_OPTION_FLAG, &json, 0, 0, NULL, "the result as a JSON object"},
        {0},
    };
    gs_rendezvous processes;
    gs_status status = gs_rendezvous_from_environment(&processes);
    if (status != GS_OK) return gs_exit_status("eval", status);
    processes.tell = gs_tell_sentence;
    processes.met = gs_launch_note_joined;
    s.timeout = processes.timeout; /* unless --timeout says otherwise */
    const gs_option *options = gs_run_options(&s, GS_ALL_RUNS, own);
    const gs_help help = {"eval --load FILE [options]",
                          "Print accuracy, loss and, with more than 5 classes, top-5 accuracy (the label is\n"
                          "among the 5 likeliest) on the test set, which is split over the workers. For a\n"
                          "text: the loss per token, its perplexity, exp(loss), and bits per character.\n"
                          "Inference synchronises only the final count, and gives the same result for any\n"
                          "number of workers and threads.",
                          "gradsum eval --load lenet.safetensors --devices cpu,cpu", NULL};
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    status = check_own(&s, page);
    if (status != GS_OK) return gs_exit_status("eval", status);
    const bool matrix = s.confusion;
    s.confusion = s.confusion || page; /* the page shows the matrix */
    s.processes = &processes;
    processes.timeout = s.timeout;

    gs_activity work = {.tells = !json};
    gs_result result;
    status = gs_eval(&s, &(gs_observer){.context = &work, .testing = json ? NULL : gs_show_testing}, &result);
    gs_show_activity(NULL, 0, NULL);
    if (status == GS_E_DIVERGED && processes.rank != 0) return GS_EXIT_FAILED; /* rank 0 reports it */
    if (status != GS_OK && json && processes.rank == 0) gs_json_failed(status, NULL);
    if (status != GS_OK) return gs_exit_status("eval", status);
    gs_tell_scaling("eval", &s);
    gs_tell_test_set("eval", &s);
    gs_tell_skipped("eval", &result);
    if (result.rank == 0) print_result(&s, &result, matrix, json);
    if (result.rank == 0 && page) status = write_page(&s, &result, page, argc, argv);
    gs_result_free(&result);
    return gs_exit_status("eval", status);
}
