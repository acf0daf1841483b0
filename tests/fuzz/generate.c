/* `generate`, without the vocabulary (vocabulary.c) and the file (safetensors.c): draws from any finite logits, and
 * incomplete characters. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/text.h"
#include "fuzz.h"
#include "model/generate.h"

/* A text arrives byte by byte: the result for a prefix must not depend on what follows. */
static void parts(fuzz_input *in) {
    const size_t bytes = in->size;
    char *text = fuzz_text(in);
    int before = -1;
    for (size_t i = 0; i <= bytes; i++) {
        uint32_t code;
        char back[5];
        const int length = gs_utf8_read_part(text, i, &code);
        if (before >= 0 ? length != before : length > (int)i || (length < 0 && i > 3))
            fuzz_wrong("%d after %zu bytes, %d before", length, i, before);
        if (length > 0 && (gs_utf8_write(code, back) != length || memcmp(back, text, (size_t)length) != 0))
            fuzz_wrong("U+%04X is not the encoded character", code);
        before = length;
    }
    uint32_t code;
    const int whole = gs_utf8_read(text, &code);
    if (whole != (before < 0 ? bytes == 0 : before)) fuzz_wrong("%d at once, %d in parts", whole, before);
    free(text);
}

/* The drawn token must be one of the top_k largest. */
static void draw(fuzz_input *in) {
    enum { MOST = 200 };
    float x[MOST];
    gs_sampling s = {ldexpf(fuzz_byte(in), fuzz_byte(in) - 140), fuzz_byte(in), fuzz_byte(in)};
    int count = 1 + fuzz_byte(in) % MOST, before = 0;
    fuzz_bytes(in, x, (size_t)count * sizeof *x);
    for (int i = 0; i < count; i++)
        if (!isfinite(x[i])) x[i] = 0;
    const int token = gs_sample(&s, x, count, 0, 1);
    if (token < 0 || token >= count) fuzz_wrong("token %d of %d", token, count);
    for (int i = 0; i < count; i++) before += x[i] > x[token] || (i < token && x[i] == x[token]);
    if ((s.temperature == 0 && before > 0) || (s.top_k && before >= s.top_k))
        fuzz_wrong("token %d of %d: %d come before it, top_k %d", token, count, before, s.top_k);
}

FUZZ(in) {
    if (fuzz_byte(in) % 2)
        parts(in);
    else
        draw(in);
}
