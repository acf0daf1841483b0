#include "data/augment.h"

#include "core/philox.h"
#include "core/text.h"

#include <stdio.h>
#include <string.h>

/* ---- as text ---- */

/* Read a word that takes no number. */
static bool read_word(const char **text, const char *word, bool *on) {
    const size_t length = strlen(word);
    if (strncmp(*text, word, length) != 0 || *on) return false;
    *on = true;
    *text += length;
    return true;
}

/* Read one change, such as "crop:4" or "flip"; advances *text. */
static bool read_one(const char **text, gs_augment *a) {
    const bool crop = strncmp(*text, "crop:", 5) == 0, cutout = strncmp(*text, "cutout:", 7) == 0;
    if (read_word(text, "flip", &a->flip) || read_word(text, "resized_crop", &a->resized_crop)) return true;
    int *number = crop ? &a->crop : &a->cutout;
    if ((!crop && !cutout) || *number) return false;
    *text += crop ? 5 : 7;
    const size_t digits = strspn(*text, "0123456789");
    if (digits < 1 || digits > 4) return false;
    *number = atoi(*text);
    *text += digits;
    return *number > 0;
}

bool gs_augment_read(const char *text, gs_augment *a) {
    gs_augment read = {0};
    const bool none = strcmp(text, "none") == 0;
    while (!none && read_one(&text, &read) && *text == ',') text++;
    if (!none && (*text || !gs_augment_is_on(&read) || text[-1] == ','))
        return false; /* text[-1] exists, because is_on means that text has advanced */
    *a = read;
    return true;
}

const char *gs_augment_text(const gs_augment *a, char *text, size_t size) {
    snprintf(text, size, "%s", gs_augment_is_on(a) ? "" : "none");
    if (a->resized_crop) gs_append(text, size, "resized_crop");
    if (a->crop) gs_append(text, size, "%scrop:%d", *text ? "," : "", a->crop);
    if (a->flip) gs_append(text, size, "%sflip", *text ? "," : "");
    if (a->cutout) gs_append(text, size, "%scutout:%d", *text ? "," : "", a->cutout);
    return text;
}

gs_status gs_augment_check(const gs_augment *a, const gs_dataset *set) {
    char text[GS_AUGMENT_TEXT];
    const gs_shape s = set->shape;
    const int least = s.h < s.w ? s.h : s.w;
    if (!gs_augment_is_on(a)) return GS_OK;
    gs_augment_text(a, text, sizeof text);
    if (a->resized_crop && !set->folder)
        return gs_fail(GS_E_USAGE,
                       "--augment resized_crop: %s has images of one size; wanted an image folder",
                       set->name);
    if (gs_shape_tokens(s) > 1 || (s.h == 1 && s.w == 1))
        return gs_fail(GS_E_USAGE, "--augment %s: %s has no images, but samples %s", text, set->name,
                       gs_shape_tuple(s).text);
    if (a->crop < least && a->cutout < least) return GS_OK;
    return gs_fail(GS_E_USAGE, "--augment %s:%d: %s has images %s; wanted less than %d",
                   a->crop >= least ? "crop" : "cutout", a->crop >= least ? a->crop : a->cutout, set->name,
                   gs_shape_tuple(s).text, least);
}

/* ---- pictures ---- */

/* The random changes to one sample. */
typedef struct change {
    int down, right; /* offset of the window relative to the unpadded picture: -P to P */
    bool flip;
    int top, bottom, left, end; /* the cutout: rows top .. bottom - 1, columns left .. end - 1 */
} change;

static int within(int x, int most) {
    return x < 0 ? 0 : x > most ? most : x;
}

static change draw_change(const gs_augment *a, gs_shape s, uint64_t seed, uint64_t epoch, size_t sample) {
    const uint64_t stream = gs_stream_hi(GS_STREAM_AUGMENT, epoch);
    uint32_t word[8];
    gs_philox(seed, stream, 2 * (uint64_t)sample, word);
    gs_philox(seed, stream, 2 * (uint64_t)sample + 1, word + 4);
    const int top = gs_random_below(word[4], s.h) - a->cutout / 2,
              left = gs_random_below(word[5], s.w) - a->cutout / 2;
    return (change){.down = gs_random_below(word[0], 2 * a->crop + 1) - a->crop,
                    .right = gs_random_below(word[1], 2 * a->crop + 1) - a->crop,
                    .flip = a->flip && word[2] >> 31,
                    .top = within(top, s.h),
                    .bottom = within(top + a->cutout, s.h),
                    .left = within(left, s.w),
                    .end = within(left + a->cutout, s.w)};
}

static void reverse(unsigned char *row, int w, size_t each) {
    unsigned char kept[sizeof(float)];
    for (int i = 0, j = w - 1; i < j; i++, j--) {
        memcpy(kept, row + (size_t)i * each, each);
        memcpy(row + (size_t)i * each, row + (size_t)j * each, each);
        memcpy(row + (size_t)j * each, kept, each);
    }
}

/* Compute row i of the output plane. */
static void make_row(const change *c, const unsigned char *plane, int i, int h, int w, size_t each,
                     unsigned char *out) {
    const int from = i + c->down, first = within(-c->right, w), end = within(w - c->right, w);
    memset(out, 0, (size_t)w * each);
    if (from >= 0 && from < h)
        memcpy(out + (size_t)first * each,
               plane + ((size_t)from * (size_t)w + (size_t)(first + c->right)) * each,
               (size_t)(end - first) * each);
    if (c->flip) reverse(out, w, each);
    if (i >= c->top && i < c->bottom)
        memset(out + (size_t)c->left * each, 0, (size_t)(c->end - c->left) * each);
}

void gs_augment_picture(const gs_augment *a, gs_shape s, size_t each, uint64_t seed, uint64_t epoch,
                        size_t sample, const void *from, void *out) {
    const size_t plane = (size_t)s.h * (size_t)s.w * each;
    const change c = draw_change(a, s, seed, epoch, sample);
    for (int k = 0; k < s.c; k++)
        for (int i = 0; i < s.h; i++) {
            const size_t at = (size_t)k * plane;
            make_row(&c, (const unsigned char *)from + at, i, s.h, s.w, each,
                     (unsigned char *)out + at + (size_t)i * (size_t)s.w * each);
        }
}

void gs_augment_sample(const gs_augment *a, const gs_dataset *set, uint64_t seed, uint64_t epoch,
                       size_t sample, void *out) {
    const unsigned char *from = set->inputs ? (const unsigned char *)set->inputs : set->images;
    if (sample >= set->count) gs_bug("gs_augment_sample: sample %zu of %zu", sample, set->count);
    gs_augment_picture(a, set->shape, set->inputs ? sizeof(float) : 1, seed, epoch, sample,
                       from + sample * gs_dataset_input_bytes(set), out);
}
