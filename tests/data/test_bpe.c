/* Byte pairs: compares tokens with those of Hugging Face's tokenizers and of a loop that searches anew before each
 * merge, and decodes them to the original text. */
#include "core/philox.h"
#include "core/text.h"
#include "data/bpe_internal.h"
#include "tests/support/files.h"
#include "tests/support/program.h"

enum { SIZE = 512 /* tokens of the golden tokenizer */ };

static const char *golden(void) {
    return gs_test_format("%s", gs_test_source("tests/golden/bpe"));
}

static uint32_t draw(uint32_t *state, uint32_t below) {
    uint32_t word[4];
    gs_philox(1, 0, (*state)++, word);
    return word[0] % below;
}

/* ---- against tokenizers ---- */

/* The concatenated pieces of the tokens equal the text. */
static void check_pieces(const gs_vocabulary *v, const uint16_t *tokens, size_t count, const char *text,
                         size_t bytes) {
    size_t at = 0, length;
    char room[5];
    for (size_t i = 0; i < count; i++, at += length) {
        const char *piece = gs_vocabulary_piece(v, tokens[i], room, &length);
        assert_true(length <= bytes - at);
        assert_memory_equal(piece, text + at, length);
    }
    assert_int_equal(at, bytes);
}

static void check_case(const gs_vocabulary *v, const cJSON *one, int number) {
    const char *text = gs_test_field(one, "text")->valuestring;
    const cJSON *wanted = gs_test_field(one, "tokens");
    const size_t bytes = strlen(text);
    uint16_t *tokens;
    size_t count;
    assert_ok(gs_vocabulary_encode(v, text, bytes, "a text", &tokens, &count));
    if (count != (size_t)cJSON_GetArraySize(wanted))
        fail_msg("case %d: %zu tokens, wanted %d: '%s'", number, count, cJSON_GetArraySize(wanted), text);
    const cJSON *want = wanted->child;
    for (size_t i = 0; i < count; i++, want = want->next)
        if (tokens[i] != want->valueint)
            fail_msg("case %d: token %zu is %d, wanted %d: '%s'", number, i, tokens[i], want->valueint, text);
    check_pieces(v, tokens, count, text, bytes);
    free(tokens);
}

TEST(as_tokenizers_does) {
    gs_vocabulary v;
    assert_ok(gs_vocabulary_load(golden(), &v));
    assert_int_equal(v.kind, GS_TOKENS_BPE);
    assert_int_equal(v.size, SIZE);
    cJSON *cases = gs_test_parse(gs_test_text(gs_test_source("tests/golden/bpe/cases.json"), NULL));
    const cJSON *one;
    int number = 0;
    cJSON_ArrayForEach(one, cases) {
        check_case(&v, one, number++);
    }
    assert_true(number > 100);
    gs_vocabulary_free(&v);
}

/* ---- the example in bpe.h, and small lists ---- */

static void free_bpe(void *b) {
    gs_bpe_free(b);
}

/* Tokens 0 to 255 are the bytes; `more` lists further tokens, separated by spaces. The test owns the result. */
static gs_bpe *made_of(const char *more, const char *merges) {
    char tokens[2000], *to = tokens;
    for (int byte = 0; byte < 256; byte++) {
        to += gs_utf8_write(gs_bpe_character((unsigned char)byte), to);
        *to++ = ' ';
    }
    snprintf(to, sizeof tokens - (size_t)(to - tokens), "%s", more);
    if (!*more) to[-1] = '\0';
    gs_bpe *b;
    assert_ok(gs_bpe_read(tokens, merges, "a list", &b));
    return gs_test_own(b, free_bpe);
}

/* `wanted`: the text's tokens, each preceded by |, and a final |. */
static void cut_is(const gs_bpe *b, const char *text, const char *wanted) {
    uint16_t tokens[64];
    size_t count, bytes;
    char cut[400] = "|";
    assert_true(strlen(text) <= 64);
    assert_ok(gs_bpe_encode(b, text, strlen(text), tokens, &count));
    for (size_t i = 0; i < count; i++) {
        const char *piece = gs_bpe_piece(b, tokens[i], &bytes);
        snprintf(cut + strlen(cut), sizeof cut - strlen(cut), "%.*s|", (int)bytes, piece);
    }
    assert_string_equal(cut, wanted);
}

TEST(earlier_merges_come_first) {
    gs_bpe *b = made_of("lo low er \xc4\xa0low", "l o\nlo w\ne r\n\xc4\xa0 low\n");
    cut_is(b, " lower", "| low|er|");
    cut_is(b, "lower", "|low|er|");
    cut_is(b, "slower  low", "|s|low|er| | low|");
    cut_is(b, "", "|");
    /* of overlapping equal pairs, the first is merged: aaa becomes aa a */
    b = made_of("aa aaaa", "a a\naa aa\n");
    cut_is(b, "aaa", "|aa|a|");
    cut_is(b, "aaaaaaa", "|aaaa|aa|a|");
    /* a new token may be merged again, even before the pairs of earlier merges that follow it in the text */
    b = made_of("aa aaa", "aa a\na a\n");
    cut_is(b, "aaaaa", "|aaa|aa|");
    /* two merges that form the same token */
    b = made_of("ab bc abc", "b c\na bc\na b\nab c\n");
    cut_is(b, "abcabab", "|abc|ab|ab|");
}

/* "<|endoftext|>" in a text is one token. Without such a token in the list, it is split like other words. */
TEST(the_token_between_texts) {
    gs_bpe *b = made_of("ab <|endoftext|>", "a b\n");
    assert_int_equal(gs_bpe_end(b), 257);
    cut_is(b, "ab<|endoftext|>ab", "|ab|<|endoftext|>|ab|");
    cut_is(b, "<|endoftext|><|endoftext", "|<|endoftext|>|<|||e|n|d|o|f|t|e|x|t|");
    b = made_of("ab", "a b\n");
    assert_int_equal(gs_bpe_end(b), -1);
    cut_is(b, "<|endoftext|>", "|<|||e|n|d|o|f|t|e|x|t|||>|");
}

/* PCRE2's \s matches U+180E (white space until Unicode 6.3). Here it is a symbol, and joins a preceding space. */
TEST(words) {
    static const char text[] = " \xe1\xa0\x8ey  \xc2\x85 caf\xc3\xa9's 12!?\n\n";
    static const size_t wanted[] = {4, 1, 4, 6, 2, 3, 2, 2};
    gs_bpe *b = made_of("ab", "a b\n");
    gs_bpe_walk walk;
    size_t at = 0, length;
    assert_ok(gs_bpe_walk_begin(&walk, b->words));
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++, at += length) {
        assert_ok(gs_bpe_walk_next(&walk, text, sizeof text - 1, at, &length));
        if (length != wanted[i]) fail_msg("word %zu has %zu bytes, wanted %zu", i, length, wanted[i]);
    }
    assert_int_equal(at, sizeof text - 1);
    gs_bpe_walk_end(&walk);
}

/* ---- against a plain loop ---- */

enum { MADE = 120, PIECE = 13, LONGEST = 300 };

/* A random list of merges over the letters a to d; each merge combines existing tokens. `turned` reverses the order,
 * which no training run would. */
static gs_bpe *drawn_list(uint32_t *random, bool turned) {
    char token[MADE][PIECE] = {"a", "b", "c", "d"}, line[MADE][2 * PIECE + 2];
    char more[MADE * PIECE] = "", merges[MADE * (2 * PIECE + 2)] = "";
    int count = 4;
    for (int tries = 0; tries < 400 && count < MADE; tries++) {
        const char *left = token[draw(random, (uint32_t)count)],
                   *right = token[draw(random, (uint32_t)count)];
        char joined[2 * PIECE] = "";
        bool there = false;
        gs_append(joined, sizeof joined, "%s%s", left, right);
        for (int i = 0; i < count; i++) there = there || strcmp(token[i], joined) == 0;
        if (there || strlen(joined) >= PIECE) continue;
        strcpy(token[count], joined);
        sprintf(line[count++], "%s %s\n", left, right);
    }
    for (int i = 4; i < count; i++) {
        gs_append(more, sizeof more, "%s%s", i > 4 ? " " : "", token[i]);
        gs_append(merges, sizeof merges, "%s", line[turned ? count + 3 - i : i]);
    }
    return made_of(more, merges);
}

/* The definition: find the first occurrence of the pair with the lowest rank, merge it, and repeat. */
static size_t plainly(const gs_bpe *b, const char *text, size_t bytes, uint16_t *tokens) {
    size_t count = bytes;
    for (size_t i = 0; i < bytes; i++) tokens[i] = b->of_byte[(unsigned char)text[i]];
    for (;;) {
        size_t best = 0;
        uint32_t rank = b->merges;
        for (size_t i = 0; i + 1 < count; i++)
            for (uint32_t r = 0; r < rank; r++)
                if (b->merge[r].left == tokens[i] && b->merge[r].right == tokens[i + 1]) {
                    rank = r;
                    best = i;
                }
        if (rank == b->merges) return count;
        tokens[best] = b->merge[rank].made;
        memmove(tokens + best + 1, tokens + best + 2, (--count - best - 1) * sizeof *tokens);
    }
}

TEST(as_a_plain_loop) {
    uint32_t random = 0;
    for (int list = 0; list < 12; list++) {
        gs_bpe *b = drawn_list(&random, list % 3 == 2);
        assert_true(b->merges > 60);
        for (int i = 0; i < 40; i++) {
            char text[LONGEST];
            uint16_t got[LONGEST], want[LONGEST];
            const size_t bytes = 1 + draw(&random, LONGEST - 1);
            const uint32_t letters = 1 + draw(&random, 4);
            size_t count;
            for (size_t k = 0; k < bytes; k++) text[k] = (char)('a' + draw(&random, letters));
            assert_ok(gs_bpe_encode(b, text, bytes, got, &count));
            assert_int_equal(count, plainly(b, text, bytes, want));
            assert_memory_equal(got, want, count * sizeof *got);
        }
    }
}

/* ---- there and back ---- */

/* A text of about 4 MB with every code point, in mixed order. */
TEST(every_character_comes_back) {
    enum { CODES = 0x110000, BYTES = 4 * CODES };
    char *text = gs_test_malloc(BYTES + 1);
    uint16_t *tokens;
    size_t bytes = 0, count;
    gs_vocabulary v;
    for (uint32_t i = 1; i < CODES; i++) {
        const uint32_t code =
            (uint32_t)((uint64_t)i * 7919 % CODES); /* 7919 is coprime to CODES: each comes once */
        if (code >= 0xd800 && code <= 0xdfff) continue;
        bytes += (size_t)gs_utf8_write(code, text + bytes);
    }
    assert_ok(gs_vocabulary_load(golden(), &v));
    assert_ok(gs_vocabulary_encode(&v, text, bytes, "all", &tokens, &count));
    assert_true(count < bytes);
    check_pieces(&v, tokens, count, text, bytes);
    free(tokens);
    gs_vocabulary_free(&v);
}

/* Words of a million bytes: a loop that searches for the best pair each time would take hours. */
TEST(long_words) {
    enum { BYTES = 1000000 };
    char *text = gs_test_malloc(BYTES + 1);
    uint16_t *tokens = gs_test_malloc(BYTES * sizeof *tokens);
    size_t count;
    gs_bpe *b = made_of("aa aaaa bb", "a a\naa aa\nb b\n");
    memset(text, 'a', BYTES);
    assert_ok(gs_bpe_encode(b, text, BYTES, tokens, &count));
    assert_int_equal(count, BYTES / 4);
    memset(text, ' ', BYTES);
    text[BYTES - 1] = 'a';
    assert_ok(gs_bpe_encode(b, text, BYTES, tokens, &count));
    assert_int_equal(count, BYTES);
    memset(text, '=', BYTES);
    assert_ok(gs_bpe_encode(b, text, BYTES, tokens, &count));
    assert_int_equal(count, BYTES);
}

/* ---- the alphabet, and the same list in different files ---- */

TEST(an_alphabet_of_256) {
    bool seen[512] = {false};
    for (int byte = 0; byte < 256; byte++) {
        const uint32_t c = gs_bpe_character((unsigned char)byte);
        assert_true(c > ' ' && c < 324 && !seen[c]);
        seen[c] = true;
        assert_int_equal(gs_bpe_byte(c), byte);
    }
    for (uint32_t c = 0; c < 0x110000; c++)
        if ((c >= 512 || !seen[c]) && gs_bpe_byte(c) != GS_BPE_NONE) fail_msg("U+%04X", c);
    assert_int_equal(gs_bpe_character(' '), 0x120);
    assert_int_equal(gs_bpe_character('\n'), 0x10a);
    assert_int_equal(gs_bpe_character(173), 0x143);
}

TEST(as_texts_and_back) {
    gs_vocabulary v, copy;
    gs_bpe *again, *other;
    char *tokens, *merges;
    assert_ok(gs_vocabulary_load(golden(), &v));
    assert_ok(gs_bpe_texts(v.bpe, &tokens, &merges));
    const char *file = gs_test_text(gs_test_source("tests/golden/bpe/merges.txt"), NULL);
    assert_string_equal(strchr(file, '\n') + 1, merges); /* after "#version" */
    assert_ok(gs_bpe_read(tokens, merges, "texts", &again));
    assert_true(gs_bpe_same(v.bpe, again));
    strrchr(merges, '\n')[0] = '\0';
    strrchr(merges, '\n')[1] = '\0'; /* one merge fewer */
    assert_ok(gs_bpe_read(tokens, merges, "texts", &other));
    assert_false(gs_bpe_same(v.bpe, other));
    assert_ok(gs_vocabulary_copy(&v, &copy));
    gs_vocabulary_free(&v); /* the copy shares v.bpe */
    assert_true(gs_bpe_same(copy.bpe, again));
    assert_int_equal(gs_vocabulary_start(&copy), gs_bpe_end(again));
    gs_vocabulary_free(&copy);
    gs_bpe_free(again);
    gs_bpe_free(other);
    free(tokens);
    free(merges);
}

TEST(no_text) {
    gs_vocabulary v;
    uint16_t *tokens;
    size_t count;
    assert_fails(GS_E_USAGE, "--tokens bpe needs a list of byte pairs: --tokenizer DIR",
                 gs_vocabulary_of(GS_TOKENS_BPE, "a", 1, "a file", &v));
    assert_ok(gs_vocabulary_load(golden(), &v));
    assert_fails(GS_E_FORMAT, "a file: byte 5 (line 2) is 0xff, which begins no whole character of UTF-8",
                 gs_vocabulary_encode(&v, "abc\n\xff", 5, "a file", &tokens, &count));
    assert_fails(GS_E_FORMAT, "a file: byte 3 (line 1) is 0xc3",
                 gs_vocabulary_encode(&v, "ab\xc3", 3, "a file", &tokens, &count));
    assert_fails(GS_E_FORMAT, "a file: byte 2 (line 1) is 0, which no text has",
                 gs_vocabulary_encode(&v, "a\0b", 3, "a file", &tokens, &count));
    assert_ok(gs_vocabulary_encode(&v, "", 0, "a file", &tokens, &count));
    assert_int_equal(count, 0);
    free(tokens);
    gs_vocabulary_free(&v);
}
