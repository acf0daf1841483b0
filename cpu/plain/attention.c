#include "core/functions.h"
#include "cpu/plain/plain.h"

/* The order of the sums: keys come in blocks of BLOCK, and so do, for a key's gradients, queries. If causal, a query's
 * last block ends with its BAND of keys, and a key's first block starts with its BAND of queries; there the weight of a
 * key after its query is 0. Scores, and the sums over a block, are products (gs_plain_product). */
enum { BLOCK = 64, BAND = 16 };

/* A head of a sample: the first token's q, k, v, y and dy; softmax's m and l. */
typedef struct head {
    int d, length, causal;
    size_t in, out; /* from one token to the next in x and in y */
    float *q, *k, *v, *y, *dy, *m, *l;
} head;

static head head_of(const gs_attention_sizes *s, size_t task, gs_mem x, gs_mem y, gs_mem dy, gs_mem softmax) {
    const int d = s->width / s->heads;
    const size_t width = (size_t)s->width, length = (size_t)s->length, sample = task / (size_t)s->heads,
                 column = task % (size_t)s->heads * (size_t)d;
    head h = {.d = d, .length = s->length, .causal = s->causal, .in = 3 * width, .out = width};
    h.q = (float *)gs_plain_at(x) + sample * length * h.in + column;
    h.k = h.q + width;
    h.v = h.k + width;
    h.y = (float *)gs_plain_at(y) + sample * length * width + column;
    h.dy = dy.base ? (float *)gs_plain_at(dy) + sample * length * width + column : NULL;
    h.m = (float *)gs_plain_at(softmax) + task * 2 * length;
    h.l = h.m + length;
    return h;
}

static int least(int a, int b) {
    return a < b ? a : b;
}

/* How many keys query i reads. */
static int keys_of(const head *h, int i) {
    return h->causal ? least(h->length, (i / BAND + 1) * BAND) : h->length;
}

/* s_ij = (q_i / sqrt(d)) k_j */
static float score(const head *h, int i, int j) {
    float q[h->d];
    for (int k = 0; k < h->d; k++) q[k] = h->q[(size_t)i * h->in + (size_t)k] * (1 / sqrtf((float)h->d));
    return h->causal && j > i ? -INFINITY : gs_plain_product(q, 1, h->k + (size_t)j * h->in, 1, (size_t)h->d);
}

/* to[k] (+)= sum of p[j] rows[j][k] over `count` rows */
static void sum_rows(float *to, bool add, const float *p, const float *rows, size_t row, int count, int d) {
    for (int k = 0; k < d; k++) {
        const float sum = gs_plain_product(p, 1, rows + k, row, (size_t)count);
        to[k] = add ? to[k] + sum : sum;
    }
}

/* y_i = sum_j p_ij v_j, p_i = softmax of i's scores, with j <= i if causal. m is the largest score so far, and l the
 * sum of exp(s_ij - m) so far: where a block has a larger score, l and y shrink. */
gs_status gs_plain_attention_forward(gs_device *device, gs_mem y_, gs_mem softmax, gs_mem x, size_t n,
                                     const gs_attention_sizes *s) {
    (void)device;
    for (size_t task = 0; task < n * (size_t)s->heads; task++)
        for (int i = 0; i < s->length; i++) {
            const head h = head_of(s, task, x, y_, GS_NONE, softmax);
            float *y = h.y + (size_t)i * h.out, p[BLOCK], m = -INFINITY, l = 0;
            for (int first = 0; first < keys_of(&h, i); first += BLOCK) {
                const int keys = least(BLOCK, keys_of(&h, i) - first);
                float top = m;
                for (int j = 0; j < keys; j++) {
                    p[j] = score(&h, i, first + j);
                    top = p[j] > top ? p[j] : top;
                }
                const float shrink = gs_exp(m - top);
                m = top;
                l *= shrink;
                for (int j = 0; j < keys; j++) l += p[j] = gs_exp(p[j] - m);
                for (int k = 0; k < h.d && first > 0; k++) y[k] *= shrink;
                sum_rows(y, first > 0, p, h.v + (size_t)first * h.in, h.in, keys, h.d);
            }
            for (int k = 0; k < h.d; k++) y[k] *= 1 / l;
            h.m[i] = m;
            h.l[i] = l;
        }
    return GS_OK;
}

/* forward: y_i = sum_j p_ij v_j, so dv_j = sum_i p_ij dy_i and dp_ij = dy_i v_j; p_i is a softmax, so the gradient of
 * the score is p_ij (dp_ij - sum_j p_ij dp_ij) = p_ij (dp_ij - dy_i y_i); the score is q_i k_j / sqrt(d), so dq_i sums
 * ds_ij k_j, and dk_j sums ds_ij q_i, where ds_ij is this gradient times 1 / sqrt(d). */
static void gradient(const head *h, int i, int j, float *p, float *ds) {
    const size_t d = (size_t)h->d;
    const float *dy = h->dy + (size_t)i * h->out;
    *p = gs_exp(score(h, i, j) - h->m[i]) * (1 / h->l[i]);
    *ds = *p *
          (gs_plain_product(dy, 1, h->v + (size_t)j * h->in, 1, d) -
           gs_plain_product(dy, 1, h->y + (size_t)i * h->out, 1, d)) *
          (1 / sqrtf((float)d));
}

gs_status gs_plain_attention_backward(gs_device *device, gs_mem dx, gs_mem dy, gs_mem x, gs_mem y,
                                      gs_mem softmax, size_t n, const gs_attention_sizes *s) {
    (void)device;
    for (size_t task = 0; task < n * (size_t)s->heads; task++)
        for (int i = 0; i < s->length; i++) { /* token i's dq, then its dk and dv */
            const head h = head_of(s, task, x, y, dy, softmax), to = head_of(s, task, dx, y, dy, softmax);
            const size_t at = (size_t)i * h.in;
            float p[BLOCK], ds[BLOCK];
            for (int first = 0; first < keys_of(&h, i); first += BLOCK) {
                const int keys = least(BLOCK, keys_of(&h, i) - first);
                for (int j = 0; j < keys; j++) gradient(&h, i, first + j, p + j, ds + j);
                sum_rows(to.q + at, first > 0, ds, h.k + (size_t)first * h.in, h.in, keys, h.d);
            }
            const int start = h.causal ? i / BAND * BAND : 0;
            for (int first = start, end; first < h.length; first = end) {
                end = least(h.length, (first / BLOCK + 1) * BLOCK);
                for (int j = first; j < end; j++) gradient(&h, j, i, p + (j - first), ds + (j - first));
                sum_rows(to.v + at, first > start, p, h.dy + (size_t)first * h.out, h.out, end - first, h.d);
                sum_rows(to.k + at, first > start, ds, h.q + (size_t)first * h.in, h.in, end - first, h.d);
            }
        }
    return GS_OK;
}
