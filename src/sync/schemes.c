/* Schemes by name. */
#include "sync/sync.h"

#include "core/text.h"

#define SCHEME(name) &gs_sync_##name,
const gs_sync_scheme *const gs_sync_own[] = {GS_SYNC_SCHEMES(SCHEME) NULL};
static const gs_sync_scheme *schemes[] = {GS_SYNC_SCHEMES(SCHEME) NULL}; /* also the replacements */

const gs_sync_scheme *const *gs_sync_schemes(void) {
    return schemes;
}

gs_status gs_sync_replace(const char *name, const gs_sync_scheme *scheme) {
    if (scheme && strcmp(scheme->name, name) != 0)
        return gs_fail(GS_E_USAGE, "the scheme '%s' cannot replace '%s': they need the same name",
                       scheme->name, name);
    const gs_sync_scheme *now;
    GS_TRY(gs_sync_find(name, &now));
    for (int i = 0; gs_sync_own[i]; i++)
        if (schemes[i] == now) schemes[i] = scheme ? scheme : gs_sync_own[i];
    return GS_OK;
}

gs_status gs_sync_find(const char *name, const gs_sync_scheme **out) {
    return gs_sync_find_or(name, (const char *const[]){NULL}, out);
}

gs_status gs_sync_find_or(const char *name, const char *const *others, const gs_sync_scheme **out) {
    /* other programs' names for our schemes */
    static const struct {
        const char *theirs, *ours;
    } aliases[] = {
        {"parameter_server", "ps"},  {"parameter-server", "ps"},    {"server", "ps"},
        {"all-reduce", "allreduce"}, {"all_reduce", "allreduce"},   {"rabenseifner", "halving_doubling"},
        {"local-sgd", "local"},      {"local_sgd", "local"},        {"asynchronous", "async"},
        {"zero", "--zero 1"},        {"sharded-update", "--zero 1"}};
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(name, aliases[i].theirs) == 0)
            return gs_fail(GS_E_USAGE, "unknown --sync '%s'; here it is called %s", name, aliases[i].ours);
    enum { MOST = 32 };
    const char *names[MOST + 1] = {NULL};
    int count = 0;
    for (const gs_sync_scheme *const *s = gs_sync_schemes(); *s; s++) {
        if (strcmp((*s)->name, name) == 0) {
            *out = *s;
            return GS_OK;
        }
        if (count < MOST) names[count++] = (*s)->name;
    }
    while (*others && count < MOST) names[count++] = *others++;
    return gs_no_such("--sync", name, names);
}
