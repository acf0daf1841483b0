/* The command `generate`: models whose output does not depend on trained weights, and wrong usage. */
#include "core/text.h"
#include "data/bpe_internal.h"
#include "tests/support/files.h"
#include "tests/support/program.h"
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CONTEXT = 5 };

static float bias; /* token 0's, in make_file's files */

/* A weight file of the model `text` for sequences of CONTEXT tokens, with additional metadata (may be NULL). Token
 * next(i) follows token i: the embedding is the identity, and the last layer maps i to next(i). */
static const char *make_file(const char *name, int vocabulary, int (*next)(int), const char *metadata) {
    static char path[4][600];
    static int used;
    char *to = path[used++ % 4], header[4000], padded[4100];
    const size_t v = (size_t)vocabulary;
    float *w = gs_test_calloc(2 * v * v + v, sizeof *w);
    w[2 * v * v] = bias;
    for (size_t i = 0; i < v; i++) {
        w[i * v + i] = 1;
        w[v * v + (size_t)next((int)i) * v + i] = 50;
    }
    int length =
        snprintf(header, sizeof header,
                 "{\"__metadata__\":{\"model\":\"embedding %d %d, linear %d\",\"input\":\"%dx1x1\"%s%s},"
                 "\"0.weight\":{\"dtype\":\"F32\",\"shape\":[%zu,%zu],\"data_offsets\":[0,%zu]},"
                 "\"1.weight\":{\"dtype\":\"F32\",\"shape\":[%zu,%zu],\"data_offsets\":[%zu,%zu]},"
                 "\"1.bias\":{\"dtype\":\"F32\",\"shape\":[%zu],\"data_offsets\":[%zu,%zu]}}",
                 vocabulary, vocabulary, vocabulary, CONTEXT, metadata ? "," : "", metadata ? metadata : "",
                 v, v, 4 * v * v, v, v, 4 * v * v, 8 * v * v, v, 8 * v * v, 8 * v * v + 4 * v);
    snprintf(padded, sizeof padded, "%s%*s", header, -length & 7, "");
    snprintf(to, sizeof path[0], "%s/%s.safetensors", gs_test_folder(), name);
    write_safetensors(to, padded, w, (2 * v * v + v) * sizeof *w);
    return to;
}

static int next_of_four(int i) {
    return (i + 1) % 4;
}

static int next_byte(int i) {
    return (i + 1) % 256;
}

/* "a", newline and two characters of two and four bytes. */
static const char *chars_file(void) {
    return make_file("chars", 4, next_of_four,
                     "\"tokens\":\"chars\",\"vocabulary\":\"\\na\\u00e9\\ud83d\\ude00\"");
}

/* Four tokens, of which the text uses the first two; the model alone would continue token 1 with token 2. */
static const char *two_of_four_file(void) {
    return make_file("padded", 4, next_of_four, "\"tokens\":\"chars\",\"vocabulary\":\"ab\"");
}

/* Checks that standard output is exactly this. */
static void prints(const char *want, const char *arguments) {
    char *output = gs_test_output(0, "%s 2>/dev/null", arguments);
    assert_string_equal(output, want);
}

TEST(the_text_goes_on) {
    char line[900];
    const char *file = chars_file();
    const char *const cases[][2] = {
        {"--prompt a --length 3", "a\xc3\xa9\xf0\x9f\x98\x80\n"},
        {"--prompt a --length 7 --temperature 0", "a\xc3\xa9\xf0\x9f\x98\x80\na\xc3\xa9\xf0\x9f\x98\x80\n"},
        {"--length 1", "a\n"}, /* an empty prompt acts like a newline */
        {"--prompt \xc3\xa9 --length 1 --samples 2",
         "--- text 1 ---\n\xc3\xa9\xf0\x9f\x98\x80\n--- text 2 ---\n\xc3\xa9\xf0\x9f\x98\x80\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(line, sizeof line, "generate --load %s --threads 1 %s", file, cases[i][0]);
        prints(cases[i][1], line);
    }
}

/* A model may have more tokens than its text uses, such as a round number. The extra tokens are never drawn, however
 * likely they are to the model: after b, token 2 has a probability of 1. */
TEST(tokens_without_a_meaning_are_not_drawn) {
    char *output =
        gs_test_output(0, "generate --load %s --prompt b --length 400 2>/dev/null", two_of_four_file());
    assert_int_equal(strspn(output, "ab"), 401);
    assert_string_equal(output + 401, "\n");
}

/* train saves everything that generate needs: the model, its context, and the meaning of the tokens. */
TEST(what_was_trained_generates) {
    static const char sentence[] = "caf\xc3\xa9 \xe2\x82\xac 1\n";
    static const char *const tokens[] = {"bytes", "chars"};
    const char *folder = gs_test_folder();
    char path[600], *output;
    write_times(in_folder(folder, "text.txt"), sentence, 60);
    snprintf(path, sizeof path, "%s/gpt.safetensors", folder);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        assert_prints(0, "saved",
                      "train --model gpt --data text:%s/text.txt --tokens %s --context 8 --batch 4 "
                      "--steps 1 --save %s",
                      folder, tokens[i], path);
        output =
            gs_test_output(0, "generate --load %s --prompt \xc3\xa9 --length 30 --json 2>/dev/null", path);
        cJSON *o = gs_test_parse(output);
        assert_int_equal(gs_test_field(o, "prompt_tokens")->valueint, i == 0 ? 2 : 1);
        const char *at = cJSON_GetArrayItem(gs_test_field(o, "texts"), 0)->valuestring;
        int count = 0;
        for (int length; i == 1 && *at; at += length, count++) {
            uint32_t code;
            char character[5];
            length = gs_utf8_read(at, &code);
            assert_true(length > 0);
            gs_utf8_write(code, character);
            assert_has(sentence, character);
        }
        assert_int_equal(count, i == 0 ? 0 : 30);
    }
    assert_prints(2, "the character 'z' (U+007A), which is not among the 8", "generate --load %s --prompt z",
                  path);
}

/* Three tokens form a character and a word, and the fourth is a newline. Then "ab" and all other bytes. */
static const char *pairs_file(void) {
    char metadata[2000] = "\"tokens\":\"bpe\",\"merges\":\"a b\",\"vocabulary\":\"\xc3\xb0\xc5\x81 \xc4\xba "
                          "\xc4\xa2hackers \xc4\x8a ab";
    for (unsigned byte = 0; byte < 256; byte++) {
        char one[5];
        gs_utf8_write(gs_bpe_character((unsigned char)byte), one);
        if (byte == '\n' || byte == 0x98) continue;
        gs_append(metadata, sizeof metadata, " %s%s", byte == '"' || byte == '\\' ? "\\" : "", one);
    }
    gs_append(metadata, sizeof metadata, "\"");
    return make_file("pairs", 259, next_of_four, metadata);
}

/* A token may end within a character; the next tokens complete it and add more. */
TEST(byte_pairs_come_out_whole) {
    const char *const cases[][2] = {
        {"--length 4", "\xf0\x9f\x98\x80hackers\n"},
        {"--length 8", "\xf0\x9f\x98\x80hackers\n\xf0\x9f\x98\x80hackers\n"},
        {"--length 2", "\xf0\x9f\x98\n"}, /* its last byte never comes */
        {"--length 2 --samples 1 --prompt \xf0\x9f\x98\x98",
         "\xf0\x9f\x98\x98\x80hackers\n"}}; /* 0x98 is followed by a byte that starts no character */
    const char *file = pairs_file();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *line = gs_test_format("generate --load %s --threads 1 %s", file, cases[i][0]);
        prints(cases[i][1], line);
    }
    char *output = gs_test_output(0, "generate --load %s --length 4 --json 2>/dev/null", file);
    cJSON *o = gs_test_parse(output);
    assert_string_equal(gs_test_field(o, "texts")->child->valuestring, "\xf0\x9f\x98\x80hackers\n");
}

/* Both bytes that form multi-byte characters and bytes that do not are printed. */
TEST(bytes_come_out_as_they_are) {
    const char *file = make_file("bytes", 256, next_byte, NULL);
    const char *line = gs_test_format("generate --load %s --prompt @ --length 4", file);
    prints("@ABCD\n", line);
    line = gs_test_format("generate --load %s --prompt \"$(printf '\\302')\" --length 2 | od -An -tx1", file);
    char *output = gs_test_output(0, "%s", line);
    assert_has(output, " c2 c3 c4 0a");
}

TEST(json_has_the_text) {
    char *output = gs_test_output(
        0, "generate --load %s --prompt a --length 6 --samples 2 --json 2>/dev/null", chars_file());
    cJSON *o = gs_test_parse(output);
    assert_string_equal(gs_test_field(o, "status")->valuestring, "done");
    assert_int_equal(gs_test_field(o, "tokens")->valueint, 6);
    assert_int_equal(gs_test_field(o, "prompt_tokens")->valueint, 1);
    assert_true(gs_test_field(o, "tokens_per_s")->valuedouble > 0);
    const cJSON *texts = gs_test_field(o, "texts");
    assert_int_equal(cJSON_GetArraySize(texts), 2);
    assert_string_equal(cJSON_GetArrayItem(texts, 1)->valuestring,
                        "\xc3\xa9\xf0\x9f\x98\x80\na\xc3\xa9\xf0\x9f\x98\x80");

    /* bytes that are invalid in UTF-8: 0xfd to 0xff, then 0 */
    output =
        gs_test_output(0, "generate --load %s --prompt \"$(printf '\\374')\" --length 5 --json 2>/dev/null",
                       make_file("more", 256, next_byte, "\"tokens\":\"bytes\""));
    o = gs_test_parse(output);
    assert_string_equal(cJSON_GetArrayItem(gs_test_field(o, "texts"), 0)->valuestring,
                        "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\x01");
}

TEST(the_same_seed_the_same_text) {
    char *text[4];
    const char *file = chars_file();
    for (int i = 0; i < 4; i++) {
        text[i] = gs_test_output(
            0, "generate --load %s --temperature 40 --length 60 --seed %d --threads %d 2>/dev/null", file,
            i < 3 ? 7 : 8, 1 + i % 2);
        assert_int_equal(strcmp(text[i], text[0]) == 0, i < 3);
    }
}

TEST(what_is_wrong_is_said) {
    const char *file = chars_file();
    assert_prints(2, "--load FILE is required", "generate");
    assert_prints(1, "cannot read no-such-file: No such file", "generate --load no-such-file");
    assert_prints(1, "cannot read /: Is a directory", "generate --load /");
    assert_prints(2,
                  "--prompt: byte 2 (line 1) is the character 'b' (U+0062), which is not among the 4 that "
                  "the model has seen",
                  "generate --load %s --prompt ab", file);
    assert_prints(2, "--prompt: byte 2 (line 1) is 0xff, which begins no whole character of UTF-8\n",
                  "generate --load %s --prompt \"$(printf 'a\\377')\"", file);
    assert_prints(2, "--prompt: byte 1 (line 1) is 0xc3, which begins no whole character of UTF-8\n",
                  "generate --load %s --prompt \"$(printf '\\303')\"", file);
    assert_prints(2, "--prompt: byte 3 (line 2) is the character 'z' (U+007A)",
                  "generate --load %s --prompt 'a\nz'", file);
    assert_prints(2, "the prompt has 6 tokens, and the model sees 5: shorten it",
                  "generate --load %s --prompt aaaaaa", file);
    assert_prints(2, "--prompt is empty; wanted TEXT", "generate --load %s --prompt ''", file);
    assert_prints(2, "--temperature: '-1' is not", "generate --load %s --temperature -1", file);
    assert_prints(2, "--top-k: '-1' is not", "generate --load %s --top-k -1", file);
    assert_prints(2, "--length: '0' is not", "generate --load %s --length 0", file);
    assert_prints(1, "there are: cpu", "generate --load %s --device cl:9.9", file);
    assert_prints(1, "0.weight is (4,4) in", "generate --load %s --model 'embedding 5 4, linear 5'", file);
    assert_prints(1, "the model takes (5,1,1), not tokens", "generate --load %s --model 'linear 5'", file);
    assert_prints(1, "the tokens in the metadata are 5 characters, but the model has only 4",
                  "generate --load %s",
                  make_file("many", 4, next_of_four, "\"tokens\":\"chars\",\"vocabulary\":\"abcde\""));
    assert_prints(2, "--top-k 3: the model has 2 different tokens; wanted at most 2",
                  "generate --load %s --top-k 3", two_of_four_file());
    assert_prints(1, "the metadata does not say which text the model's 4 tokens stand for",
                  "generate --load %s", make_file("none", 4, next_of_four, NULL));
    assert_prints(1, "the tokens in the metadata are 256 bytes, but the model has only 4",
                  "generate --load %s", make_file("odd", 4, next_of_four, "\"tokens\":\"bytes\""));
    assert_prints(1, "'tokens' in the metadata is ''; wanted chars, bytes or bpe", "generate --load %s",
                  make_file("odd", 4, next_of_four, "\"tokens\":7,\"vocabulary\":[1]"));
}

TEST(weights_that_are_not_finite) {
    static const float values[] = {NAN, INFINITY};
    static const char *const wanted[] = {"chars.safetensors holds nan in 1.bias; wanted finite numbers",
                                         "chars.safetensors holds an infinity in 1.bias"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        bias = values[i];
        assert_prints(1, wanted[i], "generate --load %s", chars_file());
    }
    bias = 0;
}

/* Ctrl-C after the first characters: the last line is completed, and the exit status names the signal. */
TEST(a_signal_ends_it) {
    int out[2], error[2], status;
    char text[4096], said[400] = "";
    const char *file = chars_file();
    assert_int_equal(pipe(out) | pipe(error), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(out[1], STDOUT_FILENO);
        dup2(error[1], STDERR_FILENO);
        close(out[0]), close(out[1]), close(error[0]), close(error[1]);
        execl(GS_BUILD_DIR "/gradsum", "gradsum", "generate", "--load", file, "--length", "10000000",
              "--threads", "1", (char *)NULL);
        _exit(127);
    }
    close(out[1]), close(error[1]);
    ssize_t got = read(out[0], text, sizeof text);
    assert_true(got > 0);
    kill(child, SIGINT);
    char last = 0;
    for (; got > 0; got = read(out[0], text, sizeof text)) last = text[got - 1];
    assert_int_equal(last, '\n');
    for (size_t used = 0; (got = read(error[0], said + used, sizeof said - 1 - used)) > 0;)
        used += (size_t)got;
    assert_int_equal(waitpid(child, &status, 0), child);
    close(out[0]), close(error[0]);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 130);
    assert_has(said, "gradsum generate: stopped by a signal after ");
}

TEST(nobody_reads_on) {
    char *output =
        gs_test_output(0, "generate --load %s --length 10000000 --threads 1 | head -c 3", chars_file());
    assert_has(output, "stopped by the closing of its output");
}
