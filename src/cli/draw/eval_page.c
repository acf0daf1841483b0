#include "cli/draw/eval_page.h"

#include <math.h>
#include <nettle/base64.h>
#include <stdio.h>
#include <stdlib.h>
#include "core/version.h"
#include "io/json.h"
#include "page/page.h"
#include "page/report.h"
#include "page/strings.h"

/* ---- pictures ---- */

enum { SIDE = 96 }; /* pixels of a picture on the page, at most */

/* One sample as numbers from 0 to 255, whatever the set keeps. NULL: no memory, or it cannot be read. */
static float *numbers_of(const gs_dataset *set, size_t sample) {
    const size_t count = gs_shape_size(set->shape);
    unsigned char *raw = malloc(gs_dataset_input_bytes(set));
    float *x = malloc(count * sizeof *x), low = INFINITY, high = -INFINITY;
    if (!raw || !x || gs_dataset_gather(set, NULL, sample, 1, raw, NULL) != GS_OK) {
        free(raw);
        free(x);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        x[i] = set->inputs ? ((const float *)(const void *)raw)[i] : (float)raw[i];
        if (x[i] < low) low = x[i];
        if (x[i] > high) high = x[i];
    }
    free(raw);
    /* Numbers that were no bytes: the darkest becomes black, the brightest white. */
    for (size_t i = 0; set->inputs && i < count; i++)
        x[i] = high > low ? 255 * (x[i] - low) / (high - low) : 0;
    return x;
}

/* The mean of by x by pixels, in rows of `width`. */
static unsigned char mean_of(const float *x, int width, int by) {
    float sum = 0;
    for (int i = 0; i < by; i++)
        for (int j = 0; j < by; j++) sum += x[i * width + j];
    return (unsigned char)lrintf(sum / (float)(by * by));
}

/* y (c, h / by, w / by): such means. */
static void shrink(const float *x, gs_shape s, int by, unsigned char *y) {
    const int h = s.h / by, w = s.w / by;
    for (int c = 0; c < s.c; c++, x += (size_t)s.h * (size_t)s.w)
        for (int i = 0; i < h; i++)
            for (int j = 0; j < w; j++) *y++ = mean_of(x + (size_t)(i * by) * (size_t)s.w + j * by, s.w, by);
}

/* null where the samples are no pictures, or where one cannot be had. */
static cJSON *picture_of(const gs_dataset *set, size_t sample) {
    const gs_shape s = set->shape;
    const int longer = s.h > s.w ? s.h : s.w, by = (longer + SIDE - 1) / SIDE;
    if ((s.c != 1 && s.c != 3) || s.t > 0 || s.h / by < 2 || s.w / by < 2) return cJSON_CreateNull();
    const size_t bytes = (size_t)s.c * (size_t)(s.h / by) * (size_t)(s.w / by);
    float *x = numbers_of(set, sample);
    unsigned char *y = malloc(bytes);
    char *text = calloc(1, BASE64_ENCODE_RAW_LENGTH(bytes) + 1);
    cJSON *picture = cJSON_CreateNull();
    if (x && y && text) {
        shrink(x, s, by, y);
        base64_encode_raw(text, bytes, y);
        cJSON_Delete(picture);
        const int h = s.h / by, w = s.w / by;
        picture =
            GS_JSON_OBJECT(GS_FIELD("h", h), GS_FIELD("w", w), GS_FIELD("c", s.c), GS_FIELD("bytes", text));
    }
    free(x);
    free(y);
    free(text);
    return picture;
}

/* ---- the page ---- */

static void add_names(cJSON *o, const gs_result *r) {
    char room[GS_CLASS_NAME];
    cJSON *names = cJSON_AddArrayToObject(o, "names");
    for (int k = 0; k < r->classes && r->names.count > 0; k++)
        cJSON_AddItemToArray(names, cJSON_CreateString(gs_class_name(&r->names, k, room)));
}

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
    cJSON *o = GS_JSON_OBJECT(GS_FIELD("version", GRADSUM_VERSION), GS_FIELD("load", s->load),
                              GS_FIELD("data", s->data), GS_FIELD("workers", r->workers),
                              GS_FIELD("samples", set->count), GS_FIELD("classes", r->classes),
                              GS_FIELD("accuracy", gs_report_number(r->test_accuracy)),
                              GS_FIELD("top5", gs_report_number(r->top_accuracy)),
                              GS_FIELD("loss", gs_report_number(r->test_loss)));
    cJSON *command = cJSON_AddArrayToObject(o, "command");
    cJSON_AddItemToArray(command, cJSON_CreateString("gradsum"));
    for (int i = 0; i < argc; i++) cJSON_AddItemToArray(command, cJSON_CreateString(argv[i]));
    add_names(o, r);
    add_confusion(o, r);
    add_worst(o, r, set);
    return o;
}

gs_status gs_eval_page(const gs_settings *s, const gs_result *r, const char *path, int argc,
                       char *const *argv) {
    gs_dataset *set;
    gs_settings as_run = *s;
    as_run.folder.size = r->folder_size;
    GS_TRY(gs_load_set(&as_run, GS_TEST, &set));
    cJSON *o = data_of(s, r, set, argc, argv);
    const gs_page_part parts[] = {
        {"title", GS_PAGE_TEXT, "gradsum: an evaluation", NULL},
        {"style", GS_PAGE_STYLE, gs_page_base_css, NULL},
        {"style", GS_PAGE_STYLE, gs_page_eval_css, NULL},
        {"body", GS_PAGE_HTML, gs_page_eval_html, NULL},
        {"data", GS_PAGE_JSON, NULL, o},
        {"chart", GS_PAGE_SCRIPT, "", NULL},
        {"script", GS_PAGE_SCRIPT, gs_page_base_js, NULL},
        {"script", GS_PAGE_SCRIPT, gs_page_eval_js, NULL},
        {NULL, GS_PAGE_TEXT, NULL, NULL},
    };
    gs_status status = gs_page_write(path, gs_page_base_html, parts);
    cJSON_Delete(o);
    gs_dataset_free(set);
    return status;
}
