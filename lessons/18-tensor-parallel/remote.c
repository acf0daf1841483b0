/* How the calls of lab 18 travel. */
#include "tasks.h"

#include "remote/remote.h"

enum { ROWS_OF, COLUMNS_OF, FIRST_FORWARD, SECOND_FORWARD, FIRST_BACKWARD, SECOND_BACKWARD };
enum { WORDS_LOSS = SECOND_BACKWARD + 1, WORDS_DX, TRAFFIC };

/* ---- cuts ---- */

typedef struct cut_call {
    size_t rows, columns, blocks;
    int rank, ranks;
    lab_cut cut;
} cut_call;

static void pass_cut(lab_wire *w, void *arguments) {
    cut_call *a = arguments;
    LAB_VALUES(w, a->rows, a->columns, a->blocks, a->rank, a->ranks);
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
    LAB_VALUES(w, a->l.n, a->l.in, a->l.out);
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
    LAB_VALUES(w, a->w.n, a->w.words, a->w.first);
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
    LAB_VALUES(w, a->blocks, a->tokens, a->width, a->ranks, a->tied);
    LAB_RESULT(w, a->sent);
}

#ifdef LAB_HAND_IN

LAB_CALLER(call_rows, cut_call, a->cut = lab_rows_of(a->rows, a->columns, a->blocks, a->rank, a->ranks))
LAB_CALLER(call_columns, cut_call, a->cut = lab_columns_of(a->rows, a->columns, a->rank, a->ranks))
LAB_CALLER(call_first_forward, layer_call, a->status = lab_first_forward(a->c, &a->l, a->x, a->y))
LAB_CALLER(call_second_forward, layer_call, a->status = lab_second_forward(a->c, &a->l, a->x, a->y))
LAB_CALLER(call_first_backward, layer_call,
           a->status = lab_first_backward(a->c, &a->l, a->dy, a->x, a->dx, a->dw, a->db))
LAB_CALLER(call_second_backward, layer_call,
           a->status = lab_second_backward(a->c, &a->l, a->dy, a->x, a->dx, a->dw, a->db))
LAB_CALLER(call_loss, words_call, a->status = lab_words_loss(a->c, &a->w, a->p, a->loss, a->room))
LAB_CALLER(call_words_dx, words_call, lab_words_dx(&a->w, a->p, a->dx))
LAB_CALLER(call_traffic, traffic_call,
           a->sent = lab_traffic(a->blocks, a->tokens, a->width, a->ranks, a->tied))

#else

lab_cut lab_rows_of(size_t rows, size_t columns, size_t blocks, int rank, int ranks) {
    LAB_ASK(ROWS_OF, cut_call, cut, rows, columns, blocks, rank, ranks, {0});
}

lab_cut lab_columns_of(size_t rows, size_t columns, int rank, int ranks) {
    LAB_ASK(COLUMNS_OF, cut_call, cut, rows, columns, 1, rank, ranks, {0});
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
    LAB_ASK(WORDS_LOSS, words_call, status, .c = c, .w = *w, .p = p, .loss = loss, .room = room);
}

void lab_words_dx(const lab_words *w, const float *p, float *dx) {
    words_call a = {.w = *w, .p = (float *)p, .dx = dx};
    lab_remote(WORDS_DX, &a);
}

lab_sent lab_traffic(size_t blocks, size_t tokens, size_t width, int ranks, bool tied) {
    LAB_ASK(TRAFFIC, traffic_call, sent, blocks, tokens, width, ranks, tied, {0});
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
