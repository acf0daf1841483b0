/* Byte pairs from files: vocab.json and merges.txt, or the texts of both. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/text.h"
#include "data/bpe_parts.h"
#include "io/file.h"
#include "io/json.h"

enum {
    FILE_MOST = 16 << 20, /* bytes; GPT-2's have 1 MB and 0.5 MB */
    LINES_MOST = 1 << 20
};

/* ---- merges ---- */

/* "l o": one space, with something on both sides. */
static gs_status add_line(gs_bpe_maker *m, const char *where, size_t number, const char *line, size_t bytes) {
    const char *space = memchr(line, ' ', bytes);
    const size_t left = space ? (size_t)(space - line) : 0, right = space ? bytes - left - 1 : 0;
    if (left == 0 || right == 0 || memchr(space + 1, ' ', right)) {
        char shown[96];
        snprintf(shown, sizeof shown, "%.*s", (int)(bytes < sizeof shown ? bytes : sizeof shown - 1), line);
        return gs_fail(GS_E_FORMAT, "%s: line %zu is '%s'; wanted two tokens with a space between", where,
                       number, gs_printable(shown));
    }
    return gs_bpe_maker_merge(m, where, number, line, left, space + 1, right);
}

/* Lines may end as Windows has them; empty ones are passed over. */
static gs_status add_lines(gs_bpe_maker *m, const char *where, const char *text, size_t bytes) {
    size_t number = 0;
    for (const char *at = text, *end = text + bytes, *next; at < end; at = next) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((newline ? newline : end) - at);
        next = newline ? newline + 1 : end;
        number++;
        if (length > 0 && at[length - 1] == '\r') length--;
        if (length == 0 || (number == 1 && strncmp(at, "#version", 8) == 0)) continue;
        GS_TRY(add_line(m, where, number, at, length));
    }
    if (m->bpe->merges == 0)
        return gs_fail(GS_E_FORMAT, "%s has no merges; tokens that are bytes need none: --tokens bytes",
                       where);
    return GS_OK;
}

static size_t count_lines(const char *text, size_t bytes) {
    size_t lines = 1;
    for (size_t i = 0; i < bytes; i++) lines += text[i] == '\n';
    return lines;
}

/* What both kinds of tokens have in common. Two names for messages: of the tokens, and of the merges. */
static gs_status make(const char *const *token, size_t size, const char *tokens_where, const char *merges,
                      size_t merges_bytes, const char *merges_where, gs_bpe **out) {
    gs_bpe_maker m;
    const size_t lines = count_lines(merges, merges_bytes);
    if (lines > LINES_MOST)
        return gs_fail(GS_E_FORMAT, "%s has %zu lines; wanted one for each merge, at most %d", merges_where,
                       lines, LINES_MOST);
    gs_status status = gs_bpe_maker_begin(&m, tokens_where, token, size, lines);
    if (status == GS_OK) status = add_lines(&m, merges_where, merges, merges_bytes);
    return gs_bpe_maker_end(&m, status, out);
}

/* ---- vocab.json ---- */

/* {"a": 0, "b": 1} -> token[0] = "a", ... They live as long as the JSON. */
static gs_status list_tokens(const char *path, const cJSON *json, const char **token, size_t size) {
    const cJSON *item;
    cJSON_ArrayForEach(item, json) {
        const double number = cJSON_IsNumber(item) ? item->valuedouble : -1;
        if (!(number >= 0 && number < (double)size) || number != (double)(size_t)number) {
            char *value = gs_json_to_text(item, false);
            const gs_status status =
                gs_fail(GS_E_FORMAT, "%s: the number of '%s' is %s; wanted 0 to %zu, for %zu tokens", path,
                        gs_printable(item->string), value ? gs_printable(value) : "?", size - 1, size);
            cJSON_free(value);
            return status;
        }
        const char **place = &token[(size_t)number];
        if (*place)
            return gs_fail(GS_E_FORMAT, "%s: '%s' and '%s' both have the number %.0f", path,
                           gs_printable(*place), gs_printable(item->string), number);
        *place = item->string;
    }
    return GS_OK;
}

static gs_status parse(const char *path, const char *text, size_t bytes, cJSON **json) {
    const char *end = text;
    *json = gs_json_parse(text, bytes, &end);
    size_t at = (size_t)(end - text);
    if (*json) at += strspn(end, " \t\r\n");
    if (!*json || at < bytes)
        return gs_fail(GS_E_FORMAT, "%s is not valid JSON: wrong at byte %zu of %zu", path, at, bytes);
    if (cJSON_IsObject(*json)) return GS_OK;
    return gs_fail(GS_E_FORMAT, "%s: wanted an object of tokens with their numbers: {\"!\": 0, ...}", path);
}

static gs_status make_of_json(const char *path, const cJSON *json, const char *merges_path,
                              const char *merges, size_t merges_bytes, gs_bpe **out) {
    const size_t size = (size_t)cJSON_GetArraySize(json);
    const char **token = calloc(size + 1, sizeof *token);
    if (!token) return gs_fail(GS_E_MEMORY, "%s: no memory for %zu tokens", path, size);
    gs_status status = list_tokens(path, json, token, size);
    if (status == GS_OK) status = make(token, size, path, merges, merges_bytes, merges_path, out);
    free(token);
    return status;
}

/* Newer repositories have both lists in one file, and some of them cut their words in other ways. */
static gs_status read_tokens(const char *folder, const char *path, char **text, size_t *bytes) {
    char *other = NULL;
    if (asprintf(&other, "%s/tokenizer.json", folder) < 0)
        return gs_fail(GS_E_MEMORY, "no memory for a path");
    const bool alone = access(path, F_OK) != 0 && access(other, F_OK) == 0;
    const gs_status status =
        alone ? gs_fail(
                    GS_E_FILE,
                    "%s has tokenizer.json but no vocab.json; wanted vocab.json and merges.txt, as published "
                    "with GPT-2",
                    folder)
              : gs_file_read(path, FILE_MOST, text, bytes);
    free(other);
    return status;
}

static gs_status load(const char *folder, const char *path, const char *merges_path, gs_bpe **out) {
    char *text = NULL, *merges = NULL;
    size_t bytes, merges_bytes;
    cJSON *json = NULL;
    gs_status status = read_tokens(folder, path, &text, &bytes);
    if (status == GS_OK) status = gs_file_read(merges_path, FILE_MOST, &merges, &merges_bytes);
    if (status == GS_OK) status = parse(path, text, bytes, &json);
    if (status == GS_OK) status = make_of_json(path, json, merges_path, merges, merges_bytes, out);
    cJSON_Delete(json);
    free(text);
    free(merges);
    return status;
}

gs_status gs_bpe_load(const char *folder, gs_bpe **out) {
    char *path = NULL, *merges_path = NULL;
    *out = NULL;
    if (asprintf(&path, "%s/vocab.json", folder) < 0) path = NULL;
    if (asprintf(&merges_path, "%s/merges.txt", folder) < 0) merges_path = NULL;
    const gs_status status = path && merges_path ? load(folder, path, merges_path, out)
                                                 : gs_fail(GS_E_MEMORY, "no memory for a path");
    free(path);
    free(merges_path);
    return status;
}

/* ---- texts ---- */

/* "a b c", which is cut up, becomes its `size` tokens. */
static void cut_tokens(char *text, const char **token, size_t size) {
    for (size_t i = 0; i < size; i++) {
        token[i] = text;
        text += strcspn(text, " ");
        *text++ = '\0';
    }
}

gs_status gs_bpe_read(const char *tokens, const char *merges, const char *where, gs_bpe **out) {
    char in_tokens[160], in_merges[160];
    size_t size = 1;
    *out = NULL;
    snprintf(in_tokens, sizeof in_tokens, "the vocabulary in %s", where);
    snprintf(in_merges, sizeof in_merges, "the merges in %s", where);
    for (const char *at = tokens; *at; at++) size += *at == ' ';
    char *text = strdup(tokens);
    const char **token = calloc(size, sizeof *token);
    if (text && token) cut_tokens(text, token, size);
    const gs_status status = text && token
                                 ? make(token, size, in_tokens, merges, strlen(merges), in_merges, out)
                                 : gs_fail(GS_E_MEMORY, "%s: no memory for %zu tokens", where, size);
    free(text);
    free(token);
    return status;
}
