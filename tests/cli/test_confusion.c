/* eval --confusion and -o: which class is mistaken for which, and the samples with the largest loss. */
#include "tests/support/files.h"
#include "tests/support/program.h"
#include <math.h>

TEST(the_largest_logit) {
    const float nan = NAN, inf = INFINITY;
    assert_int_equal(gs_largest_logit((const float[]){1, 3, 2}, 3), 1);
    assert_int_equal(gs_largest_logit((const float[]){-5, -5, -7}, 3), 0); /* the first of equal logits */
    assert_int_equal(gs_largest_logit((const float[]){inf, nan, 9, nan}, 4), 1);
    assert_int_equal(gs_largest_logit((const float[]){nan, inf}, 2), 0);
    assert_int_equal(gs_largest_logit((const float[]){-inf, -inf}, 2), 0);
}

/* A class's rank, in the order of torch.argsort(descending=True, stable=True). */
TEST(places) {
    const float nan = NAN, inf = INFINITY;
    const struct {
        float logit[6];
        int place[6];
    } cases[] = {{{1, 3, 2, -1, 0, 9}, {3, 1, 2, 5, 4, 0}},
                 {{2, 2, 5, 2, 5, 0}, {2, 3, 0, 4, 1, 5}},
                 {{inf, nan, 0, nan, -inf, 7}, {2, 0, 4, 1, 5, 3}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int k = 0; k < 6; k++) {
            assert_int_equal(gs_rank_of_label(cases[i].logit, 6, k), cases[i].place[k]);
            if (cases[i].place[k] == 0) assert_int_equal(gs_largest_logit(cases[i].logit, 6), k);
        }
}

TEST(labels_and_classes_are_counted) {
    const float logits[] = {5, 1, 0, /**/ 0, 1, 5, /**/ 0, 1, 5, /**/ 2, 1, 0};
    const int32_t labels[] = {0, 1, 2, 2};
    double count[9] = {0};
    gs_confusion_add(count, logits, labels, 4, 3);
    const double want[9] = {1, 0, 0, /**/ 0, 0, 1, /**/ 1, 0, 1};
    for (int i = 0; i < 9; i++) assert_float_equal(count[i], want[i], 0);
}

/* Of more samples than are kept, added in three orders, the same ones remain: those that come first when sorted. */
TEST(the_worst_are_kept) {
    enum { SAMPLES = 100 };
    gs_worst list[3] = {{0}};
    for (int order = 0; order < 3; order++)
        for (size_t i = 0; i < SAMPLES; i++) {
            const size_t sample = order == 0 ? i : order == 1 ? SAMPLES - 1 - i : i * 37 % SAMPLES;
            gs_worst_add(&list[order], (gs_wrong){.sample = sample, .loss = (double)(sample * 7 % 50)});
        }
    for (int order = 0; order < 3; order++) {
        assert_int_equal(list[order].count, GS_WORST);
        for (int i = 0; i < GS_WORST; i++) { /* two samples, 50 apart, have the same loss */
            assert_float_equal(list[order].of[i].loss, 49 - i / 2, 0);
            assert_int_equal(list[order].of[i].sample, list[0].of[i].sample);
            assert_int_equal(list[order].of[i].sample >= 50, i % 2);
        }
    }
}

/* Expected values: torch.nn.functional.cross_entropy and softmax. Losses that are not finite come first. */
TEST(losses_of_logits) {
    const float logits[] = {1, 2, 3, /**/ 200, -300, 0, /**/ 0, NAN, 1, /**/ -1, 0.5f, 0.25f};
    const int32_t labels[] = {0, 1, 2, 1};
    gs_worst w = {0};
    gs_worst_add_logits(&w, 10, logits, labels, 4, 3);
    assert_int_equal(w.count, 4);
    assert_true(w.of[0].sample == 12 && isinf(w.of[0].loss) && w.of[0].taken == 1);
    assert_true(w.of[1].sample == 11 && w.of[1].taken == 0);
    assert_float_equal(w.of[1].loss, 500, 1e-9);
    assert_true(w.of[2].sample == 10 && w.of[2].label == 0 && w.of[2].taken == 2);
    assert_float_equal(w.of[2].loss, 2.4076059644443806, 1e-12);
    assert_float_equal(w.of[2].sure, 0.6652409557748219, 1e-12);
    assert_float_equal(w.of[3].loss, 0.6941121864019142, 1e-12);
}

static void train_softmax(char path[400]) {
    snprintf(path, 400, "%s/w.safetensors", gs_test_folder());
    gs_test_output(0, "train --model softmax --threads 1 --steps 20 --save %s", path);
}

/* The accuracy according to the logits of `predict`: counts the logits that are larger than the label's. */
static double top_of_predictions(const char *weights) {
    enum { COUNT = 1000, CLASSES = 10 };
    static float logits[COUNT * CLASSES];
    unsigned char head[10];
    int right = 0;
    const char *path = gs_test_format("%s/logits.npy", gs_test_folder());
    assert_prints(0, "columns  T-shirt/top, trouser, pullover, ", "predict --load %s --threads 1 -o %s",
                  weights, path);
    FILE *f = gs_test_open(path, "rb");
    assert_int_equal(fread(head, 1, sizeof head, f), sizeof head);
    assert_int_equal(fseek(f, head[8] + 256 * head[9], SEEK_CUR), 0);
    assert_int_equal(fread(logits, sizeof *logits, COUNT * CLASSES, f), COUNT * CLASSES);
    fclose(f);
    gs_dataset *set = gs_test_load("fashion-mnist-small", GS_TEST);
    for (int i = 0; i < COUNT; i++) {
        const float *row = logits + i * CLASSES;
        int larger = 0;
        for (int k = 0; k < CLASSES; k++) larger += row[k] > row[set->labels[i]];
        right += larger < 5;
    }
    return (double)right / COUNT;
}

/* The matrix agrees with the accuracy and with the labels, and does not depend on how the test set is split. */
TEST(the_matrix_adds_up) {
    char path[400];
    const char *first = NULL;
    static const char *const devices[] = {"cpu", "cpu,cpu,cpu", "cl"};
    train_softmax(path);
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        char *output = gs_test_output(0, "eval --load %s --confusion --json --devices %s", path, devices[i]);
        cJSON *o = gs_test_parse(output);
        const cJSON *matrix = cJSON_GetObjectItem(o, "confusion"), *row;
        double accuracy = cJSON_GetObjectItem(o, "test_accuracy")->valuedouble, right = 0;
        assert_int_equal(cJSON_GetArraySize(matrix), 10);
        int label = 0;
        cJSON_ArrayForEach(row, matrix) {
            double sum = 0;
            for (int k = 0; k < 10; k++) sum += cJSON_GetArrayItem(row, k)->valuedouble;
            assert_float_equal(sum, 100, 0); /* images of each class in fashion-mnist-small's test set */
            double own = cJSON_GetArrayItem(row, label)->valuedouble;
            const cJSON *by_class = cJSON_GetArrayItem(cJSON_GetObjectItem(o, "class_accuracy"), label++);
            assert_float_equal(by_class->valuedouble, own / 100, 1e-12);
            right += own;
        }
        assert_float_equal(right / 1000, accuracy, 1e-7);
        const double top = cJSON_GetObjectItem(o, "test_top5_accuracy")->valuedouble;
        assert_true(top >= accuracy && top < 1);
        assert_float_equal(top, top_of_predictions(path), 1e-12);
        const char *text = gs_test_keep(cJSON_PrintUnformatted(matrix));
        if (!first) first = text;
        assert_string_equal(text, first);
    }
}

/* Ranks can sum their matrices only if their options agree. */
TEST(ranks_must_agree_on_it) {
    char path[400];
    train_softmax(path);
    char *output =
        gs_test_shell_output(2,
                             "export GRADSUM_WORLD_SIZE=2 GRADSUM_TIMEOUT=200 GRADSUM_RENDEZVOUS=%s; "
                             "G='%s/gradsum eval --threads 1 --load %s'; "
                             "(GRADSUM_RANK=0 $G; echo rank 0: $?) & GRADSUM_RANK=1 $G --confusion; S=$?; "
                             "wait; exit $S",
                             gs_test_folder(), GS_BUILD_DIR, path);
    assert_has(output, "rank 0: 2", "rank 1 runs with --confusion, rank 0 without it");
}

TEST(a_line_for_each_class) {
    char path[400];
    train_softmax(path);
    char *output = gs_test_output(0, "eval --load %s --confusion", path);
    assert_has(output, "\nlabel        samples  accuracy  most often taken for\n", "\nankle boot       100 ");
    gs_test_fits(output, 80);
    /* on a fast machine the rate may be long enough to wrap the first line */
    const int lines = gs_test_count(output, "\n") - gs_test_count(output, "\n\n");
    assert_in_range(lines, 1 + 1 + 10, 2 + 1 + 10);
}

/* In any layout, the worst samples are those with the largest loss according to the logits of `predict`. */
TEST(the_page_has_the_worst) {
    char weights[400], page[500];
    const char *first = NULL;
    static const char *const devices[] = {"cpu", "cpu,cpu,cpu"};
    train_softmax(weights);
    snprintf(page, sizeof page, "%s/page.html", gs_test_folder());
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        char *output = gs_test_output(0, "eval --load %s --devices %s -o %s", weights, devices[i], page);
        assert_null(strstr(output, "taken for")); /* the matrix is on the page, not in the output */
        cJSON *o = gs_test_page_data(gs_test_text(page, NULL));
        const cJSON *worst = cJSON_GetObjectItem(o, "worst"), *w = cJSON_GetArrayItem(worst, 0);
        const cJSON *picture = cJSON_GetObjectItem(w, "picture");
        gs_dataset *set = gs_test_load("fashion-mnist-small", GS_TEST);
        const int sample = cJSON_GetObjectItem(w, "sample")->valueint;
        assert_int_equal(cJSON_GetObjectItem(w, "label")->valueint, set->labels[sample]);
        assert_int_equal(cJSON_GetObjectItem(picture, "h")->valueint, 28);
        assert_int_equal(strlen(cJSON_GetObjectItem(picture, "bytes")->valuestring), (28 * 28 + 2) / 3 * 4);
        const char *text = gs_test_keep(cJSON_PrintUnformatted(worst));
        if (!first) first = text;
        assert_string_equal(text, first);
    }
}

TEST(the_page_cannot_be_written) {
    char weights[400];
    train_softmax(weights);
    char *output = gs_test_output(1, "eval --load %s -o %s/no/such.html", weights, gs_test_folder());
    assert_null(strstr(output, "test accuracy")); /* the error comes before any work */
}
