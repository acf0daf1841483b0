/* Two workers, as threads: each has the whole model and half of the samples. They sum gradients *and* counts, and both
 * compute the same update. cc two_workers.c $(pkg-config --cflags --libs gradsum) -o two_workers && ./two_workers */
#include <comm/create.h>
#include <optim/optimizer.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sync/scheme.h>

enum { WORKERS = 2, N = 101, STEPS = 300 }; /* 51 samples and 50: dividing by the summed counts stays right */
static float weights[WORKERS][2];           /* of each rank */
static gs_status train(gs_comm *comm) {
    gs_device *d;
    gs_model *m;
    gs_optimizer *optimizer;
    gs_sync *sync;
    float x[N], t[N], counts[GS_STATS];
    gs_shard mine = gs_shard_of(N, comm->rank, comm->size);
    gs_pass pass = {.n = mine.count, .training = true};
    for (int i = 0; i < N; i++) x[i] = 0.02f * (float)i - 1, t[i] = 4 * x[i] - 3; /* wanted: 4 and -3 */
    GS_TRY(gs_device_open("cpu", 1, &d));
    gs_model_config config = {.text = "linear 1", .in = {1, 1, 1, 0}, .max_batch = N, .loss = GS_REGRESSION};
    GS_TRY(gs_model_create(d, &config, &m));
    GS_TRY(gs_optimizer_create(&gs_sgd, m, 0.1f, 0, 0, &optimizer));
    GS_TRY(gs_sync_create(&gs_sync_ring, comm, m->saved + GS_STATS, &sync)); /* or gs_sync_ps, ... */
    gs_mem my_x = d->ops->host_memory(x + mine.first), my_t = d->ops->host_memory(t + mine.first), y;
    for (int step = 0; step < STEPS; step++) {
        GS_TRY(gs_model_clear_gradients(m));
        GS_TRY(gs_model_forward(m, &pass, my_x, &y));
        GS_TRY(gs_model_loss(m, &pass, y, my_t));
        GS_TRY(gs_model_backward(m, &pass, y, my_t));                    /* dW of this worker */
        GS_TRY(gs_sync_sum(sync, d, m->gradients, m->saved + GS_STATS)); /* dW = dW0 + dW1, on both */
        GS_TRY(d->ops->read(d, counts, gs_model_stats(m), sizeof counts));
        GS_TRY(gs_optimizer_update(optimizer, (double)counts[GS_STAT_SAMPLES])); /* W -= lr dW / 101 */
    }
    GS_TRY(gs_model_read_weights(m, weights[comm->rank]));
    gs_sync_free(sync); /* not after a failure: the program ends then */
    gs_optimizer_free(optimizer);
    gs_model_free(m);
    gs_device_close(d);
    return GS_OK;
}

static void *worker_main(void *comm) {
    if (train((gs_comm *)comm) == GS_OK) return NULL;
    fprintf(stderr, "%s\n", gs_message());
    exit(1); /* also ends the other worker, which would wait */
}

int main(void) {
    pthread_t thread[WORKERS];
    gs_comm *comms[WORKERS];
    if (gs_comm_threads_create(WORKERS, GS_TIMEOUT, comms) != GS_OK) return 1;
    for (int i = 0; i < WORKERS; i++)
        if (pthread_create(&thread[i], NULL, worker_main, comms[i]) != 0) return 1;
    for (int i = 0; i < WORKERS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < WORKERS; i++)
        printf("%d: t = %.4f x %+.4f\n", i, (double)weights[i][0], (double)weights[i][1]);
    return 0;
}
