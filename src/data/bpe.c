/* Byte pairs: read the vocabulary and the merges from files or texts; split texts into words, and words into tokens.
 *
 * In a word, all pairs of the lowest rank are merged in one pass, as in GPT-2's own encoder. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/memory.h"
#include "core/text.h"
#include "data/bpe_internal.h"
#include "io/file.h"
#include "io/json.h"

/* ---- from text to words: GPT-2's regular expression and PCRE2 ---- */

/* Unicode's White_Space. PCRE2's \s also matches U+180E, which has not been white space since 2013. */
#define WHITE "\\t-\\r\\x{85}\\p{Z}"

/* The second-to-last alternative leaves the last of several white spaces to the next word, because " a" is one word. */
static const char WORD[] = "'s|'t|'re|'ve|'m|'ll|'d"
                           "| ?\\p{L}+| ?\\p{N}+| ?[^" WHITE "\\p{L}\\p{N}]+"
                           "|[" WHITE "]+(?![^" WHITE "])|[" WHITE "]+";

/* NULL: out of memory. */
static void *compile_words(void) {
    int error;
    PCRE2_SIZE at;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)WORD, PCRE2_ZERO_TERMINATED,
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &at, NULL);
    if (!code && error != PCRE2_ERROR_NOMEMORY && error != PCRE2_ERROR_HEAP_FAILED)
        gs_bug("PCRE2 refuses the expression of a word: error %d at %zu", error, at);
    /* JIT reads words at 134 MB/s instead of 34 (jargon, one core). Without executable memory, PCRE2 interprets. */
    if (code) pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    return code;
}

gs_status gs_bpe_walk_begin(gs_bpe_walk *walk, const void *words) {
    *walk = (gs_bpe_walk){words, pcre2_match_data_create(1, NULL)};
    return walk->match ? GS_OK : gs_fail(GS_E_MEMORY, "no memory to look for words");
}

void gs_bpe_walk_end(gs_bpe_walk *walk) {
    pcre2_match_data_free(walk->match);
}

gs_status gs_bpe_walk_next(gs_bpe_walk *walk, const char *text, size_t bytes, size_t at, size_t *length) {
    const int found =
        pcre2_match(walk->words, (PCRE2_SPTR)text, bytes, at, PCRE2_NO_UTF_CHECK, walk->match, NULL);
    const PCRE2_SIZE end = pcre2_get_ovector_pointer(walk->match)[1];
    *length = end - at;
    if (found > 0 && end > at) return GS_OK;
    if (found == PCRE2_ERROR_NOMATCH)
        gs_bug("gs_bpe: no word begins at byte %zu", at); /* every character belongs to a word */
    return gs_fail(GS_E_MEMORY, "the word at byte %zu of the text is too long for PCRE2 (error %d)", at,
                   found);
}

/* ---- the alphabet of files ---- */

/* The invisible bytes, 0 to 32, 127 to 160 and 173, become consecutive characters from U+0100 on. */
enum { SPACE = ' ', DELETE = 127, NO_BREAK = 160, HYPHEN = 173, LAST = 255, FIRST_MOVED = 256 };
enum { DELETE_MOVED = FIRST_MOVED + SPACE + 1, HYPHEN_MOVED = DELETE_MOVED + NO_BREAK - DELETE + 1 };

uint32_t gs_bpe_character(unsigned char byte) {
    if (byte <= SPACE) return FIRST_MOVED + byte;
    if (byte >= DELETE && byte <= NO_BREAK) return DELETE_MOVED + byte - DELETE;
    return byte == HYPHEN ? HYPHEN_MOVED : byte;
}

int gs_bpe_byte(uint32_t character) {
    const int c = character <= HYPHEN_MOVED ? (int)character : 0;
    if (c == HYPHEN_MOVED) return HYPHEN;
    if (c >= DELETE_MOVED) return DELETE + c - DELETE_MOVED;
    if (c >= FIRST_MOVED) return c - FIRST_MOVED;
    return gs_bpe_character((unsigned char)c) == character ? c : GS_BPE_NONE;
}

/* ---- construction ---- */

/* A gs_bpe under construction. Tokens are looked up by their text in the alphabet of files. */
typedef struct maker {
    gs_bpe *bpe;
    const char *const *token;   /* indexed by number; not owned */
    const char *const **sorted; /* addresses in token[], sorted by text */
} maker;

/* The number of bits for a table that is at most half full. */
static int bits_for(size_t count) {
    int bits = 8;
    while (((size_t)1 << bits) < 2 * count) bits++;
    return bits;
}

static int by_text(const void *a, const void *b) {
    const char *const *const *x = a, *const *const *y = b;
    return strcmp(**x, **y);
}

/* The number of a token; -1: no such token. */
static int find(const maker *m, const char *text) {
    const char *const *const wanted = &text;
    const char *const **found = bsearch(&wanted, m->sorted, (size_t)m->bpe->size, sizeof wanted, by_text);
    return found ? (int)(*found - m->token) : -1;
}

/* ---- tokens ---- */

static gs_status add_token(maker *m, const char *where, size_t i) {
    gs_bpe *b = m->bpe;
    const char *token = m->token[i];
    uint32_t used = b->begin[i];
    if (!*token) return gs_fail(GS_E_FORMAT, "%s: token %zu is empty", where, i);
    for (const char *at = token; *at;) {
        uint32_t code;
        const int length = gs_utf8_read(at, &code), byte = length ? gs_bpe_byte(code) : GS_BPE_NONE;
        if (byte == GS_BPE_NONE)
            return gs_fail(
                GS_E_FORMAT,
                "%s: token %zu, '%s', has a character that stands for no byte (at its byte %td); wanted "
                "byte pairs in GPT-2's alphabet, where Ġ is the space",
                where, i, gs_printable(token), at - token);
        b->bytes[used++] = (char)byte;
        at += length;
    }
    b->begin[i + 1] = used;
    return GS_OK;
}

static gs_status sort_tokens(maker *m, const char *where) {
    const size_t size = (size_t)m->bpe->size;
    for (size_t i = 0; i < size; i++) m->sorted[i] = &m->token[i];
    qsort(m->sorted, size, sizeof *m->sorted, by_text);
    for (size_t i = 1; i < size; i++) {
        const ptrdiff_t one = m->sorted[i - 1] - m->token, other = m->sorted[i] - m->token;
        if (strcmp(m->token[one], m->token[other]) == 0)
            return gs_fail(GS_E_FORMAT, "%s: tokens %td and %td are both '%s'", where,
                           one < other ? one : other, one < other ? other : one, gs_printable(m->token[one]));
    }
    return GS_OK;
}

static gs_status add_tokens(maker *m, const char *where) {
    gs_bpe *b = m->bpe;
    for (size_t i = 0; i < (size_t)b->size; i++) GS_TRY(add_token(m, where, i));
    GS_TRY(sort_tokens(m, where));
    for (unsigned byte = 0; byte <= LAST; byte++) {
        char text[5];
        gs_utf8_write(gs_bpe_character((unsigned char)byte), text);
        const int token = find(m, text);
        if (token < 0)
            return gs_fail(GS_E_FORMAT,
                           "%s: no token is byte 0x%02x ('%s'); wanted one for each of the 256 bytes", where,
                           byte, text);
        b->of_byte[byte] = (uint16_t)token;
    }
    b->end = find(m, GS_BPE_END);
    return GS_OK;
}

static gs_status maker_begin(maker *m, const char *where, const char *const *token, size_t size,
                             size_t merges) {
    size_t bytes = 0;
    *m = (maker){.token = token};
    if (size < GS_BPE_LEAST || size > GS_BPE_MOST)
        return gs_fail(GS_E_FORMAT, "%s has %zu token%s; wanted %d to %d", where, size, gs_s(size),
                       GS_BPE_LEAST, GS_BPE_MOST);
    for (size_t i = 0; i < size; i++) {
        if (!token[i]) gs_bug("%s: no token %zu", where, i);
        bytes += strlen(token[i]);
    }
    GS_TRY(GS_NEW(m->sorted, size, "%s: %zu tokens", where, size));
    GS_TRY(GS_NEW(m->bpe, 1, "%s", where));
    gs_bpe *b = m->bpe;
    *b = (gs_bpe){.users = 1, .size = (int)size, .bits = bits_for(merges)};
    GS_TRY(GS_NEW(b->bytes, bytes, "%s: %zu tokens", where, size));
    GS_TRY(GS_NEW(b->begin, size, "%s: %zu tokens", where, size));
    GS_TRY(GS_NEW(b->merge, merges, "%s: %zu merges", where, merges));
    GS_TRY(GS_NEW(b->pair, (size_t)1 << b->bits, "%s: %zu merges", where, merges));
    b->words = compile_words();
    return b->words ? add_tokens(m, where) : gs_fail(GS_E_MEMORY, "no memory for the words of %s", where);
}

/* ---- merges ---- */

static gs_status no_token(const char *where, size_t line, const char *what, const char *text) {
    return gs_fail(GS_E_FORMAT, "%s: line %zu: %s '%s', which is not in the vocabulary", where, line, what,
                   gs_printable(text));
}

static gs_status add_merge(maker *m, const char *where, size_t line, const char *left, const char *right) {
    gs_bpe *b = m->bpe;
    const int l = find(m, left), r = find(m, right);
    if (l < 0 || r < 0) return no_token(where, line, "it joins", l < 0 ? left : right);
    char *joined;
    if (asprintf(&joined, "%s%s", left, right) < 0)
        return gs_fail(GS_E_MEMORY, "%s: no memory for the merge of line %zu", where, line);
    const int made = find(m, joined);
    const gs_status status = made < 0 ? no_token(where, line, "it makes", joined) : GS_OK;
    free(joined);
    GS_TRY(status);
    uint32_t *place = gs_bpe_place(b, l, r);
    if (*place)
        return gs_fail(GS_E_FORMAT, "%s: line %zu joins '%s' and '%s', as an earlier line does", where, line,
                       gs_printable(left), gs_printable(right));
    b->merge[b->merges++] = (gs_bpe_merge){(uint16_t)l, (uint16_t)r, (uint16_t)made};
    *place = b->merges;
    return GS_OK;
}

/* ---- sharing ---- */

gs_bpe *gs_bpe_share(gs_bpe *b) {
    if (b) __atomic_fetch_add(&b->users, 1, __ATOMIC_RELAXED);
    return b;
}

void gs_bpe_free(gs_bpe *b) {
    if (!b || __atomic_sub_fetch(&b->users, 1, __ATOMIC_ACQ_REL) > 0) return;
    pcre2_code_free(b->words);
    free(b->bytes);
    free(b->begin);
    free(b->merge);
    free(b->pair);
    free(b);
}

/* ---- queries ---- */

int gs_bpe_size(const gs_bpe *b) {
    return b->size;
}

int gs_bpe_end(const gs_bpe *b) {
    return b->end;
}

const char *gs_bpe_piece(const gs_bpe *b, int token, size_t *bytes) {
    if (token < 0 || token >= b->size) gs_bug("gs_bpe: token %d of %d", token, b->size);
    *bytes = b->begin[token + 1] - b->begin[token];
    return b->bytes + b->begin[token];
}

bool gs_bpe_same(const gs_bpe *a, const gs_bpe *b) {
    if (a == b) return true;
    if (a->size != b->size || a->merges != b->merges) return false;
    return memcmp(a->begin, b->begin, ((size_t)a->size + 1) * sizeof *a->begin) == 0 &&
           memcmp(a->bytes, b->bytes, a->begin[a->size]) == 0 &&
           memcmp(a->merge, b->merge, a->merges * sizeof *a->merge) == 0;
}

enum {
    FILE_MOST = 16 << 20, /* bytes; GPT-2's files have 1 MB and 0.5 MB */
    LINES_MOST = 1 << 20
};

/* Add a merge from a line such as "l o": two tokens and one space, which becomes a 0. */
static gs_status add_line(maker *m, const char *where, size_t number, char *line) {
    char *space = strchr(line, ' ');
    if (!space || space == line || !space[1] || strchr(space + 1, ' '))
        return gs_fail(GS_E_FORMAT, "%s: line %zu is '%s'; wanted two tokens with a space between", where,
                       number, gs_printable(line));
    *space = '\0';
    return add_merge(m, where, number, line, space + 1);
}

/* Lines may end with \r\n; empty lines are ignored. Cuts the text into lines. */
static gs_status add_lines(maker *m, const char *where, char *text, size_t bytes) {
    size_t number = 0;
    if (strlen(text) < bytes)
        return gs_fail(GS_E_FORMAT, "%s: byte %zu is 0; wanted a text", where, strlen(text) + 1);
    for (char *line; (line = strsep(&text, "\n"));) {
        const size_t length = strlen(line);
        number++;
        if (length > 0 && line[length - 1] == '\r') line[length - 1] = '\0';
        if (!*line || (number == 1 && strncmp(line, "#version", 8) == 0)) continue;
        GS_TRY(add_line(m, where, number, line));
    }
    if (m->bpe->merges == 0)
        return gs_fail(GS_E_FORMAT, "%s has no merges; tokens that are bytes need none: --tokens bytes",
                       where);
    return GS_OK;
}

/* tokens_where and merges_where are names for messages. `merges` is modified: 0s cut it into lines and tokens. */
static gs_status make(const char *const *token, size_t size, const char *tokens_where, char *merges,
                      size_t merges_bytes, const char *merges_where, gs_bpe **out) {
    maker m;
    size_t lines = 1;
    for (size_t i = 0; i < merges_bytes; i++) lines += merges[i] == '\n';
    if (lines > LINES_MOST)
        return gs_fail(GS_E_FORMAT, "%s has %zu lines; wanted one for each merge, at most %d", merges_where,
                       lines, LINES_MOST);
    gs_status status = maker_begin(&m, tokens_where, token, size, lines);
    if (status == GS_OK) status = add_lines(&m, merges_where, merges, merges_bytes);
    free(m.sorted);
    *out = status == GS_OK ? m.bpe : NULL;
    if (status != GS_OK) gs_bpe_free(m.bpe);
    return status;
}

/* ---- files in a folder ---- */

static gs_status read_json(const char *path, cJSON **json) {
    char *text = NULL;
    size_t bytes;
    gs_status status = gs_file_read(path, FILE_MOST, &text, &bytes);
    if (status == GS_OK) status = gs_json_object(path, text, bytes, json);
    free(text);
    return gs_foreign_explain(status, path, "a list of tokens in JSON");
}

/* From {"a": 0, "b": 1} make token[0] = "a", token[1] = "b". */
static gs_status list_tokens(const char *path, const cJSON *json, size_t size, const char **token) {
    const cJSON *item;
    cJSON_ArrayForEach(item, json) {
        const double number = cJSON_IsNumber(item) ? item->valuedouble : -1;
        const char *suffix = strstr(item->string, "</w>");
        if (!(number >= 0 && number < (double)size) || number != (double)(size_t)number) {
            char *value = gs_json_to_text(item, false);
            const gs_status status =
                gs_fail(GS_E_FORMAT, "%s: the number of '%s' is %s; wanted 0 to %zu, for %zu tokens", path,
                        gs_printable(item->string), value ? gs_printable(value) : "?", size - 1, size);
            cJSON_free(value);
            return status;
        }
        if (suffix && !suffix[4]) /* GPT-2's regular expression would cut </w> into words */
            return gs_fail(
                GS_E_FORMAT,
                "%s: the token '%s' ends its word by </w>, as CLIP's do; wanted GPT-2's words, where "
                "Ġ is the space before",
                path, gs_printable(item->string));
        const char **place = &token[(size_t)number];
        if (*place)
            return gs_fail(GS_E_FORMAT, "%s: '%s' and '%s' both have the number %.0f", path,
                           gs_printable(*place), gs_printable(item->string), number);
        *place = item->string;
    }
    return GS_OK;
}

/* token[] points into the JSON object. */
static gs_status make_from_files(const char *vocab, const char *merges, const cJSON *json, gs_bpe **out) {
    const size_t size = (size_t)cJSON_GetArraySize(json);
    const char **token = calloc(size + 1, sizeof *token);
    char *text = NULL;
    size_t bytes;
    gs_status status = token ? GS_OK : gs_fail(GS_E_MEMORY, "%s: no memory for %zu tokens", vocab, size);
    if (status == GS_OK) status = gs_file_read(merges, FILE_MOST, &text, &bytes);
    if (status == GS_OK) status = list_tokens(vocab, json, size, token);
    if (status == GS_OK)
        status = gs_foreign_explain(make(token, size, vocab, text, bytes, merges, out), merges,
                                    "a list of merges (tokens that are bytes need none: --tokens bytes)");
    free(text);
    free(token);
    return status;
}

/* Explain that tokenizer.json is not read: it holds both lists, but also settings that may give other tokens. */
static gs_status explain_whole(const char *folder, char path[3][4096]) {
    if ((access(path[0], F_OK) == 0 && access(path[1], F_OK) == 0) || access(path[2], F_OK) != 0)
        return GS_OK;
    return gs_fail(
        GS_E_FILE,
        "%s has tokenizer.json, but not both vocab.json and merges.txt; if it cuts texts as GPT-2's "
        "does, write these in Python: tokenizers.Tokenizer.from_file('%s').model.save('%s')",
        folder, path[2], folder);
}

/* Only vocab.json and merges.txt are read, so reject a folder with other files that would give other tokens. */
static gs_status check_beside(const char *folder) {
    static const struct {
        const char *file, *in, *name; /* name NULL: any setting */
    } unset[] = {{"added_tokens.json", NULL, NULL},
                 {"tokenizer_config.json", NULL, "add_prefix_space"},
                 {"tokenizer_config.json", NULL, "add_bos_token"},
                 {"tokenizer_config.json", NULL, "do_lower_case"},
                 {"tokenizer.json", NULL, "normalizer"},
                 {"tokenizer.json", "pre_tokenizer", "add_prefix_space"},
                 {"tokenizer.json", "pre_tokenizer", "individual_digits"},
                 {"tokenizer.json", "pre_tokenizer", "pretokenizers"}};
    gs_status status = GS_OK;
    for (size_t i = 0; i < sizeof unset / sizeof *unset && status == GS_OK; i++) {
        char path[4200];
        cJSON *json = NULL;
        snprintf(path, sizeof path, "%s/%s", folder, unset[i].file);
        if (access(path, F_OK) != 0) continue;
        status = read_json(path, &json);
        const cJSON *in = unset[i].in ? cJSON_GetObjectItemCaseSensitive(json, unset[i].in) : json,
                    *found = unset[i].name ? cJSON_GetObjectItemCaseSensitive(in, unset[i].name)
                             : json        ? json->child
                                           : NULL;
        if (status == GS_OK && found && !cJSON_IsNull(found) && !cJSON_IsFalse(found))
            status =
                gs_fail(GS_E_FORMAT,
                        "%s sets %s: that gives other tokens than vocab.json and merges.txt alone, which are "
                        "all that is read; wanted it unset, as in GPT-2's tokenizer",
                        path, gs_printable(found->string));
        cJSON_Delete(json);
    }
    return status;
}

gs_status gs_bpe_load(const char *folder, gs_bpe **out) {
    static const char *const names[] = {"vocab.json", "merges.txt", "tokenizer.json"};
    char path[3][4096];
    cJSON *json = NULL;
    *out = NULL;
    for (int i = 0; i < 3; i++)
        if (snprintf(path[i], sizeof path[i], "%s/%s", folder, names[i]) >= (int)sizeof path[i])
            return gs_fail(GS_E_FILE, "%s: the path is too long", folder);
    gs_status status = explain_whole(folder, path);
    if (status == GS_OK) status = read_json(path[0], &json);
    if (status == GS_OK) status = check_beside(folder);
    if (status == GS_OK) status = make_from_files(path[0], path[1], json, out);
    cJSON_Delete(json);
    return status;
}

/* ---- texts ---- */

gs_status gs_bpe_read(const char *tokens, const char *merges, const char *where, gs_bpe **out) {
    char in_tokens[160], in_merges[160];
    size_t size = 1;
    *out = NULL;
    snprintf(in_tokens, sizeof in_tokens, "the vocabulary in %s", where);
    snprintf(in_merges, sizeof in_merges, "the merges in %s", where);
    for (const char *at = tokens; *at; at++) size += *at == ' ';
    char *text = strdup(tokens), *rest = text, *lines = strdup(merges);
    const char **token = calloc(size, sizeof *token);
    for (size_t i = 0; text && token && i < size; i++) token[i] = strsep(&rest, " ");
    const gs_status status = text && lines && token
                                 ? make(token, size, in_tokens, lines, strlen(lines), in_merges, out)
                                 : gs_fail(GS_E_MEMORY, "%s: no memory for %zu tokens", where, size);
    free(text);
    free(lines);
    free(token);
    return status;
}

/* Write a token in the alphabet of files. */
static void write_token(const gs_bpe *b, int token, FILE *f) {
    char character[5];
    for (uint32_t i = b->begin[token]; i < b->begin[token + 1]; i++) {
        gs_utf8_write(gs_bpe_character((unsigned char)b->bytes[i]), character);
        fputs(character, f);
    }
}

gs_status gs_bpe_texts(const gs_bpe *b, char **tokens, char **merges) {
    size_t bytes[2];
    *tokens = *merges = NULL;
    FILE *t = open_memstream(tokens, &bytes[0]), *m = open_memstream(merges, &bytes[1]);
    for (int i = 0; t && i < b->size; i++) {
        if (i > 0) fputc(' ', t);
        write_token(b, i, t);
    }
    for (uint32_t i = 0; m && i < b->merges; i++) {
        write_token(b, b->merge[i].left, m);
        fputc(' ', m);
        write_token(b, b->merge[i].right, m);
        fputc('\n', m);
    }
    bool failed = !t || !m || ferror(t) || ferror(m);
    if (t && fclose(t) != 0) failed = true;
    if (m && fclose(m) != 0) failed = true;
    if (!failed) return GS_OK;
    free(*tokens);
    free(*merges);
    *tokens = *merges = NULL;
    return gs_fail(GS_E_MEMORY, "no memory for the text of %d tokens", b->size);
}

/* ---- from words to tokens ---- */

/* The rank of a pair; UINT32_MAX if it has none. */
static uint32_t rank_of(const gs_bpe *b, uint16_t left, uint16_t right) {
    return (uint32_t)gs_bpe_rank(b, left, right);
}

/* Merge the pairs of rank `lowest`, from left to right, until a new token forms a pair of a lower rank. rank[i]: the
 * rank of tokens i and i + 1. Returns the number of tokens that remain. */
static size_t merge_pairs(const gs_bpe *b, uint32_t lowest, uint16_t *tokens, uint32_t *rank, size_t count) {
    const uint16_t made = b->merge[lowest].made;
    bool ends = false;
    size_t to = 0;
    for (size_t from = 0; from < count; to++) {
        const bool pair = !ends && rank[from] == lowest;
        tokens[to] = pair ? made : tokens[from];
        rank[to] = rank[from];
        from += 1 + pair;
        if (!pair) continue;
        rank[to] = from < count ? rank_of(b, made, tokens[from]) : UINT32_MAX;
        if (to > 0) rank[to - 1] = rank_of(b, tokens[to - 1], made);
        ends = rank[to] < lowest || (to > 0 && rank[to - 1] < lowest);
    }
    return to;
}

static size_t encode_word(const gs_bpe *b, const char *word, size_t bytes, uint16_t *tokens, uint32_t *rank) {
    size_t count = bytes;
    for (size_t i = 0; i < bytes; i++) tokens[i] = b->of_byte[(unsigned char)word[i]];
    for (size_t i = 0; i < bytes; i++)
        rank[i] = i + 1 < bytes ? rank_of(b, tokens[i], tokens[i + 1]) : UINT32_MAX;
    for (;;) {
        uint32_t lowest = UINT32_MAX;
        for (size_t i = 0; i < count; i++) lowest = rank[i] < lowest ? rank[i] : lowest;
        if (lowest == UINT32_MAX) return count;
        count = merge_pairs(b, lowest, tokens, rank, count);
    }
}

/* Where "<|endoftext|>" begins, at or after `at`; the end of the text if there is none. */
static size_t end_from(const gs_bpe *b, const char *text, size_t bytes, size_t at) {
    const char *found = b->end >= 0 ? memmem(text + at, bytes - at, GS_BPE_END, sizeof GS_BPE_END - 1) : NULL;
    return found ? (size_t)(found - text) : bytes;
}

/* *rank: room for *room numbers, which grows with the longest word. */
static gs_status encode_text(const gs_bpe *b, gs_bpe_walk *walk, const char *text, size_t bytes,
                             uint16_t *tokens, size_t *count, uint32_t **rank) {
    size_t until = end_from(b, text, bytes, 0), room = 0;
    for (size_t at = 0, length; at < bytes; at += length) {
        if (at == until) {
            length = sizeof GS_BPE_END - 1;
            tokens[(*count)++] = (uint16_t)b->end;
            until = end_from(b, text, bytes, at + length);
            continue;
        }
        GS_TRY(gs_bpe_walk_next(walk, text, until, at, &length));
        while (room < length)
            if (!gs_grow(rank, room, &room, sizeof **rank))
                return gs_fail(GS_E_MEMORY, "no memory for a word of %zu bytes", length);
        *count += encode_word(b, text + at, length, tokens + *count, *rank);
    }
    return GS_OK;
}

gs_status gs_bpe_encode(const gs_bpe *b, const char *text, size_t bytes, uint16_t *tokens, size_t *count) {
    gs_bpe_walk walk;
    uint32_t *rank = NULL;
    *count = 0;
    GS_TRY(gs_bpe_walk_begin(&walk, b->words));
    const gs_status status = encode_text(b, &walk, text, bytes, tokens, count, &rank);
    gs_bpe_walk_end(&walk);
    free(rank);
    return status;
}
