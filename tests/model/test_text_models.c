/* Language models: what they store about the text, which texts they fit, and what the commands report. */
#include <math.h>
#include "data/text_set.h"
#include "model/model_text.h"
#include "tests/support/files.h"
#include "tests/support/some_text.h"
#include "tests/support/training.h"

/* ---- what a model stores ---- */

static const char *trained(const char *where, gs_tokens tokens) {
    const char *path = in_folder(gs_test_folder(), "model.safetensors");
    gs_settings s = text_settings(where, "cpu");
    s.tokens = tokens;
    s.model = tokens == GS_TOKENS_BYTES ? "embedding 256 256" : TRANSFORMER;
    s.save = path;
    gs_test_train(&s);
    return path;
}

TEST(a_model_carries_its_vocabulary) {
    const char *where = text_file(), *path = trained(where, GS_TOKENS_UNSAID);
    gs_dataset *set = load_text(where, GS_TEST, SMALL);
    gs_weights_info saved;
    assert_ok(gs_safetensors_read_info(path, &saved));
    assert_non_null(saved.vocabulary);
    assert_true(gs_vocabulary_same(saved.vocabulary, &set->text->vocabulary));
    assert_int_equal(saved.in.t, CONTEXT);
    gs_weights_info_free(&saved);

    /* evaluated without specifying the context */
    gs_settings s = gs_test_options("--data %s --load %s", where, path);
    const gs_result own = gs_test_eval(&s);
    assert_int_equal(own.tokens, CONTEXT);
    assert_int_equal(own.token, GS_TOKENS_CHARS);

    /* another text with fewer distinct characters but the same last tenth: that must get the same tokens */
    char text[4 * LENGTH + 1];
    size_t bytes = make_text(text);
    size_t tail = bytes;
    for (int characters = 0; characters < TEST;) characters += (text[--tail] & 0xc0) != 0x80;
    const char *other = gs_test_format("text:%s", in_folder(gs_test_folder(), "other.txt"));
    FILE *f = fopen(other + 5, "wb");
    for (int i = 0; i < LENGTH - TEST; i++) fputc('a', f);
    fwrite(text + tail, 1, bytes - tail, f);
    fclose(f);
    s.data = other;
    assert_near(gs_test_eval(&s).test_loss, own.test_loss, 0, 0);

    float *logits;
    size_t rows;
    int columns;
    s.data = where;
    assert_ok(gs_predict_all(&s, NULL, &logits, &rows, &columns));
    assert_int_equal(rows, (TEST - 1) / CONTEXT);
    assert_int_equal(columns, CONTEXT * KINDS);
    free(logits);
}

TEST(a_model_takes_its_own_text_alone) {
    const char *where = gs_test_format("%s", text_file());
    const char *path = gs_test_format("%s", trained(where, GS_TOKENS_UNSAID));
    const char *other = gs_test_format("text:%s", in_folder(gs_test_folder(), "x.txt"));
    FILE *f = fopen(other + 5, "wb");
    for (int i = 0; i < 300; i++) fputs(i == 200 ? "\n\xc3\x84" : "a", f);
    fclose(f);
    gs_settings s = gs_test_options("--load %s --data %s", path, other);
    gs_result r;
    assert_fails(GS_E_FORMAT,
                 "x.txt: byte 202 (line 2) is the character '\xc3\x84' (U+00C4), which is not among the 28 "
                 "that the model has seen",
                 gs_eval(&s, NULL, &r));
    s = gs_test_with(s, "--data %s --tokens bytes", where);
    assert_fails(GS_E_USAGE, "--tokens bytes: the model was trained on characters; wanted --tokens chars",
                 gs_eval(&s, NULL, &r));
    s.tokens = GS_TOKENS_UNSAID;
    s.context = 4;
    assert_fails(GS_E_SHAPE, "holds a model for windows of 10 characters", gs_eval(&s, NULL, &r));
    s.context = 0;
    s.data = "fashion-mnist-small";
    assert_fails(GS_E_USAGE, "holds a model of text, but fashion-mnist-small (test) holds none",
                 gs_eval(&s, NULL, &r));

    gs_dataset *set = load_text(other, GS_TRAIN, SMALL); /* the caller's own set, with another vocabulary */
    s.train_set = s.test_set = set;
    assert_fails(GS_E_FORMAT, "trained with another vocabulary", gs_eval(&s, NULL, &r));

    s = gs_test_options("--data %s", other);
    s.load = trained(where, GS_TOKENS_BYTES);
    assert_int_equal(gs_test_eval(&s).token, GS_TOKENS_BYTES); /* bytes: any file works */
}

/* Loads a weight file whose metadata also contain these fields. */
static gs_status about(const char *fields, gs_weights_info *saved) {
    const char *path = in_folder(gs_test_folder(), "w.safetensors");
    const char *header = gs_test_format(
        "{\"__metadata__\":{%s},\"0.weight\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
        fields);
    write_safetensors(path, header, "\0\0\0\0", 4);
    return gs_safetensors_read_info(path, saved);
}

TEST(vocabularies_in_files) {
    static const struct {
        const char *fields, *message;
    } wrong[] = {
        {"\"tokens\":\"words\"",
         "w.safetensors: 'tokens' in the metadata is 'words'; wanted chars, bytes or bpe"},
        {"\"tokens\":5", "'tokens' in the metadata is ''"},
        {"\"tokens\":\"chars\"", "there is no 'vocabulary' that is a string"},
        {"\"tokens\":\"chars\",\"vocabulary\":7", "there is no 'vocabulary' that is a string"},
        {"\"tokens\":\"chars\",\"vocabulary\":\"\"", "'vocabulary' in the metadata is empty"},
        {"\"tokens\":\"chars\",\"vocabulary\":\"aab\"", "has a character twice, or after a larger one"},
        {"\"tokens\":\"chars\",\"vocabulary\":\"ba\"", "has a character twice, or after a larger one"},
        {"\"tokens\":\"chars\",\"vocabulary\":\"a\xff\"", "byte 2 (line 1) is 0xff"},
    };
    gs_weights_info saved;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_fails(GS_E_FORMAT, wrong[i].message, about(wrong[i].fields, &saved));
        gs_weights_info_free(&saved);
    }
    assert_ok(about("\"tokens\":\"chars\",\"vocabulary\":\"\\n\\\"a\\u00e9\"", &saved));
    assert_int_equal(saved.vocabulary->size, 4);
    assert_int_equal(saved.vocabulary->character[3], 0xe9);
    gs_weights_info_free(&saved);
    assert_ok(about("\"tokens\":\"bytes\"", &saved));
    assert_int_equal(saved.vocabulary->size, 256);
    gs_weights_info_free(&saved);
}

/* ---- mismatches ---- */

TEST(models_that_do_not_fit) {
    gs_settings s = text_settings(text_file(), "cpu");
    gs_result r = {0};
    s.model = "mlp";
    assert_train_fails(GS_E_USAGE, "is a text, but the model (mlp) does not begin with an embedding", &s);
    s.model = "embedding 20 8, linear 28";
    assert_train_fails(GS_E_FORMAT, "has 28 different characters, but the model's embedding has 20 rows", &s);
    s.model = "embedding 28 8, linear 27";
    assert_train_fails(GS_E_FORMAT,
                       "has 28 different characters, but the model has 27 outputs for each token", &s);
    s.model = "embedding 28 8, flatten, linear 28";
    assert_train_fails(GS_E_SHAPE, "has 10 labels for each sample, but the model answers 1", &s);
    s.model = "embedding 30 8, linear 40"; /* a larger vocabulary than needed is allowed */
    r = gs_test_train(&s);
    s.batch = (1 << 24) / CONTEXT + 1; /* more tokens than a float can count */
    assert_fails(GS_E_USAGE, "--batch 1677722 has 16777220 tokens, 10 in a window; at most 16777216 tokens",
                 gs_train(&s, NULL, &r));
    s.batch = BATCH;
    s.mean = (gs_by_channel){.count = 1};
    assert_train_fails(GS_E_USAGE, "is a text: --mean and --std are for images", &s);
    s.mean.count = 0;
    s.augment.flip = true;
    assert_train_fails(GS_E_USAGE, "has no images", &s);
    s.augment.flip = false;
    s.labels = GS_LABELS_COARSE;
    assert_train_fails(GS_E_USAGE, "only CIFAR-100 has coarse labels", &s);
    s = gs_test_options("--context 5");
    assert_train_fails(
        GS_E_USAGE, "--context is for a text (--data text:FILE), but the data are fashion-mnist-small", &s);
    s.context = 0;
    s.tokens = GS_TOKENS_BYTES;
    assert_train_fails(GS_E_USAGE, "--tokens is for a text", &s);
}

/* The text's vocabulary size is appended to the bare name of a language model. */
TEST(a_bare_name_takes_the_vocabulary) {
    assert_false(gs_model_is_language("mlp"));
    assert_false(gs_model_is_language("embedding 28 28"));
    assert_true(gs_model_is_language("gpt 28") && gs_model_is_language("gpt"));
    gs_settings s = gs_test_with(text_settings(text_file(), "cpu"), "--model gpt --steps 1");
    gs_result r = gs_test_train(&s), other;
    s.model = "gpt 28";
    other = gs_test_train(&s);
    assert_int_equal(r.params, other.params);
    assert_same_bits(&r, &other, "gpt 28");
}

/* ---- the commands ---- */

TEST(perplexity_is_printed) {
    const char *where = gs_test_format("%s", text_file());
    const char *model = in_folder(gs_test_folder(), "m.safetensors");
#define RUN "--model 'embedding 28 28' --context 10 --batch 7 --epochs 2 --threads 1"
    assert_prints(0, "some.txt", "train " RUN " --data %s --save %s", where, model);
    assert_prints(0, " tokens/s", "train " RUN " --data %s", where);
    assert_prints(
        0, "(bytes): 77 windows of",
        "train --model 'embedding 256 256' --context 10 --tokens bytes --epochs 1 --batch 7 --data %s",
        where);
    assert_prints(0, "\n' ' ", "eval --data %s --load %s --confusion", where, model);
    char *output = gs_test_output(0, "train " RUN " --data %s --json | tail -n 1", where);
    cJSON *end = gs_test_parse(output);
    assert_near(gs_test_field(end, "test_perplexity")->valuedouble,
                exp(gs_test_field(end, "test_loss")->valuedouble), 0, 1e-12);
    assert_near(gs_test_field(end, "train_perplexity")->valuedouble,
                exp(gs_test_field(end, "train_loss")->valuedouble), 0, 1e-12);
    assert_near(gs_test_field(end, "tokens_per_s")->valuedouble,
                10 * gs_test_field(end, "samples_per_s")->valuedouble, 0, 1e-9);

    assert_prints(0, " bits per character,\naccuracy ", "eval --load %s --data %s", model, where);
    output = gs_test_output(0, "eval --load %s --data %s --json", model, where);
    end = gs_test_parse(output);
    const double loss = gs_test_field(end, "test_loss")->valuedouble;
    assert_near(gs_test_field(end, "test_perplexity")->valuedouble, exp(loss), 0, 1e-12);
    assert_near(gs_test_field(end, "test_bits_per_character")->valuedouble, log2(exp(loss)), 0, 1e-12);
}

TEST(ranks_with_other_windows) {
    const char *where = text_file(), *folder = gs_test_folder();
    char *output;
    gs_test_shell(&output,
                  "export GRADSUM_WORLD_SIZE=2 GRADSUM_TIMEOUT=200 GRADSUM_RENDEZVOUS=%s\n"
                  "run() { GRADSUM_RANK=$1 %s/gradsum train --model 'embedding 28 28' --batch 7 --steps 1 "
                  "--threads 1 --data %s --context $2 2>&1; }\nrun 0 10 & run 1 5; wait",
                  folder, GS_BUILD_DIR, where);
    if (!strstr(output,
                "rank 1 and rank 0 differ in --context (5 versus 10): start all with the same options"))
        fail_msg("%s", output);
}

TEST(every_command_takes_a_text_or_says_why_not) {
    const char *where = gs_test_format("%s", text_file());
    const char *folder = in_folder(gs_test_folder(), "log");
    assert_prints(0, "done", "train " RUN " --log %s --data %s", folder, where);
    char *output = gs_test_shell_output(0, "cat %s/run.json", folder);
    cJSON *run = gs_test_parse(output);
    assert_string_equal(gs_test_field(run, "tokens")->valuestring, "chars");
    assert_int_equal(gs_test_field(run, "context")->valueint, 10);
    assert_prints(0, "open it in a browser", "report %s -o %s.html", folder, folder);
    assert_prints(0, "cpu,cpu",
                  "compare --model 'embedding 28 28' --context 10 --batch 7 --steps 5 "
                  "--devices-list 'cpu; cpu,cpu' --data %s",
                  where);
    assert_prints(
        0, "batch",
        "sweep --model 'embedding 28 28' --context 10 --batch 7,14 --epochs 1 --target 99 --data %s", where);
    assert_prints(0, "embedding 28 28",
                  "profile --model 'embedding 28 28' --context 10 --batch 7 --threads 1 --data %s", where);
    assert_prints(2, "does not begin with an embedding", "train --model mlp --data %s", where);
    assert_prints(2, "is a text: step shows the gradients of images",
                  "step -o %s.html --model softmax --data %s", folder, where);
}
