/* How the calls of lab 18 travel. */
#include "tasks.h"

#include "remote/remote.h"

enum {
    ROWS_OF,
    COLUMNS_OF,
    FIRST_FORWARD,
    SECOND_FORWARD,
    FIRST_BACKWARD,
    SECOND_BACKWARD,
    WORDS_LOSS,
    WORDS_DX,
    TRAFFIC
};

/* ---- cuts ---- */

typedef struct cut_call {
    size_t rows, columns, blocks;
    int rank, ranks;
    lab_cut cut;
} cut_call;

static void pass_cut(lab_wire *w, void *arguments) {
    cut_call *a = arguments;
    LAB_VALUE(w, a->rows);
    LAB_VALUE(w, a->columns);
    LAB_VALUE(w, a->blocks);
    LAB_VALUE(w, a->rank);
    LAB_VALUE(w, a->ranks);
    LAB_RESULT(w, a->cut);
}

/* ---- layers ---- */

typedef struct layer_call {
    gs_comm *c;
    lab_layer l;
    const float *x, *dy;
    float *y, *dx, *dw, *db;
    gs_status status;
} layer_call;

static void pass_layer(lab_wire *w, layer_call *a) {
    lab_pass_comm(w, &a->c);
    LAB_VALUE(w, a->l.n);
    LAB_VALUE(w, a->l.in);
    LAB_VALUE(w, a->l.out);
    LAB_IN(w, a->l.w, a->l.out * a->l.in);
    LAB_IN(w, a->l.b, a->l.out);
    LAB_IN(w, a->x, a->l.n * a->l.in);
}

static void pass_forward(lab_wire *w, void *arguments) {
    layer_call *a = arguments;
    pass_layer(w, a);
    LAB_INOUT(w, a->y, a->l.n * a->l.out);
    lab_status(w, &a->status);
}

static void pass_backward(lab_wire *w, void *arguments) {
    layer_call *a = arguments;
    pass_layer(w, a);
    LAB_IN(w, a->dy, a->l.n * a->l.out);
    LAB_INOUT(w, a->dx, a->l.n * a->l.in);
    LAB_INOUT(w, a->dw, a->l.out * a->l.in);
    LAB_INOUT(w, a->db, a->l.out);
    lab_status(w, &a->status);
}

/* ---- words ---- */

typedef struct words_call {
    gs_comm *c;
    lab_words w;
    float *p, *loss, *room, *dx;
    gs_status status;
} words_call;

static void pass_words(lab_wire *w, words_call *a) {
    LAB_VALUE(w, a->w.n);
    LAB_VALUE(w, a->w.words);
    LAB_VALUE(w, a->w.first);
    LAB_IN(w, a->w.x, a->w.n * a->w.words);
    LAB_IN(w, a->w.label, a->w.n);
}

static void pass_loss(lab_wire *w, void *arguments) {
    words_call *a = arguments;
    lab_pass_comm(w, &a->c);
    pass_words(w, a);
    LAB_INOUT(w, a->p, a->w.n * a->w.words);
    LAB_INOUT(w, a->loss, a->w.n);
    LAB_INOUT(w, a->room, 2 * a->w.n);
    lab_status(w, &a->status);
}

static void pass_words_dx(lab_wire *w, void *arguments) {
    words_call *a = arguments;
    pass_words(w, a);
    LAB_IN(w, a->p, a->w.n * a->w.words);
    LAB_INOUT(w, a->dx, a->w.n * a->w.words);
}

/* ---- the cost ---- */

typedef struct traffic_call {
    size_t blocks, tokens, width;
    int ranks;
    bool tied;
    lab_sent sent;
} traffic_call;

static void pass_traffic(lab_wire *w, void *arguments) {
    traffic_call *a = arguments;
    LAB_VALUE(w, a->blocks);
    LAB_VALUE(w, a->tokens);
    LAB_VALUE(w, a->width);
    LAB_VALUE(w, a->ranks);
    LAB_VALUE(w, a->tied);
    LAB_RESULT(w, a->sent);
}

#ifdef LAB_HAND_IN

static void call_rows(void *arguments) {
    cut_call *a = arguments;
    a->cut = lab_rows_of(a->rows, a->columns, a->blocks, a->rank, a->ranks);
}

static void call_columns(void *arguments) {
    cut_call *a = arguments;
    a->cut = lab_columns_of(a->rows, a->columns, a->rank, a->ranks);
}

static void call_first_forward(void *arguments) {
    layer_call *a = arguments;
    a->status = lab_first_forward(a->c, &a->l, a->x, a->y);
}

static void call_second_forward(void *arguments) {
    layer_call *a = arguments;
    a->status = lab_second_forward(a->c, &a->l, a->x, a->y);
}

static void call_first_backward(void *arguments) {
    layer_call *a = arguments;
    a->status = lab_first_backward(a->c, &a->l, a->dy, a->x, a->dx, a->dw, a->db);
}

static void call_second_backward(void *arguments) {
    layer_call *a = arguments;
    a->status = lab_second_backward(a->c, &a->l, a->dy, a->x, a->dx, a->dw, a->db);
}

static void call_loss(void *arguments) {
    words_call *a = arguments;
    a->status = lab_words_loss(a->c, &a->w, a->p, a->loss, a->room);
}

static void call_words_dx(void *arguments) {
    words_call *a = arguments;
    lab_words_dx(&a->w, a->p, a->dx);
}

static void call_traffic(void *arguments) {
    traffic_call *a = arguments;
    a->sent = lab_traffic(a->blocks, a->tokens, a->width, a->ranks, a->tied);
}

#else

lab_cut lab_rows_of(size_t rows, size_t columns, size_t blocks, int rank, int ranks) {
    cut_call a = {rows, columns, blocks, rank, ranks, {0}};
    lab_remote(ROWS_OF, &a);
    return a.cut;
}

lab_cut lab_columns_of(size_t rows, size_t columns, int rank, int ranks) {
    cut_call a = {rows, columns, 1, rank, ranks, {0}};
    lab_remote(COLUMNS_OF, &a);
    return a.cut;
}

static gs_status ask(int index, layer_call a) {
    lab_remote(index, &a);
    return a.status;
}

gs_status lab_first_forward(gs_comm *c, const lab_layer *l, const float *x, float *y) {
    return ask(FIRST_FORWARD, (layer_call){.c = c, .l = *l, .x = x, .y = y});
}

gs_status lab_second_forward(gs_comm *c, const lab_layer *l, const float *x, float *y) {
    return ask(SECOND_FORWARD, (layer_call){.c = c, .l = *l, .x = x, .y = y});
}

gs_status lab_first_backward(gs_comm *c, const lab_layer *l, const float *dy, const float *x, float *dx,
                             float *dw, float *db) {
    return ask(FIRST_BACKWARD, (layer_call){.c = c, .l = *l, .x = x, .dy = dy, .dx = dx, .dw = dw, .db = db});
}

gs_status lab_second_backward(gs_comm *c, const lab_layer *l, const float *dy, const float *x, float *dx,
                              float *dw, float *db) {
    return ask(SECOND_BACKWARD,
               (layer_call){.c = c, .l = *l, .x = x, .dy = dy, .dx = dx, .dw = dw, .db = db});
}

gs_status lab_words_loss(gs_comm *c, const lab_words *w, float *p, float *loss, float *room) {
    words_call a = {.c = c, .w = *w, .p = p, .loss = loss, .room = room};
    lab_remote(WORDS_LOSS, &a);
    return a.status;
}

void lab_words_dx(const lab_words *w, const float *p, float *dx) {
    words_call a = {.w = *w, .p = (float *)p, .dx = dx};
    lab_remote(WORDS_DX, &a);
}

lab_sent lab_traffic(size_t blocks, size_t tokens, size_t width, int ranks, bool tied) {
    traffic_call a = {blocks, tokens, width, ranks, tied, {0}};
    lab_remote(TRAFFIC, &a);
    return a.sent;
}
#endif

const lab_function lab_functions[] = {
    {sizeof(cut_call), pass_cut, LAB_THEIRS(call_rows)},
    {sizeof(cut_call), pass_cut, LAB_THEIRS(call_columns)},
    {sizeof(layer_call), pass_forward, LAB_THEIRS(call_first_forward)},
    {sizeof(layer_call), pass_forward, LAB_THEIRS(call_second_forward)},
    {sizeof(layer_call), pass_backward, LAB_THEIRS(call_first_backward)},
    {sizeof(layer_call), pass_backward, LAB_THEIRS(call_second_backward)},
    {sizeof(words_call), pass_loss, LAB_THEIRS(call_loss)},
    {sizeof(words_call), pass_words_dx, LAB_THEIRS(call_words_dx)},
    {sizeof(traffic_call), pass_traffic, LAB_THEIRS(call_traffic)},
    {0},
};
