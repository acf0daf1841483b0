/* Byte pairs in files: invalid files, and the commands that use them. */
#include "core/text.h"
#include "data/bpe_internal.h"
#include "tests/support/files.h"
#include "tests/support/program.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

/* A vocab.json with the bytes, followed by `more`, such as ", \"ab\": 256". Omits byte `drop` (-1: none). */
static char *vocabulary_of(const char *more, int drop) {
    enum { MOST = 8000 };
    char *text = gs_test_malloc(MOST), one[5];
    strcpy(text, "{");
    for (int byte = 0; byte < 256; byte++) {
        gs_utf8_write(gs_bpe_character((unsigned char)byte), one);
        const char *escape = *one == '"' || *one == '\\' ? "\\" : "";
        if (byte == drop) gs_append(text, MOST, "%s\"%s%s%s\": %d", byte ? ", " : "", escape, one, one, byte);
        if (byte != drop) gs_append(text, MOST, "%s\"%s%s\": %d", byte ? ", " : "", escape, one, byte);
    }
    gs_append(text, MOST, "%s}", more);
    return text;
}

/* A folder with both files; NULL leaves a file out. The folder's name is always the same. */
static const char *folder_of(const char *vocabulary, const char *merges) {
    const char *folder = gs_test_format("%s/pairs", gs_test_folder());
    gs_file_remove_folder(folder);
    assert_int_equal(mkdir(folder, 0777), 0);
    if (vocabulary) write_text(in_folder(folder, "vocab.json"), vocabulary);
    if (merges) write_text(in_folder(folder, "merges.txt"), merges);
    return folder;
}

static const char *pairs_of(const char *more, const char *merges) {
    return folder_of(vocabulary_of(more, -1), merges);
}

TEST(files_that_are_whole) {
    static const char *const merges[] = {"#version: 0.2\na b\nab c\n", "a b\nab c",
                                         "#version: 0.2\r\na b\r\nab c\r\n", "\na b\n\nab c\n\n"};
    gs_bpe *first, *b;
    assert_ok(gs_bpe_load(pairs_of(", \"abc\": 257, \"ab\": 256", merges[0]), &first));
    assert_int_equal(gs_bpe_size(first), 258);
    for (size_t i = 1; i < sizeof merges / sizeof *merges; i++) {
        assert_ok(gs_bpe_load(pairs_of(", \"ab\": 256, \"abc\": 257", merges[i]), &b));
        assert_true(gs_bpe_same(first, b));
        gs_bpe_free(b);
    }
    gs_bpe_free(first);
}

#define AB ", \"ab\": 256"

TEST(lists_that_are_none) {
    static const struct {
        const char *more, *merges, *message;
    } wrong[] = {
        {AB ", \"b\": 5", "a b\n", "vocab.json: '\xc4\x85' and 'b' both have the number 5"},
        {AB ", \"c \": 257", "a b\n",
         "token 257, 'c ', has a character that stands for no byte (at its byte 1)"},
        {AB ", \"\xe2\x96\x81the\": 257", "a b\n", "wanted byte pairs in GPT-2's alphabet"},
        {AB ", \"\xff\": 257", "a b\n", "token 257, '\\xff', has a character that stands for no byte"},
        {AB ", \"\": 257", "a b\n", "vocab.json: token 257 is empty"},
        {AB ", \"ab\": 257", "a b\n", "vocab.json: tokens 256 and 257 are both 'ab'"},
        {AB ", \"b</w>\": 257", "a b</w>\n", "the token 'b</w>' ends its word by </w>, as CLIP's do"},
        {", \"ab\": 257", "a b\n", "the number of 'ab' is 257; wanted 0 to 256, for 257 tokens"},
        {", \"ab\": 1.5", "a b\n", "the number of 'ab' is 1.5"},
        {", \"ab\": -1", "a b\n", "the number of 'ab' is -1"},
        {", \"ab\": \"x\"", "a b\n", "the number of 'ab' is \"x\""},
        {", \"ab\": [[1]]", "a b\n", "the number of 'ab' is [[1]]"},
        {", \"ab\": 1e300", "a b\n", "the number of 'ab' is 1e+300"},
        {AB, "",
         "merges.txt is empty; wanted a list of merges (tokens that are bytes need none: --tokens bytes)"},
        {AB, "#version: 0.2\n", "merges.txt has no merges"},
        {AB, "a b\na", "merges.txt: line 2 is 'a'; wanted two tokens with a space between"},
        {AB, "a b\na b c\n", "line 2 is 'a b c'; wanted two tokens"},
        {AB, "a  b\n", "line 1 is 'a  b'; wanted two tokens"},
        {AB, " b\n", "line 1 is ' b'; wanted two tokens"},
        {AB, "a \n", "line 1 is 'a '; wanted two tokens"},
        {AB, "a b\n#version: 0.2\n", "line 2: it joins '#version:', which is not in the vocabulary"},
        {AB, "a b\nab cd\n", "merges.txt: line 2: it joins 'cd', which is not in the vocabulary"},
        {AB, "a b\nzz b\n", "merges.txt: line 2: it joins 'zz', which is not"},
        {AB, "a b\nab a\n", "merges.txt: line 2: it makes 'aba', which is not in the vocabulary"},
        {AB, "a b\na b\n", "merges.txt: line 2 joins 'a' and 'b', as an earlier line does"},
        {AB, "a\x1b b\n", "line 1: it joins 'a\\x1b', which is not"},
    };
    gs_bpe *b;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_fails(GS_E_FORMAT, wrong[i].message,
                     gs_bpe_load(pairs_of(wrong[i].more, wrong[i].merges), &b));
        assert_null(b);
    }
    assert_fails(GS_E_FORMAT,
                 "vocab.json: no token is byte 0x0a ('\xc4\x8a'); wanted one for each of the 256 bytes",
                 gs_bpe_load(folder_of(vocabulary_of(AB, 10), "a b\n"), &b));
}

/* A tokenizer that does more than its two lists say is rejected. */
TEST(what_asks_for_other_tokens) {
    static const char *const wrong[][3] = {
        {"added_tokens.json", "{\"<mask>\": 512}", "added_tokens.json sets <mask>: that gives other tokens"},
        {"tokenizer_config.json", "{\"add_prefix_space\": true}",
         "tokenizer_config.json sets add_prefix_space"},
        {"tokenizer.json", "{\"normalizer\": {\"type\": \"Lowercase\"}}", "tokenizer.json sets normalizer"},
        {"tokenizer.json", "{\"pre_tokenizer\": {\"type\": \"Digits\", \"individual_digits\": true}}",
         "tokenizer.json sets individual_digits"},
        {"tokenizer.json", "[1]", "tokenizer.json is not a JSON object"}};
    static const char *const right[][2] = {
        {"added_tokens.json", "{}"},
        {"tokenizer_config.json", "{\"add_prefix_space\": false, \"model_max_length\": 1024}"},
        {"tokenizer.json", "{\"normalizer\": null, \"pre_tokenizer\": {\"add_prefix_space\": false}}"}};
    gs_bpe *b;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *folder = folder_of(vocabulary_of(AB, -1), "a b\n");
        write_text(in_folder(folder, wrong[i][0]), wrong[i][1]);
        assert_fails(GS_E_FORMAT, wrong[i][2], gs_bpe_load(folder, &b));
    }
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        const char *folder = folder_of(vocabulary_of(AB, -1), "a b\n");
        write_text(in_folder(folder, right[i][0]), right[i][1]);
        assert_ok(gs_bpe_load(folder, &b));
        gs_bpe_free(b);
    }
}

TEST(files_that_are_none) {
    char *whole = vocabulary_of(AB, -1);
    gs_bpe *b;
    assert_fails(GS_E_FILE, "pairs/vocab.json: No such file", gs_bpe_load(folder_of(NULL, "a b\n"), &b));
    assert_fails(GS_E_FILE, "pairs/merges.txt: No such file", gs_bpe_load(folder_of(whole, NULL), &b));
    assert_fails(GS_E_FILE, "Not a directory",
                 gs_bpe_load(in_folder(folder_of(whole, NULL), "vocab.json"), &b));
    assert_fails(GS_E_FILE, "none/vocab.json: No such file", gs_bpe_load("none", &b));
    const char *folder = folder_of(NULL, NULL);
    write_text(in_folder(folder, "tokenizer.json"), "{}");
    assert_fails(
        GS_E_FILE,
        "pairs has tokenizer.json, but not both vocab.json and merges.txt; if it cuts texts as GPT-2's does",
        gs_bpe_load(folder, &b));
    assert_fails(GS_E_FORMAT, "vocab.json is empty; wanted a list of tokens in JSON",
                 gs_bpe_load(folder_of("", "a b"), &b));
    assert_fails(GS_E_FORMAT, "vocab.json is not a JSON object", gs_bpe_load(folder_of("[1]", "a b"), &b));
    assert_fails(GS_E_FORMAT, "vocab.json has 0 tokens; wanted 256 to 65536",
                 gs_bpe_load(folder_of("{}", "a b"), &b));
    assert_fails(GS_E_FORMAT, "vocab.json has 1 token; wanted",
                 gs_bpe_load(folder_of("{\"a\": 0}", "a b"), &b));
    const int bytes = (int)strlen(whole);
    for (int cut = 1; cut < bytes; cut += 97) {
        const char *less = gs_test_format("%.*s", cut, whole);
        assert_fails(GS_E_FORMAT, "vocab.json is not valid JSON: wrong at byte ",
                     gs_bpe_load(folder_of(less, "a b"), &b));
    }
    folder = folder_of(whole, "a b\n");
    assert_int_equal(truncate(in_folder(folder, "merges.txt"), 1L << 40), 0);
    assert_fails(GS_E_FILE, "merges.txt has 1099511627776 bytes; at most 16777216 can be read",
                 gs_bpe_load(folder, &b));
    folder = folder_of(NULL, "a b\n");
    assert_int_equal(mkdir(in_folder(folder, "vocab.json"), 0777), 0);
    assert_fails(GS_E_FILE, "vocab.json: Is a directory", gs_bpe_load(folder, &b));

    char *lines = gs_test_malloc((1 << 20) + 2);
    memset(lines, '\n', 1 << 20);
    lines[1 << 20] = '\0';
    assert_fails(GS_E_FORMAT, "merges.txt has 1048577 lines; wanted one for each merge, at most 1048576",
                 gs_bpe_load(folder_of(whole, lines), &b));
}

/* One more token than 16 bits can number. */
TEST(too_many_tokens) {
    enum { MORE = 65536 - 256, EACH = 16 };
    char *more = gs_test_malloc((MORE + 1) * EACH), *at = more;
    gs_bpe *b;
    for (int i = 0; i <= MORE; i++) at += sprintf(at, ",\"x%05x\":%d", i, 256 + i);
    char *vocabulary = gs_test_malloc(8000 + (size_t)(at - more)), *bytes = vocabulary_of("", -1);
    for (int many = 0; many < 2; many++) {
        if (!many) *strrchr(more, ',') = '\0';
        sprintf(vocabulary, "%.*s%s}", (int)strlen(bytes) - 1, bytes, more);
        if (!many) more[strlen(more)] = ',';
        const char *folder = folder_of(vocabulary, "x 0\n");
        if (many)
            assert_fails(GS_E_FORMAT, "vocab.json has 65537 tokens; wanted 256 to 65536",
                         gs_bpe_load(folder, &b));
        else
            assert_fails(GS_E_FORMAT, "line 1: it makes 'x0', which is not", gs_bpe_load(folder, &b));
    }
}

/* ---- in a file of weights ---- */

TEST(damaged_metadata) {
    static const struct {
        const char *vocabulary, *merges, *message;
    } wrong[] = {
        {NULL, "\"a b\"", "'tokens' in the metadata is bpe, but there is no 'vocabulary' that is a string"},
        {"\"a\"", NULL, "'tokens' in the metadata is bpe, but there is no 'merges' that is a string"},
        {"\"a\"", "7", "no 'merges' that is a string"},
        {"\"a\"", "\"a b\"",
         "w.safetensors: the vocabulary in the metadata has 1 token; wanted 256 to 65536"},
        {"\"\"", "\"a b\"", "has 1 token"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gs_weights_info saved;
        const char *header = gs_test_format(
            "{\"__metadata__\":{\"tokens\":\"bpe\"%s%s%s%s}}", wrong[i].vocabulary ? ",\"vocabulary\":" : "",
            wrong[i].vocabulary ? wrong[i].vocabulary : "", wrong[i].merges ? ",\"merges\":" : "",
            wrong[i].merges ? wrong[i].merges : "");
        const char *path = in_folder(gs_test_folder(), "w.safetensors");
        write_safetensors(path, header, "", 0);
        assert_fails(GS_E_FORMAT, wrong[i].message, gs_safetensors_read_info(path, &saved));
        gs_weights_info_free(&saved);
    }
}

/* ---- commands ---- */

/* A text of many words, some with multi-byte characters. */
static const char *text_file(void) {
    const char *path = in_folder(gs_test_folder(), "text.txt");
    FILE *f = gs_test_open(path, "w");
    for (int i = 0; i < 80; i++) fprintf(f, "%d hackers won't caf\xc3\xa9 \xf0\x9f\x98\x80\n", i);
    assert_int_equal(fclose(f), 0);
    return path;
}

static double field_of(const char *output, const char *name) {
    cJSON *o =
        gs_test_parse(strstr(output, "{\"event\":\"end\"") ? strstr(output, "{\"event\":\"end\"") : output);
    const double value = gs_test_field(o, name)->valuedouble;
    return value;
}

/* Weights saved by train work without the tokenizer's files. */
TEST(a_model_carries_its_pairs) {
    const char *text = text_file();
    const char *golden = gs_test_source("tests/golden/bpe");
    const char *path = in_folder(gs_test_folder(), "gpt.safetensors");
    const char *resumed = in_folder(gs_test_folder(), "more.safetensors");
    assert_prints(0, "512 different tokens",
                  "train --model gpt --data text:%s --tokenizer %s --context 8 --batch 16 --steps 2 "
                  "--save %s --save-state",
                  text, golden, path);
    gs_weights_info saved;
    gs_vocabulary v;
    assert_ok(gs_safetensors_read_info(path, &saved));
    assert_ok(gs_vocabulary_load(golden, &v));
    assert_true(gs_vocabulary_same(saved.vocabulary, &v));
    gs_vocabulary_free(&v);
    gs_weights_info_free(&saved);

    char *output = gs_test_output(0, "eval --load %s --data text:%s --json", path, text);
    char *same = gs_test_output(0, "eval --load %s --data text:%s --json --tokenizer %s --tokens bpe", path,
                                text, golden);
    const double loss = field_of(output, "test_loss");
    assert_true(loss > 0 && loss < 2 * log(512));
    assert_near(field_of(output, "test_bits_per_token"), loss / log(2), 0, 1e-9);
    assert_near(field_of(same, "test_loss"), loss, 0, 0);
    assert_prints(0, "bits per token", "eval --load %s --data text:%s", path, text);
    assert_prints(0, "saved", "train --resume %s --data text:%s --steps 3 --save %s", path, text, resumed);
    assert_prints(2, "--tokens chars: the model was trained on byte pairs; wanted --tokens bpe, or none",
                  "eval --load %s --data text:%s --tokens chars", path, text);
    assert_prints(2, "the model was trained on other byte pairs; wanted no --tokenizer",
                  "eval --load %s --data text:%s --tokenizer %s", path, text, pairs_of(AB, "a b\n"));
    assert_prints(2, "the model was trained on other byte pairs; wanted no --tokenizer",
                  "generate --load %s --tokenizer %s", path, pairs_of(AB, "a b\n"));

    output = gs_test_output(0, "generate --load %s --prompt \"hackers won't\" --length 3 --json 2>/dev/null",
                            path);
    assert_true(field_of(output, "prompt_tokens") < 13);
    /* the multi-byte character is whole and unchanged */
    output = gs_test_output(0, "generate --load %s --prompt caf\xc3\xa9 --length 1 2>/dev/null", path);
    assert_int_equal(strncmp(output, "caf\xc3\xa9", 5), 0);
    assert_prints(2, "--prompt: byte 1 (line 1) is 0xff, which begins no whole character",
                  "generate --load %s --prompt \"$(printf '\\377')\" --length 1", path);
}

TEST(what_does_not_fit) {
    const char *text = text_file();
    const char *golden = gs_test_source("tests/golden/bpe");
    const char *weights = in_folder(gs_test_folder(), "few.safetensors");
    assert_prints(2, "--tokens bpe needs a list of byte pairs: --tokenizer DIR",
                  "train --model gpt --data text:%s --tokens bpe", text);
    assert_prints(2, "has byte pairs: give one of them",
                  "train --model gpt --data text:%s --tokens bytes --tokenizer %s", text, golden);
    assert_prints(2, "--tokenizer is for a text", "train --tokenizer %s", golden);
    assert_prints(1, "none/vocab.json: No such file", "train --model gpt --data text:%s --tokenizer none",
                  text);
    assert_prints(1, "has 512 different tokens, but the model's embedding has 100 rows; wanted one for each",
                  "train --model 'embedding 100 8, linear 512' --data text:%s --tokenizer %s --context 8",
                  text, golden);
    assert_prints(0, "saved",
                  "train --model gpt --data text:%s --tokens bytes --context 8 --batch 8 --steps 1 --save %s",
                  text, weights);
    assert_prints(2, "the model was trained on bytes; wanted no --tokenizer",
                  "generate --load %s --tokenizer %s", weights, golden);
}
