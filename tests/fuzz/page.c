/* Text and data inside a page: nothing in them may end the enclosing element. Valid UTF-8 must come back unchanged; in
 * other text, bytes are escaped. */
#include "page/page.c"
#include "core/text.h"
#include "fuzz.h"

/* Text or JSON, as a page contains it. */
static char *page_of(const char *text, const cJSON *json) {
    char *page = NULL;
    size_t length;
    FILE *f = open_memstream(&page, &length);
    if (f && text) put_text(f, text);
    if (!f || (json && put_json(f, json) != GS_OK) || fclose(f) != 0) fuzz_wrong("page: %s", gs_message());
    return page;
}

static bool is_utf8(const char *text) {
    uint32_t code;
    for (int length; *text; text += length)
        if ((length = gs_utf8_read(text, &code)) == 0) return false;
    return true;
}

FUZZ(in) {
    char *text = fuzz_text(in);
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, text, text);
    char *title = page_of(text, NULL);
    char *data = page_of(NULL, json);
    if (strpbrk(title, "<>\"'")) fuzz_wrong("the text contains unescaped HTML: %s", title);
    if (strchr(data, '<')) fuzz_wrong("the data contain unescaped HTML: %s", data);
    cJSON *again = cJSON_Parse(data);
    const cJSON *value = again ? again->child : NULL;
    if (!is_utf8(data)) fuzz_wrong("the data are not UTF-8: %s", data);
    if (!value ||
        (is_utf8(text) && (strcmp(value->string, text) != 0 || strcmp(value->valuestring, text) != 0)))
        fuzz_wrong("the data have changed: %s", data);
    cJSON_Delete(again);
    free(data);
    free(title);
    cJSON_Delete(json);
    free(text);
}
