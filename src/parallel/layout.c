#include "parallel/layout.h"

#include "comm/split.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int least, most;
    size_t at;
} terms[] = {{"dp", 1, GS_LAYOUT_WORKERS, offsetof(gs_layout, dp)},
             {"tp", 1, GS_LAYOUT_PARTS, offsetof(gs_layout, tp)},
             {"pp", 1, GS_LAYOUT_STAGES, offsetof(gs_layout, pp)},
             {"zero", 0, GS_LAYOUT_ZERO, offsetof(gs_layout, zero)}};
enum { TERMS = sizeof terms / sizeof *terms };

/* Returns a term's index in `terms` (-1: unknown), and sets *number to its number (-1: none): "pp4" -> 2 and 4. */
static int term_of(const char *text, size_t length, int *number) {
    for (int t = 0; t < TERMS; t++) {
        const size_t name = strlen(terms[t].name), digits = length - name;
        if (length < name || strncmp(text, terms[t].name, name) != 0) continue;
        *number = -1;
        if (digits >= 1 && digits <= 6 && strspn(text + name, "0123456789") >= digits)
            *number = atoi(text + name);
        return t;
    }
    return -1;
}

static gs_status refuse(const char *text, const char *term, size_t length, const char *why) {
    char shown[48];
    snprintf(shown, sizeof shown, "%.*s", (int)(length < 40 ? length : 40), term);
    return gs_fail(GS_E_USAGE, "--layout %s: %s '%s'; wanted some of dpN, tpN, ppN and zeroN with commas",
                   gs_printable(text), why, gs_printable(shown));
}

gs_status gs_layout_read(const char *text, gs_layout *out) {
    bool seen[TERMS] = {false};
    *out = (gs_layout){1, 1, 1, 0};
    for (const char *term = text;; term++) {
        const size_t length = strcspn(term, ",");
        int number = 0;
        const int t = term_of(term, length, &number);
        if (t < 0) return refuse(text, term, length, "there is no term");
        if (seen[t]) return refuse(text, term, length, "a second");
        if (number < terms[t].least || number > terms[t].most)
            return gs_fail(GS_E_USAGE, "--layout %s: '%.*s' is out of range; wanted %s%d to %s%d",
                           gs_printable(text), (int)(length < 40 ? length : 40), term, terms[t].name,
                           terms[t].least, terms[t].name, terms[t].most);
        seen[t] = true;
        *(int *)((char *)out + terms[t].at) = number;
        term += length;
        if (!*term) return GS_OK;
    }
}

const char *gs_layout_text(const gs_layout *l, char text[GS_LAYOUT_TEXT]) {
    text[0] = 0;
    for (int t = 0; t < TERMS; t++) {
        const int number = *(const int *)((const char *)l + terms[t].at);
        if (number == terms[t].least) continue;
        gs_append(text, GS_LAYOUT_TEXT, "%s%s%d", *text ? "," : "", terms[t].name, number);
    }
    if (!*text) gs_append(text, GS_LAYOUT_TEXT, "dp1");
    return text;
}

/* ---- ranks ---- */

gs_coordinates gs_coordinates_of(const gs_layout *l, int rank) {
    return (gs_coordinates){.tp = rank % l->tp, .dp = rank / l->tp % l->dp, .pp = rank / (l->tp * l->dp)};
}

int gs_rank_at(const gs_layout *l, gs_coordinates at) {
    return (at.pp * l->dp + at.dp) * l->tp + at.tp;
}

/* ---- groups ---- */

gs_status gs_groups_create(gs_comm *world, gs_layout l, gs_groups *g) {
    const gs_coordinates at = gs_coordinates_of(&l, world->rank), first_dp = {0, at.tp, at.pp},
                         first_tp = {at.dp, 0, at.pp}, first_pp = {at.dp, at.tp, 0};
    *g = (gs_groups){.layout = l, .coordinates = at, .comm[GS_WORLD] = world};
    if (l.tp == 1 && l.pp == 1)
        g->comm[GS_DP] = world;
    else
        GS_TRY(gs_comm_split(world, gs_rank_at(&l, first_dp), l.tp, l.dp, &g->comm[GS_DP]));
    GS_TRY(gs_comm_split(world, gs_rank_at(&l, first_tp), 1, l.tp, &g->comm[GS_TP]));
    return gs_comm_split(world, gs_rank_at(&l, first_pp), l.tp * l.dp, l.pp, &g->comm[GS_PP]);
}

void gs_groups_free(gs_groups *g) {
    for (gs_axis a = 0; a < GS_WORLD; a++)
        if (g->comm[a] != g->comm[GS_WORLD]) gs_comm_free(g->comm[a]);
    *g = (gs_groups){0};
}
