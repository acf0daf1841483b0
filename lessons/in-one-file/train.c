/* Data-parallel training in one file: plain C11 and threads. Read it from top to bottom, in about an hour. Short of
 * time? Read sections 9, 5, 7 and 8. One training step of three workers, with the sections of this file:
 *
 *     1 data     5 shards             a batch of 128:  | worker 0 | worker 1 | worker 2 |
 *     2 layers   4 model              forward, loss    |    43    |    43    |    42    |  samples
 *     6 local gradient                backward              dw0        dw1        dw2
 *                                                             \         |         /
 *     7 sum (ring or server)                              dw = dw0 + dw1 + dw2, on all workers
 *                                                             /         |         \
 *     8 update                        w -= rate dw / 128      w         w         w      stay equal
 *     9 training   steps and epochs; each worker is a thread          3 random numbers   equal on all workers
 *
 * Train LeNet with three workers that sum their gradients around a ring, in gradsum's top folder:
 *     make in-one-file && build/in-one-file build/fashion-mnist-small lenet 3 ring
 * or without make:
 *     cp -r datasets/fashion-mnist-small images && gunzip -r images
 *     cc -std=c11 -O3 -o train lessons/in-one-file/train.c -lm -lpthread && ./train images lenet 3 ring
 *
 * The rest of gradsum computes the same weights (tests/train/test_in_one_file.c compares them), faster and on more
 * devices, with the same names: x is a layer's input, y its output, w its weights, b its bias. dx, dy, dw and db are
 * gradients: dw[i] is the derivative of the loss with respect to w[i]. */
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 128, EPOCHS = 3, SEED = 1 }; /* BATCH: the samples of one step, over all workers */
enum { LOSS, CORRECT, SAMPLES, COUNTS };    /* counted for each step */
static float learning_rate = 0.05f, momentum = 0.9f;

static void fail(const char *what, const char *problem) {
    fprintf(stderr, "in-one-file: %s: %s\n", what, problem);
    exit(1);
}

/* Memory for `count` elements, all 0. Memory needed until exit is never freed. */
static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (!memory) fail("memory", "there is not enough");
    return memory;
}

/* ---- 1 data ---- */
enum { PIXELS = 28 * 28, CLASSES = 10 };
static struct dataset {
    size_t count;
    uint8_t *images, *labels; /* count x PIXELS; count classes, 0 to 9 */
} train_set, test_set;
static float scale, shift; /* see find_scaling */

/* An IDX file holds 0, 0, 8 (meaning bytes), the number of sizes, the sizes as big-endian int32, and the bytes. Images
 * have three sizes (count, 28, 28), labels have one (count), so their headers have 16 and 8 bytes. */
static uint8_t *read_idx(const char *folder, const char *name, size_t head_size, size_t each, size_t *count) {
    char path[4096];
    uint8_t head[16];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file || fread(head, 1, head_size, file) != head_size || head[2] != 8 || head[3] != head_size / 4 - 1)
        fail(path, "cannot be opened, or is no IDX file of this kind; is it still compressed?");
    *count = (size_t)head[4] << 24 | (size_t)head[5] << 16 | (size_t)head[6] << 8 | head[7];
    uint8_t *data = allocate(*count, each);
    if (*count == 0 || fread(data, each, *count, file) != *count || getc(file) != EOF)
        fail(path, "does not hold 28 x 28 images, or labels, as many as it says");
    fclose(file);
    return data;
}

static struct dataset load(const char *folder, const char *images, const char *labels) {
    struct dataset d;
    size_t n;
    d.images = read_idx(folder, images, 16, PIXELS, &d.count);
    d.labels = read_idx(folder, labels, 8, 1, &n);
    for (size_t i = 0; i < n; i++)
        if (n != d.count || d.labels[i] >= CLASSES) fail(labels, "is not one label, 0 to 9, for each image");
    return d;
}

/* A model's input is (byte / 255 - mean) / std = scale byte + shift. mean and std are those of all training pixels, so
 * inputs have mean 0 and variance 1, and one learning rate suits all layers. Floats round where gradsum's do. */
static void find_scaling(const uint8_t *byte, size_t count) {
    double sum = 0, squares = 0, n = (double)count;
    for (size_t i = 0; i < count; i++) sum += byte[i], squares += byte[i] * byte[i];
    double mean = sum / n, std = sqrt(squares / n - mean * mean);
    scale = 1 / (255 * (float)(std / 255));
    shift = -(float)(mean / 255) / (float)(std / 255);
}

/* ---- 2 layers ----
 * A layer is two functions of one sample. Forward computes y from x. Backward computes dx from dy by the chain rule,
 * and adds to dw and db. dx is the dy of the layer before it; the first layer gets dx = NULL. Sizes are the first
 * arguments, so that each array shows its shape: float w[out][in]. */

/* linear:   y[o] = b[o] + sum over k of w[o][k] x[k] */
static void linear_forward(int in, int out, float y[out], float x[in], float w[out][in], float b[out]) {
    for (int o = 0; o < out; o++) {
        float sum = b[o];
        for (int k = 0; k < in; k++) sum += w[o][k] * x[k];
        y[o] = sum;
    }
}

/* w[o][k] and x[k] are multiplied, so each is the derivative with respect to the other:
 * dx[k] = sum over o of dy[o] w[o][k],   dw[o][k] += dy[o] x[k],   db[o] += dy[o] */
static void linear_backward(int in, int out, float dx[in], float dw[out][in], float db[out], float dy[out],
                            float x[in], float w[out][in]) {
    for (int k = 0; k < in && dx; k++) dx[k] = 0;
    for (int o = 0; o < out; o++) {
        float d = dy[o];
        db[o] += d;
        for (int k = 0; k < in; k++) dw[o][k] += d * x[k];
        for (int k = 0; k < in && dx; k++) dx[k] += d * w[o][k];
    }
}

/* The sizes of a convolution: channels, rows and columns of its input (C, H, W) and of its output (O, R, S), its kernel
 * (K x K), and the rows and columns of zeros around the image (P). */
typedef struct window {
    int C, H, W, O, R, S, K, P;
} window;

/* conv2d:   y[o][r][s] = b[o] + sum over c, u, v of w[o][c][u][v] x[c][r + u - P][s + v - P]
 * A linear layer for each window of K x K pixels, with the same weights for all windows. */
static void conv2d_forward(window z, float y[z.O][z.R][z.S], float x[z.C][z.H][z.W],
                           float w[z.O][z.C][z.K][z.K], float b[z.O]) {
    for (int o = 0; o < z.O; o++)
        for (int r = 0; r < z.R; r++)
            for (int s = 0; s < z.S; s++) {
                float sum = b[o];
                for (int c = 0; c < z.C; c++)
                    for (int u = 0; u < z.K; u++)
                        for (int v = 0; v < z.K; v++) {
                            int h = r + u - z.P, q = s + v - z.P;
                            if (h >= 0 && h < z.H && q >= 0 && q < z.W) sum += w[o][c][u][v] * x[c][h][q];
                        }
                y[o][r][s] = sum;
            }
}

/* The same loops. Where forward adds w times x to y, backward adds dy times w to dx, and dy times x to dw. */
static void conv2d_backward(window z, float dx[z.C][z.H][z.W], float dw[z.O][z.C][z.K][z.K], float db[z.O],
                            float dy[z.O][z.R][z.S], float x[z.C][z.H][z.W], float w[z.O][z.C][z.K][z.K]) {
    if (dx) memset(dx, 0, (size_t)z.C * sizeof *dx);
    for (int o = 0; o < z.O; o++)
        for (int r = 0; r < z.R; r++)
            for (int s = 0; s < z.S; s++) {
                float d = dy[o][r][s];
                db[o] += d;
                for (int c = 0; c < z.C && d != 0; c++) /* before a max_pool most are 0 */
                    for (int u = 0; u < z.K; u++)
                        for (int v = 0; v < z.K; v++) {
                            int h = r + u - z.P, q = s + v - z.P;
                            if (h < 0 || h >= z.H || q < 0 || q >= z.W) continue;
                            dw[o][c][u][v] += d * x[c][h][q];
                            if (dx) dx[c][h][q] += d * w[o][c][u][v];
                        }
            }
}

/* relu:   y = max(x, 0) */
static void relu_forward(int count, float y[count], float x[count]) {
    for (int i = 0; i < count; i++) y[i] = x[i] > 0 ? x[i] : 0;
}

/* dx = dy where y > 0, because there y = x; elsewhere dx = 0, because there y is constant. */
static void relu_backward(int count, float dx[count], float dy[count], float y[count]) {
    for (int i = 0; i < count; i++) dx[i] = y[i] > 0 ? dy[i] : 0;
}

/* max_pool:   y[c][r][s] = the largest of the four x[c][2r + u][2s + v], u and v 0 or 1 */
static void max_pool_forward(window z, float y[z.C][z.R][z.S], float x[z.C][z.H][z.W]) {
    for (int c = 0; c < z.C; c++)
        for (int r = 0; r < z.R; r++)
            for (int s = 0; s < z.S; s++) {
                float *above = &x[c][2 * r][2 * s], *below = &x[c][2 * r + 1][2 * s];
                y[c][r][s] = fmaxf(fmaxf(above[0], above[1]), fmaxf(below[0], below[1]));
            }
}

/* dx = dy for the largest x of a window (the first of equals); 0 for the others, on which y does not depend. */
static void max_pool_backward(window z, float dx[z.C][z.H][z.W], float dy[z.C][z.R][z.S],
                              float y[z.C][z.R][z.S], float x[z.C][z.H][z.W]) {
    memset(dx, 0, (size_t)z.C * sizeof *dx);
    for (int c = 0; c < z.C; c++)
        for (int r = 0; r < z.R; r++)
            for (int s = 0; s < z.S; s++) {
                int k = 0; /* reads the window row by row */
                while (x[c][2 * r + k / 2][2 * s + k % 2] != y[c][r][s] && k < 3) k++;
                dx[c][2 * r + k / 2][2 * s + k % 2] = dy[c][r][s];
            }
}

/* softmax cross-entropy:   p[k] = exp(x[k]) / sum over j of exp(x[j]),   loss = -log p[label]
 * p is a probability for each class. Backward is simple:   dx[k] = p[k] - (k == label)
 * The largest x is subtracted first: p does not change, and exp cannot overflow. */
static void softmax_cross_entropy(float dx[CLASSES], float x[CLASSES], int label, float counts[COUNTS]) {
    int largest = 0;
    float sum = 0;
    for (int k = 1; k < CLASSES; k++) largest = x[k] > x[largest] ? k : largest;
    for (int k = 0; k < CLASSES; k++) sum += dx[k] = expf(x[k] - x[largest]);
    for (int k = 0; k < CLASSES; k++) dx[k] = dx[k] / sum - (k == label);
    counts[LOSS] += logf(sum) - (x[label] - x[largest]);
    counts[CORRECT] += largest == label;
    counts[SAMPLES] += 1;
}

/* ---- 3 random numbers ----
 * Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011). A number depends on
 * the seed and its purpose only, so all workers draw the same initial weights and the same order of the samples. */
enum { STREAM_WEIGHTS = 1, STREAM_ORDER = 2 };

/* 32 random bits: number `at` for parameter `which` (STREAM_WEIGHTS) or epoch `which` (STREAM_ORDER). */
static uint32_t random_bits(uint32_t stream, uint32_t which, int at) {
    uint32_t c[4] = {(uint32_t)at / 4, 0, which, stream << 24}, key[2] = {SEED, 0};
    for (int round = 0; round < 10; round++) {
        uint64_t p = (uint64_t)0xD2511F53 * c[0], q = (uint64_t)0xCD9E8D57 * c[2];
        c[0] = (uint32_t)(q >> 32) ^ c[1] ^ key[0], c[1] = (uint32_t)q;
        c[2] = (uint32_t)(p >> 32) ^ c[3] ^ key[1], c[3] = (uint32_t)p;
        key[0] += 0x9E3779B9, key[1] += 0xBB67AE85;
    }
    return c[at % 4];
}

/* ---- 4 model ----
 *     weights     | w of layer 1 | b of layer 1 | w of layer 3 | ... |
 *     gradients   | dw           | db           | dw           | ... | loss, correct, samples |
 * The sum over the workers (7) and the update (8) are therefore one loop each, and know nothing of layers. The counts
 * stand at the end of the gradients, so the same sum includes them. */
enum { END, IMAGE, LINEAR, CONV2D, RELU, MAX_POOL, MOST_PARAMS = 600000, MOST_WORKERS = 16 };

/* A layer's number of outputs, for LINEAR; O, K and P for CONV2D. On the right: the shape of its y. */
static const int mlp[][4] = {{IMAGE},           /* 1 x 28 x 28 */
                             {LINEAR, 512},     /* 512 */
                             {RELU},            /* 512 */
                             {LINEAR, 256},     /* 256 */
                             {RELU},            /* 256 */
                             {LINEAR, CLASSES}, /* 10 */
                             {END}};

/* LeNet-5 (LeCun and others, 1998), with relu for its sigmoids and max_pool for its means */
static const int lenet[][4] = {{IMAGE},            /* 1 x 28 x 28 */
                               {CONV2D, 6, 5, 2},  /* 6 x 28 x 28 */
                               {RELU},             /* 6 x 28 x 28 */
                               {MAX_POOL},         /* 6 x 14 x 14 */
                               {CONV2D, 16, 5, 0}, /* 16 x 10 x 10 */
                               {RELU},             /* 16 x 10 x 10 */
                               {MAX_POOL},         /* 16 x 5 x 5 */
                               {LINEAR, 120},      /* 120 */
                               {RELU},             /* 120 */
                               {LINEAR, 84},       /* 84 */
                               {RELU},             /* 84 */
                               {LINEAR, CLASSES},  /* 10 */
                               {END}};

typedef struct layer {
    int kind;
    window z;     /* LINEAR: C inputs and O outputs; all other sizes are 1 */
    size_t w, b;  /* where its parameters begin in the flat arrays */
    void *y, *dy; /* x and dx are the y and dy of the layer before it */
} layer;

typedef struct worker {
    int rank;                /* 0, 1, ... */
    layer layers[16], *last; /* layers[0] is the IMAGE, which computes nothing */
    size_t params;           /* all weights and biases */
    uint32_t arrays;         /* the number of w and b arrays */
    float weights[MOST_PARAMS], gradients[MOST_PARAMS], velocity[MOST_PARAMS];
} worker;

static int size_of_y(const layer *l) {
    return l->z.O * l->z.R * l->z.S;
}

/* Append a w or b to the flat arrays; returns its place. Each y sums fan_in values of x. They begin random in
 * [-k, k), k = 1 / sqrt(fan_in), so y is about as large as x. */
static size_t append(worker *me, int count, int fan_in) {
    float k = 1 / sqrtf((float)fan_in);
    size_t place = me->params;
    for (int i = 0; i < count; i++) {
        float uniform = (float)(random_bits(STREAM_WEIGHTS, me->arrays, i) >> 8) / (1 << 24); /* in [0, 1) */
        me->weights[me->params++] = k * (2 * uniform - 1);
    }
    me->arrays++;
    return place;
}

/* Each layer's sizes follow from those of the layer before it. */
static void create_model(worker *me, const int spec[][4]) {
    window in = {.O = 1, .R = 28, .S = 28}; /* the output of the layer before */
    for (layer *l = me->layers; (*spec)[0] != END; me->last = l++, spec++) {
        int C = in.O, H = in.R, W = in.S, O = (*spec)[1], K = (*spec)[2], P = (*spec)[3];
        l->kind = (*spec)[0];
        l->z = (window){C, H, W, C, H, W, 1, 0};
        if (l->kind == MAX_POOL) l->z = (window){C, H, W, C, H / 2, W / 2, 2, 0};
        if (l->kind == CONV2D) l->z = (window){C, H, W, O, H + 2 * P - K + 1, W + 2 * P - K + 1, K, P};
        if (l->kind == LINEAR) l->z = (window){C * H * W, 1, 1, O, 1, 1, 1, 0};
        int fan_in = l->z.C * l->z.K * l->z.K, learns = l->kind == LINEAR || l->kind == CONV2D;
        if (learns) l->w = append(me, O * fan_in, fan_in), l->b = append(me, O, fan_in);
        l->y = allocate((size_t)size_of_y(l), sizeof(float));
        l->dy = l->kind == IMAGE ? NULL : allocate((size_t)size_of_y(l), sizeof(float));
        in = l->z;
    }
}

/* From the image, the y of layer 0, to the y of the last layer: a number for each class. */
static void forward(worker *me) {
    for (layer *l = me->layers + 1; l <= me->last; l++) {
        void *x = l[-1].y, *w = me->weights + l->w, *b = me->weights + l->b;
        if (l->kind == LINEAR) linear_forward(l->z.C, l->z.O, l->y, x, w, b);
        if (l->kind == CONV2D) conv2d_forward(l->z, l->y, x, w, b);
        if (l->kind == RELU) relu_forward(size_of_y(l), l->y, x);
        if (l->kind == MAX_POOL) max_pool_forward(l->z, l->y, x);
    }
}

/* From the dy of the last layer back to the first layer; adds to the gradients. */
static void backward(worker *me) {
    for (layer *l = me->last; l > me->layers; l--) {
        void *x = l[-1].y, *dx = l[-1].dy, *w = me->weights + l->w;
        void *dw = me->gradients + l->w, *db = me->gradients + l->b;
        if (l->kind == LINEAR) linear_backward(l->z.C, l->z.O, dx, dw, db, l->dy, x, w);
        if (l->kind == CONV2D) conv2d_backward(l->z, dx, dw, db, l->dy, x, w);
        if (l->kind == RELU) relu_backward(size_of_y(l), dx, l->dy, l->y);
        if (l->kind == MAX_POOL) max_pool_backward(l->z, dx, l->dy, l->y, x);
    }
}

/* ---- 5 shards ----
 * An epoch uses every sample once, in its own order. Each step takes the next BATCH samples, the global batch; each
 * worker takes a contiguous part of them. So the global batches do not depend on the number of workers.
 *     order of an epoch:  | 17 4 88 23 9 61 | 5 70 31 2 44 8 | 12 99 |      if BATCH is 6; the last batch is shorter
 *     2 workers:          |  w0   |   w1    |  w0   |  w1    | w0 |w1| */
typedef struct range {
    size_t first, count;
} range;

/* Part number `part` of `parts` parts of `total` elements. The first total % parts of them are longer by one. */
static range part_of(size_t total, int part, int parts) {
    size_t p = (size_t)part, least = total / (size_t)parts, longer = total % (size_t)parts;
    return (range){p * least + (p < longer ? p : longer), least + (p < longer)};
}

/* Fisher and Yates: from the last element down, swap each with itself or with one before it. */
static void shuffle(uint32_t *order, int count, uint32_t epoch) {
    for (int i = 0; i < count; i++) order[i] = (uint32_t)i;
    for (int i = count - 1; i > 0; i--) {
        uint64_t j = (uint64_t)random_bits(STREAM_ORDER, epoch, i) * ((uint64_t)i + 1) >> 32; /* 0 to i */
        uint32_t kept = order[i];
        order[i] = order[j], order[j] = kept;
    }
}

/* ---- 6 local gradient ---- */
/* Forward and loss of one sample; adds to the counts. */
static void predict(worker *me, const struct dataset *d, size_t sample, float counts[COUNTS]) {
    float *x = me->layers[0].y;
    for (size_t p = 0; p < PIXELS; p++) x[p] = scale * d->images[sample * PIXELS + p] + shift;
    forward(me);
    softmax_cross_entropy(me->last->dy, me->last->y, d->labels[sample], counts);
}

/* The *sum* of these samples' gradients, and their counts. In the last batch a worker may have no sample. */
static void local_gradient(worker *me, const struct dataset *d, const uint32_t *samples, size_t count) {
    memset(me->gradients, 0, (me->params + COUNTS) * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        predict(me, d, samples[i], me->gradients + me->params);
        backward(me);
    }
}

/* ---- 7 sum ----
 * Workers send messages, as between machines; none reads another's memory. A mailbox from each worker to each other
 * holds one message. With machines, the next two functions would use a network; nothing else would change. */
static worker workers[MOST_WORKERS];
static int world_size;                             /* the number of workers */
static float *mailbox[MOST_WORKERS][MOST_WORKERS]; /* [from][to]; NULL: empty */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* Copy range r of our gradients to the mailbox of worker `to`; wait first until it is empty. */
static void send(worker *me, range r, int to) {
    float *message = allocate(r.count + 1, sizeof *message);
    memcpy(message, me->gradients + r.first, r.count * sizeof *message);
    pthread_mutex_lock(&lock);
    while (mailbox[me->rank][to]) pthread_cond_wait(&changed, &lock);
    mailbox[me->rank][to] = message;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Wait for a message from worker `from`; add it to range r of our gradients, or copy it there. */
static void receive(worker *me, range r, int from, bool add) {
    pthread_mutex_lock(&lock);
    while (!mailbox[from][me->rank]) pthread_cond_wait(&changed, &lock);
    float *message = mailbox[from][me->rank], *mine = me->gradients + r.first;
    mailbox[from][me->rank] = NULL;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < r.count; i++) mine[i] = add ? mine[i] + message[i] : message[i];
    free(message);
}

/* Parameter server: rank 0 receives all gradients, adds them, and sends the sum to all. This takes only two rounds, but
 * all 2 (N - 1) messages, each as large as the model, pass through one worker. */
static void sum_by_server(worker *me) {
    range all = {0, me->params + COUNTS};
    for (int other = 1; other < world_size && me->rank == 0; other++) receive(me, all, other, true);
    for (int other = 1; other < world_size && me->rank == 0; other++) send(me, all, other);
    if (me->rank > 0) send(me, all, 0), receive(me, all, 0, false);
}

/* Ring: each worker sends to its right neighbour and receives from its left one. The gradients are cut into N chunks;
 * rank r first sends chunk r, then always what it received last: chunk r - round, modulo N (2 N keeps it positive).
 *              add what arrives         copy what arrives
 *              round 1    round 2       round 3    round 4
 *     rank 0   sends a    sends c       sends b    sends a        After round 2, rank 0 has the sum of all b,
 *     rank 1   sends b    sends a       sends c    sends b        rank 1 that of all c, rank 2 that of all a.
 *     rank 2   sends c    sends b       sends a    sends c
 * This takes 2 (N - 1) rounds, but each worker sends only 2 (N - 1) / N times the model's size, and all send at once.
 * (Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.) */
static void sum_by_ring(worker *me) {
    int N = world_size, right = (me->rank + 1) % N, left = (me->rank + N - 1) % N;
    for (int round = 0; round < 2 * (N - 1); round++) {
        int sent = (me->rank + 2 * N - round) % N, received = (sent + N - 1) % N;
        send(me, part_of(me->params + COUNTS, sent, N), right);
        receive(me, part_of(me->params + COUNTS, received, N), left, round < N - 1);
    }
}

/* ---- 8 update ----
 * SGD with momentum:   g = dw / samples,   v = momentum v + g,   w = w - learning_rate v
 * The sum over all workers is divided here, once, by the number of all samples. Every sample therefore has the same
 * weight, even if the workers' parts differ in size. (A mean of the workers' means would be another algorithm.) */
static void update(worker *me) {
    float share = 1 / me->gradients[me->params + SAMPLES];
    for (size_t i = 0; i < me->params; i++) {
        me->velocity[i] = momentum * me->velocity[i] + share * me->gradients[i];
        me->weights[i] -= learning_rate * me->velocity[i];
    }
}

/* ---- 9 training ---- */
static void (*sum_gradients)(worker *);
static long steps = 1000000; /* at most */

/* Each worker runs this in its own thread. */
static void *train(void *argument) {
    worker *me = argument;
    uint32_t *order = allocate(train_set.count, sizeof *order);
    for (long epoch = 1, step = 0; epoch <= EPOCHS && step < steps; epoch++) {
        float sum[COUNTS] = {0}, test[COUNTS] = {0};
        shuffle(order, (int)train_set.count, (uint32_t)epoch);
        for (size_t first = 0; first < train_set.count && step < steps; first += BATCH, step++) {
            size_t left = train_set.count - first, batch = left < BATCH ? left : BATCH;
            range mine = part_of(batch, me->rank, world_size);
            local_gradient(me, &train_set, order + first + mine.first, mine.count);
            sum_gradients(me);
            update(me);
            for (int i = 0; i < COUNTS; i++) sum[i] += me->gradients[me->params + i];
        }
        if (me->rank > 0) continue; /* rank 0 reports; the others wait in their next sum */
        for (size_t i = 0; i < test_set.count; i++) predict(me, &test_set, i, test);
        printf("epoch %ld  train loss %.4f, accuracy %.2f %%  test %.2f %%\n", epoch,
               sum[LOSS] / sum[SAMPLES], 100 * sum[CORRECT] / sum[SAMPLES],
               100 * test[CORRECT] / test[SAMPLES]);
    }
    free(order);
    return NULL;
}

int main(int argc, char **argv) {
    bool complete = argc >= 5 && argc <= 8, is_mlp = complete && strcmp(argv[2], "mlp") == 0;
    bool is_ring = complete && strcmp(argv[4], "ring") == 0;
    if (complete) world_size = atoi(argv[3]);
    if (argc > 5) learning_rate = strtof(argv[5], NULL);
    if (argc > 6) steps = atol(argv[6]);
    if (!complete || (!is_mlp && strcmp(argv[2], "lenet") != 0) || (!is_ring && strcmp(argv[4], "ps") != 0) ||
        steps < 1 || world_size < 1 || world_size > MOST_WORKERS || !(learning_rate > 0))
        fail("usage", "FOLDER mlp|lenet WORKERS(1 to 16) ring|ps [LEARNING-RATE [STEPS [FILE-FOR-WEIGHTS]]]");
    sum_gradients = is_ring ? sum_by_ring : sum_by_server;
    train_set = load(argv[1], "train-images-idx3-ubyte", "train-labels-idx1-ubyte");
    test_set = load(argv[1], "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte");
    find_scaling(train_set.images, train_set.count * PIXELS);
    pthread_t threads[MOST_WORKERS];
    for (int i = 0; i < world_size; i++) {
        workers[i].rank = i;
        create_model(&workers[i], is_mlp ? mlp : lenet);
        if (pthread_create(&threads[i], NULL, train, &workers[i])) fail("thread", "cannot be started");
    }
    for (int i = 0; i < world_size; i++) pthread_join(threads[i], NULL);
    size_t bytes = workers[0].params * sizeof(float);
    for (int i = 1; i < world_size; i++)
        if (memcmp(workers[0].weights, workers[i].weights, bytes) != 0) fail("weights", "differ");
    FILE *file = argc > 7 ? fopen(argv[7], "wb") : NULL; /* the flat array as it is */
    if (argc > 7 && (!file || fwrite(workers[0].weights, bytes, 1, file) != 1 || fclose(file) != 0))
        fail(argv[7], "cannot be written");
    return 0;
}
