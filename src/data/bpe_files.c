/* Byte pairs from files: tokenizer.json, or vocab.json and merges.txt; or from the texts of both lists. */
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

/* ---- the files of a folder ---- */

/* A tokenizer is in tokenizer.json, or in vocab.json and merges.txt. The last two add to either. */
enum { WHOLE, VOCAB, MERGES, ADDED, CONFIG, FILES };
static const char *const names[FILES] = {
    [WHOLE] = "tokenizer.json",
    [VOCAB] = "vocab.json",
    [MERGES] = "merges.txt",
    [ADDED] = "added_tokens.json",
    [CONFIG] = "tokenizer_config.json",
};

typedef struct lists {
    char *path[FILES];
    cJSON *json[FILES]; /* NULL: that file is not there */
    char *merges;
    size_t merges_bytes;
    const char **token; /* by number; they live as long as the JSON */
    size_t size;
} lists;

static bool is_there(const lists *l, int file) {
    return access(l->path[file], F_OK) == 0;
}

static const cJSON *field(const cJSON *of, const char *name) {
    return cJSON_GetObjectItemCaseSensitive(of, name);
}

static gs_status parse(const char *path, const char *text, size_t bytes, cJSON **json) {
    const char *end = text;
    *json = gs_json_parse(text, bytes, &end);
    size_t at = (size_t)(end - text);
    if (*json) at += strspn(end, " \t\r\n");
    if (!*json || at < bytes)
        return gs_fail(GS_E_FORMAT, "%s is not valid JSON: wrong at byte %zu of %zu", path, at, bytes);
    return cJSON_IsObject(*json) ? GS_OK
                                 : gs_fail(GS_E_FORMAT, "%s: wanted an object: {\"!\": 0, ...}", path);
}

static gs_status read_json(lists *l, int file) {
    char *text = NULL;
    size_t bytes;
    gs_status status = gs_file_read(l->path[file], FILE_MOST, &text, &bytes);
    if (status == GS_OK) status = parse(l->path[file], text, bytes, &l->json[file]);
    free(text);
    return gs_foreign_explain(status, l->path[file], "a list of tokens in JSON");
}

/* ---- what would give other tokens ---- */

static gs_status refuse(const char *path, const char *in, const char *name, const cJSON *found,
                        const char *wanted) {
    char *value = gs_json_to_text(found, false);
    const gs_status status = gs_fail(GS_E_FORMAT, "%s: %s%s is %.80s; wanted %s, as GPT-2's tokenizer has it",
                                     path, in, name, value ? gs_printable(value) : "?", wanted);
    cJSON_free(value);
    return status;
}

/* Each of these is missing, null, false, 0 or "". */
static gs_status check_unset(const char *path, const char *in, const cJSON *of, const char *const *name) {
    for (; *name; name++) {
        const cJSON *item = field(of, *name);
        const bool unset = !item || cJSON_IsNull(item) || cJSON_IsFalse(item) ||
                           (cJSON_IsNumber(item) && item->valuedouble == 0) ||
                           (cJSON_IsString(item) && !*item->valuestring);
        if (!unset) return refuse(path, in, *name, item, "none");
    }
    return GS_OK;
}

static bool is_type(const cJSON *part, const char *type) {
    const cJSON *named = field(part, "type");
    return cJSON_IsString(named) && strcmp(named->valuestring, type) == 0;
}

/* A step of the tokenizer is `type` ("": none), or a sequence of that alone. *step: it; NULL: none. */
static gs_status check_step(const char *path, const cJSON *json, const char *name, const char *list,
                            const char *type, const cJSON **step) {
    const cJSON *whole = field(json, name), *items = is_type(whole, "Sequence") ? field(whole, list) : NULL,
                *other;
    *step = items ? items->child : cJSON_IsNull(whole) ? NULL : whole;
    cJSON_ArrayForEach(other, items) if (!is_type(other, type)) break;
    if (!other && *step && (*step)->next && items) other = whole; /* twice */
    if (!items && *step && !is_type(whole, type)) other = whole;
    return other ? refuse(path, "", name, other, *type ? "ByteLevel" : "none") : GS_OK;
}

/* tokenizer.json: text -> normalizer -> pre_tokenizer, which cuts words -> model -> post_processor. */
static gs_status check_tokenizer(const char *path, const cJSON *json) {
    static const char *const of_all[] = {"truncation", "padding", NULL}, *const of_model[] = {
                                                                             "dropout",
                                                                             "continuing_subword_prefix",
                                                                             "end_of_word_suffix",
                                                                             "ignore_merges", NULL};
    const cJSON *step, *model = field(json, "model"), *words = NULL, *vocabulary = field(model, "vocab");
    if (!cJSON_IsObject(vocabulary) || !cJSON_IsArray(field(model, "merges")) ||
        (field(model, "type") && !is_type(model, "BPE")))
        return gs_fail(GS_E_FORMAT, "%s: wanted a \"model\" of type BPE, with \"vocab\" and \"merges\"",
                       path);
    GS_TRY(check_step(path, json, "normalizer", "normalizers", "", &step));
    GS_TRY(check_step(path, json, "pre_tokenizer", "pretokenizers", "ByteLevel", &words));
    GS_TRY(check_step(path, json, "post_processor", "processors", "ByteLevel", &step));
    if (!words) return gs_fail(GS_E_FORMAT, "%s: it has no pre_tokenizer; wanted ByteLevel", path);
    if (!cJSON_IsFalse(field(words, "add_prefix_space")))
        return refuse(path, "pre_tokenizer.", "add_prefix_space", field(words, "add_prefix_space"), "false");
    if (cJSON_IsFalse(field(words, "use_regex")))
        return refuse(path, "pre_tokenizer.", "use_regex", field(words, "use_regex"), "true");
    GS_TRY(check_unset(path, "", json, of_all));
    return check_unset(path, "model.", model, of_model);
}

/* ---- tokens ---- */

/* {"a": 0, "b": 1} -> token[0] = "a", ... */
static gs_status list_tokens(const char *path, const cJSON *json, lists *l) {
    const cJSON *item;
    const size_t size = l->size;
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
        if (suffix && !suffix[4]) /* GPT-2's words end before the w, and again behind it */
            return gs_fail(
                GS_E_FORMAT,
                "%s: the token '%s' ends its word by </w>, as CLIP's do; wanted GPT-2's words, where "
                "Ġ is the space before",
                path, gs_printable(item->string));
        const char **place = &l->token[(size_t)number];
        if (*place)
            return gs_fail(GS_E_FORMAT, "%s: '%s' and '%s' both have the number %.0f", path,
                           gs_printable(*place), gs_printable(item->string), number);
        *place = item->string;
    }
    return GS_OK;
}

/* A token that is found in a text before its words are. */
static gs_status add_token(lists *l, const char *path, const char *text, double number) {
    if (strcmp(text, GS_BPE_END) != 0)
        return gs_fail(GS_E_FORMAT,
                       "%s: it adds the token '%s' (%.0f) to the vocabulary; wanted none but " GS_BPE_END
                       ": take it out if no text has it",
                       path, gs_printable(text), number);
    if (number == (double)l->size) l->token[l->size++] = GS_BPE_END;
    if (number >= 0 && number < (double)l->size && strcmp(l->token[(size_t)number], GS_BPE_END) == 0)
        return GS_OK;
    return gs_fail(GS_E_FORMAT,
                   "%s: it adds " GS_BPE_END " as %.0f; wanted its number in the vocabulary, or %zu", path,
                   number, l->size);
}

/* {"id": 3, "content": "<s>", ...}, or where the number is a name: "3": {"content": "<s>", ...} */
static gs_status add_object(lists *l, const char *path, const cJSON *item) {
    static const char *const flags[] = {"single_word", "lstrip", "rstrip", NULL};
    const cJSON *text = field(item, "content"), *id = field(item, "id");
    const double number = cJSON_IsNumber(id) ? id->valuedouble
                          : item->string     ? strtod(item->string, NULL)
                                             : -1;
    GS_TRY(add_token(l, path, cJSON_IsString(text) ? text->valuestring : "", number));
    return check_unset(path, GS_BPE_END ".", item, flags);
}

static gs_status add_tokens(lists *l) {
    static const char *const config[] = {"add_prefix_space", "add_bos_token", "add_eos_token",
                                         "do_lower_case", NULL};
    const cJSON *item, *added = field(l->json[WHOLE], "added_tokens");
    cJSON_ArrayForEach(item, added) GS_TRY(add_object(l, l->path[WHOLE], item));
    if (l->json[WHOLE] && !(added && added->child) &&
        field(field(field(l->json[WHOLE], "model"), "vocab"), GS_BPE_END))
        return gs_fail(GS_E_FORMAT,
                       "%s: " GS_BPE_END " is in its vocabulary, but not in its added_tokens; "
                       "wanted it in both, or in neither",
                       l->path[WHOLE]);
    cJSON_ArrayForEach(item, l->json[ADDED])
        GS_TRY(add_token(l, l->path[ADDED], item->string, cJSON_IsNumber(item) ? item->valuedouble : -1));
    cJSON_ArrayForEach(item, field(l->json[CONFIG], "added_tokens_decoder"))
        GS_TRY(add_object(l, l->path[CONFIG], item));
    return check_unset(l->path[CONFIG], "", l->json[CONFIG], config);
}

/* ["a b", ...], or newer [["a", "b"], ...], as the lines of merges.txt. */
static gs_status join_merges(lists *l, const cJSON *list) {
    const cJSON *item;
    FILE *f = open_memstream(&l->merges, &l->merges_bytes);
    if (!f) return gs_fail(GS_E_MEMORY, "%s: no memory for its merges", l->path[WHOLE]);
    cJSON_ArrayForEach(item, list) {
        const cJSON *left = cJSON_GetArrayItem(item, 0), *right = cJSON_GetArrayItem(item, 1);
        if (cJSON_IsString(item))
            fprintf(f, "%s\n", item->valuestring);
        else
            fprintf(f, "%s %s\n", cJSON_IsString(left) ? left->valuestring : "",
                    cJSON_IsString(right) ? right->valuestring : "");
    }
    if (fclose(f) == 0) return GS_OK;
    return gs_fail(GS_E_MEMORY, "%s: no memory for its merges", l->path[WHOLE]);
}

static gs_status read_lists(lists *l, const cJSON **vocabulary) {
    const int first = is_there(l, WHOLE) ? WHOLE : VOCAB;
    GS_TRY(read_json(l, first));
    *vocabulary = l->json[first];
    if (first == WHOLE) {
        const cJSON *model = field(l->json[WHOLE], "model");
        GS_TRY(check_tokenizer(l->path[WHOLE], l->json[WHOLE]));
        GS_TRY(join_merges(l, field(model, "merges")));
        *vocabulary = field(model, "vocab");
    } else
        GS_TRY(gs_file_read(l->path[MERGES], FILE_MOST, &l->merges, &l->merges_bytes));
    for (int i = ADDED; i <= CONFIG; i++)
        if (is_there(l, i)) GS_TRY(read_json(l, i));
    return GS_OK;
}

static gs_status load(lists *l, gs_bpe **out) {
    const cJSON *vocabulary;
    GS_TRY(read_lists(l, &vocabulary));
    const bool whole = l->json[WHOLE];
    const char *path = l->path[whole ? WHOLE : VOCAB], *merges = l->path[whole ? WHOLE : MERGES];
    l->size = (size_t)cJSON_GetArraySize(vocabulary);
    l->token = calloc(l->size + 2, sizeof *l->token);
    if (!l->token) return gs_fail(GS_E_MEMORY, "%s: no memory for %zu tokens", path, l->size);
    GS_TRY(list_tokens(path, vocabulary, l));
    GS_TRY(add_tokens(l));
    const gs_status status = make(l->token, l->size, path, l->merges, l->merges_bytes, merges, out);
    return gs_foreign_explain(status, merges,
                              "a list of merges (tokens that are bytes need none: --tokens bytes)");
}

gs_status gs_bpe_load(const char *folder, gs_bpe **out) {
    lists l = {0};
    bool room = true;
    *out = NULL;
    for (int i = 0; room && i < FILES; i++)
        if (asprintf(&l.path[i], "%s/%s", folder, names[i]) < 0) {
            l.path[i] = NULL;
            room = false;
        }
    const gs_status status = room ? load(&l, out) : gs_fail(GS_E_MEMORY, "no memory for a path");
    for (int i = 0; i < FILES; i++) {
        free(l.path[i]);
        cJSON_Delete(l.json[i]);
    }
    free(l.merges);
    free(l.token);
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
