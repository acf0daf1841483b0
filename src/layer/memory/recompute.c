#include "layer/memory/recompute.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include "layer/memory/buffer_plan.h"
#include "layer/make.h"

/* ---- as text ---- */

bool gs_recompute_read(const char *text, int *out) {
    const size_t length = strlen(text);
    *out = GS_RECOMPUTE_NONE;
    if (strcmp(text, "none") == 0) return true;
    *out = GS_RECOMPUTE_ALL;
    if (strcmp(text, "all") == 0) return true;
    *out = GS_RECOMPUTE_BLOCKS;
    if (strcmp(text, "blocks") == 0) return true;
    if (length < 1 || length > 7 || strspn(text, "0123456789") != length) return false;
    *out = atoi(text);
    return *out >= 1 && *out <= GS_RECOMPUTE_MOST;
}

const char *gs_recompute_text(int which, char *text, size_t size) {
    if (which == GS_RECOMPUTE_NONE) return "none";
    if (which == GS_RECOMPUTE_ALL) return "all";
    if (which == GS_RECOMPUTE_BLOCKS) return "blocks";
    snprintf(text, size, "%d", which);
    return text;
}

/* ---- kinds of layers ---- */

/* Is its y the y of the layer before it, or written over that y? */
static bool has_no_y(const gs_layer *l) {
    return l->children == 0 && (l->ops->buffers == GS_VIEW || l->y_over_x);
}

/* ---- which layers backward runs again ---- */

static gs_status mark_one(gs_layer *l, void *context) {
    (void)context;
    l->memory.rerun = GS_RERUN_WHOLE;
    return GS_OK;
}

static void mark_whole(gs_layer *l) {
    (void)gs_layer_walk(l, mark_one, NULL);
}

static int tail_of(gs_layer *const *child, int first, int end, bool there);

/* True if everything that backward needs inside l can be computed without l's y. there: l's y is kept. */
static bool leaves_y(const gs_layer *l, bool there) {
    if (l->children == 0) return there || !gs_layer_reads_y(l);
    if (gs_layer_is_sequence(l)) return tail_of(l->child, 0, l->children, there) < l->children;
    if (gs_layer_is_residual(l)) return !l->y_over_x || leaves_y(l->child[0], false);
    return false;
}

/* Find those children at the end of first .. end - 1 that need not compute their y, because it is not read or is kept:
 * the last and, if that has no y of its own, the one before it. Returns the first of these, or `end`. */
static int tail_of(gs_layer *const *child, int first, int end, bool there) {
    for (int i = end; i > first;) {
        const gs_layer *l = child[--i];
        if (!gs_layer_is_called(l)) continue;
        if (!leaves_y(l, there)) return end;
        if (!has_no_y(l)) return i;
        there = there && l->ops->buffers == GS_VIEW; /* otherwise this y is overwritten, so it is not read */
    }
    return first;
}

static void mark_inside(gs_layer *l, bool there);

static void mark_children(gs_layer *const *child, int first, int end, bool there) {
    const int tail = tail_of(child, first, end, there);
    for (int i = first; i < tail; i++) mark_whole(child[i]);
    for (int i = tail; i < end; i++)
        if (gs_layer_is_called(child[i])) mark_inside(child[i], there);
}

/* Mark the layers inside l whose y backward reads, except for l's own y. In an unknown container, mark all. */
static void mark_inside(gs_layer *l, bool there) {
    if (l->children == 0 && (there || !gs_layer_reads_y(l))) return;
    if (!gs_layer_is_sequence(l) && !gs_layer_is_residual(l)) {
        mark_whole(l);
        return;
    }
    l->memory.rerun = GS_RERUN_INSIDE;
    if (gs_layer_is_sequence(l)) mark_children(l->child, 0, l->children, there);
    for (int i = 0; gs_layer_is_residual(l) && i < l->children; i++) mark_inside(l->child[i], false);
}

/* ---- which layers are segments ---- */

/* A layer is in the same segment as the one before it if it works in place, or if some device may fuse the two. */
static bool may_begin(const gs_layer *l) {
    return !l->other_stage && l->ops->buffers != GS_ELEMENT_WISE && !l->ops->fuse_into;
}

/* Children with the same number above 0 should form one segment. */
static int wanted(const gs_layer *root, int i) {
    const gs_layer *l = root->child[i];
    if (root->recompute > 0) return 1 + i / root->recompute;
    if (l->block > 0) return l->block;
    return gs_layer_is_residual(l) ? INT_MAX - i : 0;
}

/* The end of a segment that starts with child `first`. */
static int end_of_segment(const gs_layer *root, int first) {
    int i = first + 1;
    while (i < root->children && !root->child[i]->other_stage &&
           (wanted(root, i) == wanted(root, first) || !may_begin(root->child[i])))
        i++;
    return i;
}

typedef struct dropping {
    gs_lifetimes *lifetimes;
    int end;      /* the segment's end, in steps of forward */
    bool *kept;   /* kept[i]: buffer i is not dropped */
    size_t count; /* buffers kept; later, buffers dropped */
} dropping;

/* Keep the y of the last of these children, whichever layer's buffer holds it, and the y before an element-wise layer,
 * which may pass its x on, as dropout does in evaluation. True: no earlier layer need keep its y. */
static bool keep_y(gs_layer *const *child, int first, int end, dropping *d) {
    for (int i = end - 1; i >= first; i--) {
        const gs_layer *l = child[i];
        if (!gs_layer_is_called(l) || has_no_y(l)) continue;
        if (gs_layer_is_residual(l) && l->y_over_x) return keep_y(l->child, 0, 1, d);
        if (l->children > 0 && l->ops->buffers == GS_VIEW) {
            if (!gs_layer_is_sequence(l)) { /* where its y is stored is unknown */
                d->count = 0;
                return true;
            }
            if (keep_y(l->child, 0, l->children, d)) return true;
            continue;
        }
        if (l->memory.y_buffer >= 0) d->kept[l->memory.y_buffer] = true;
        d->count++;
        if (l->ops->buffers != GS_ELEMENT_WISE) return true;
    }
    return false;
}

/* Drop a y until gs_buffer_plan_rerun says when it is computed again. */
static gs_status drop_y(gs_layer *l, void *context) {
    dropping *d = context;
    if (l->memory.y_buffer < 0 || d->kept[l->memory.y_buffer]) return GS_OK;
    gs_lifetime *life = &d->lifetimes->life[l->memory.y_buffer];
    life->pause = d->end;
    life->resume = INT_MAX;
    d->count++;
    return GS_OK;
}

/* Forward's steps come before step 0, in the order of the layers' numbers; a layer's y may be born earlier than needed.
 * The children of an unknown container may run in any order, so their y are all born when it starts. */
static void move_births(gs_layer *l, gs_lifetimes *lifetimes, int born) {
    const bool known = l->children == 0 || gs_layer_is_sequence(l) || gs_layer_is_residual(l);
    gs_lifetime *y = l->memory.y_buffer >= 0 ? &lifetimes->life[l->memory.y_buffer] : NULL;
    if (y) y->born = born;
    if (y && !gs_lifetime_has_gap(y)) y->pause = y->resume = born;
    for (int i = 0; i < l->children; i++)
        move_births(l->child[i], lifetimes, known ? born + l->child[i]->number - l->number : born);
}

void gs_lifetimes_from_forward(gs_layer *root, gs_lifetimes *lifetimes) {
    move_births(root, lifetimes, -(int)gs_layer_count(root));
}

static void make_segment(gs_layer *root, gs_lifetimes *lifetimes, bool *kept, int first, int end) {
    const int all = (int)gs_layer_count(root);
    const int next = end < root->children ? root->child[end]->number : all;
    dropping d = {lifetimes, next - 1 - all, kept, 0};
    if (end == root->children || root->child[end]->other_stage) return;
    (void)keep_y(root->child, first, end, &d);
    if (d.count == 0) return; /* the segment's y is its input, or unknown */
    d.count = 0;
    for (int i = first; i < end; i++) (void)gs_layer_walk(root->child[i], drop_y, &d);
    if (d.count == 0) return;
    for (int i = first; i < end; i++) root->child[i]->memory.segment = first + 1;
    mark_children(root->child, first, end, true);
}

gs_status gs_recompute_plan(gs_layer *root, gs_lifetimes *lifetimes) {
    if (!root->recompute || !gs_layer_is_sequence(root)) return GS_OK;
    bool *kept;
    GS_TRY(GS_NEW(kept, lifetimes->count, "a list of %zu buffers", lifetimes->count));
    gs_lifetimes_from_forward(root, lifetimes);
    for (int i = 0, end; i < root->children; i = end) {
        end = i + 1;
        if (!may_begin(root->child[i]) || !wanted(root, i)) continue;
        end = end_of_segment(root, i);
        make_segment(root, lifetimes, kept, i, end);
    }
    free(kept);
    return GS_OK;
}

/* ---- the cost ---- */

static gs_status add_flops(gs_layer *l, void *sum) {
    *(double *)sum += l->memory.rerun == GS_RERUN_WHOLE ? l->flops : 0;
    return GS_OK;
}

double gs_recompute_flops(gs_layer *root) {
    double sum = 0;
    (void)gs_layer_walk(root, add_flops, &sum);
    return sum;
}

int gs_recompute_segments(const gs_layer *root) {
    int count = 0;
    for (int i = 0; i < root->children; i++) count += root->child[i]->memory.segment == i + 1;
    return count;
}
