/* Which token stands for which character, compared with Python; and invalid texts. */
#include "core/text.h"
#include "tests/support/test.h"

/* "é € 𝄞" and a newline: characters of 1 to 4 bytes. */
static const char SOME[] = "b\xc3\xa9 a\n\xe2\x82\xac\xf0\x9d\x84\x9e"
                           "ab";

static gs_status of(gs_tokens kind, const char *text, gs_vocabulary *v) {
    return gs_vocabulary_of(kind, text, strlen(text), "a file", v);
}

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

TEST(characters_are_sorted) {
    static const uint32_t sorted[] = {'\n', ' ', 'a', 'b', 0xe9, 0x20ac, 0x1d11e};
    static const uint16_t wanted[] = {3, 4, 1, 2, 0, 5, 6, 2, 3};
    gs_vocabulary v, copy;
    uint16_t *tokens;
    size_t count, bytes;
    assert_ok(of(GS_TOKENS_UNSAID, SOME, &v));
    assert_int_equal(v.kind, GS_TOKENS_CHARS);
    assert_int_equal(v.size, 7);
    assert_memory_equal(v.character, sorted, sizeof sorted);
    assert_ok(gs_vocabulary_encode(&v, SOME, strlen(SOME), "a file", &tokens, &count));
    assert_int_equal(count, 9);
    assert_memory_equal(tokens, wanted, sizeof wanted);
    check_pieces(&v, tokens, count, SOME, strlen(SOME));
    char room[5];
    assert_string_equal(gs_vocabulary_piece(&v, 5, room, &bytes), "\xe2\x82\xac");
    assert_int_equal(bytes, 3);
    assert_int_equal(gs_vocabulary_start(&v), 0);
    assert_ok(gs_vocabulary_copy(&v, &copy));
    assert_true(gs_vocabulary_same(&v, &copy));
    copy.character[6]++;
    assert_false(gs_vocabulary_same(&v, &copy));
    gs_vocabulary_free(&copy);
    gs_vocabulary_free(&v);
    free(tokens);
}

TEST(bytes_take_anything) {
    static const char any[] = "\xff\x00\x80z";
    static const uint16_t wanted[] = {255, 0, 128, 'z'};
    gs_vocabulary v, chars;
    uint16_t *tokens;
    size_t count, bytes;
    assert_ok(gs_vocabulary_of(GS_TOKENS_BYTES, any, 4, "a file", &v));
    assert_int_equal(v.size, 256);
    assert_ok(gs_vocabulary_encode(&v, any, 4, "a file", &tokens, &count));
    assert_int_equal(count, 4);
    assert_memory_equal(tokens, wanted, sizeof wanted);
    check_pieces(&v, tokens, count, any, 4);
    char room[5];
    assert_int_equal(*gs_vocabulary_piece(&v, 255, room, &bytes), '\xff');
    assert_int_equal(bytes, 1);
    assert_int_equal(*gs_vocabulary_piece(&v, 0, room, &bytes), 0);
    assert_int_equal(bytes, 1);
    assert_int_equal(gs_vocabulary_start(&v), '\n');
    assert_ok(of(GS_TOKENS_CHARS, SOME, &chars));
    assert_false(gs_vocabulary_same(&v, &chars));
    gs_vocabulary_free(&chars);
    free(tokens);
}

/* Writes every code point that UTF-8 can encode, and decodes it again. */
TEST(utf8_there_and_back) {
    char text[5];
    uint32_t code;
    for (uint32_t c = 1; c < 0x110000; c += c < 0x1000 ? 1 : 97) {
        const bool surrogate = c >= 0xd800 && c <= 0xdfff;
        const int bytes = gs_utf8_write(c, text);
        assert_int_equal(bytes, strlen(text));
        assert_int_equal(gs_utf8_read(text, &code), surrogate ? 0 : bytes);
        if (!surrogate) assert_int_equal(code, c);
        for (int i = 0; i < bytes; i++)
            assert_int_equal(gs_utf8_read_part(text, (size_t)i, &code), surrogate && i > 1 ? 0 : -1);
    }
}

/* An invalid sequence is detected as soon as a byte rules out a character, before more bytes arrive. */
TEST(utf8_in_parts) {
    static const char *const none[] = {
        "\x80", "\xc0",  "\xc1",  "\xe0\x9f",  "\xed\xa0", "\xf0\x8f",  "\xf4\x90",      "\xf5",
        "\xff", "\xc3(", "\xe2(", "\xe2\x82(", "\xf0(",    "\xf0\x9f(", "\xf0\x9f\x98(", "\xc3\xc3"};
    uint32_t code;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        const size_t bytes = strlen(none[i]);
        if (bytes > 1 && gs_utf8_read_part(none[i], bytes - 1, &code) != -1) fail_msg("case %zu starts", i);
        if (gs_utf8_read_part(none[i], bytes, &code) != 0) fail_msg("case %zu", i);
    }
    assert_int_equal(gs_utf8_read_part("", 1, &code), 1); /* the character 0, which is valid */
    assert_int_equal(code, 0);
}

TEST(what_is_no_text) {
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"ab\n\xff", "a file: byte 4 (line 2) is 0xff, which begins no whole character of UTF-8; "
                     "--tokens bytes takes any file"},
        {"\x80", "byte 1 (line 1) is 0x80"},                 /* in the middle of a character */
        {"abc\xc3", "byte 4 (line 1) is 0xc3"},              /* cut off at the end */
        {"a\xe2\x82z", "byte 2 (line 1) is 0xe2"},           /* cut off before the end */
        {"\xc0\xaf", "byte 1 (line 1) is 0xc0"},             /* an overlong encoding */
        {"\n\n\xed\xa0\x80", "byte 3 (line 3) is 0xed"},     /* half of a surrogate pair */
        {"a\xf4\x90\x80\x80", "byte 2 (line 1) is 0xf4"},    /* above U+10FFFF */
        {"\xf8\x88\x80\x80\x80", "byte 1 (line 1) is 0xf8"}, /* a five-byte sequence */
        {"", "a file is empty"},
    };
    gs_vocabulary v, bytes;
    uint16_t *tokens;
    size_t count;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(GS_E_FORMAT, wrong[i].message, of(GS_TOKENS_CHARS, wrong[i].text, &v));
    assert_fails(GS_E_FORMAT,
                 "a file: byte 3 (line 2) is 0, which no text has; --tokens bytes takes any file",
                 gs_vocabulary_of(GS_TOKENS_CHARS, "a\n\0b", 4, "a file", &v));
    assert_fails(GS_E_FORMAT, "a file is empty", of(GS_TOKENS_BYTES, "", &bytes));
    assert_ok(of(GS_TOKENS_CHARS, "abc\n", &v));
    assert_fails(GS_E_FORMAT, "b: byte 4 (line 1) is 0xff, which begins no whole character of UTF-8",
                 gs_vocabulary_encode(&v, "abc\xff", 4, "b", &tokens, &count));
    assert_null(strstr(gs_message(), "--tokens bytes")); /* wrong advice for characters */
    assert_null(tokens);
    gs_vocabulary_free(&v);
}

/* The message names the first character that is not in the vocabulary, and its position. */
TEST(characters_that_were_not_seen) {
    gs_vocabulary v;
    uint16_t *tokens;
    size_t count;
    assert_ok(of(GS_TOKENS_CHARS, "abc\n", &v));
    assert_fails(GS_E_FORMAT,
                 "b: byte 6 (line 2) is the character '\xe2\x82\xac' (U+20AC), which is not among the 4 "
                 "that the model has seen",
                 gs_vocabulary_encode(&v, "abc\na\xe2\x82\xacx", 9, "b", &tokens, &count));
    assert_fails(GS_E_FORMAT, "byte 1 (line 1) is the character '\\x1b' (U+001B)", /* escaped for terminals */
                 gs_vocabulary_encode(&v, "\x1b", 1, "b", &tokens, &count));
    assert_fails(GS_E_FORMAT, "byte 3 (line 1) is 0",
                 gs_vocabulary_encode(&v, "ab\0", 3, "b", &tokens, &count));
    gs_vocabulary_free(&v);
}

/* More characters than 16 bits can number. */
TEST(too_many_characters) {
    enum { MOST = 65536, BYTES = 4 * (MOST + 1) };
    static char text[BYTES + 1];
    gs_vocabulary v;
    for (int i = 0; i <= MOST; i++) gs_utf8_write(0x10000u + (uint32_t)i, text + 4 * i);
    assert_ok(gs_vocabulary_of(GS_TOKENS_CHARS, text, BYTES - 4, "a file", &v));
    assert_int_equal(v.size, MOST);
    assert_int_equal(v.character[MOST - 1], 0x1ffff);
    gs_vocabulary_free(&v);
    assert_fails(GS_E_FORMAT, "a file has 65537 different characters; at most 65536 can be tokens",
                 gs_vocabulary_of(GS_TOKENS_CHARS, text, BYTES, "a file", &v));
}
