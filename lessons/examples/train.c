/* The training loop in 40 lines: two workers train a network for pictures of clothes. Each is a thread with half of
 * every batch. cc train.c $(pkg-config --cflags --libs gradsum) -o train && ./train */
#include <gradsum.h>
#include <stdio.h>

static gs_status train(gs_trainer *trainer, const gs_dataset *test) {
    gs_metrics m;
    for (int epoch = 1; epoch <= 3; epoch++) {
        double loss = 0, steps = (double)gs_trainer_steps_per_epoch(trainer);
        for (int i = 0; i < steps; i++) {
            GS_TRY(gs_trainer_step(trainer, &m));
            loss += m.loss / steps;
        }
        GS_TRY(gs_trainer_evaluate(trainer, test, &m));
        printf("epoch %d: train loss %.3f, test accuracy %.1f %%\n", epoch, loss, 100 * m.accuracy);
    }
    return gs_trainer_save(trainer, "lenet.safetensors"); /* PyTorch can read it */
}

static gs_status load_and_train(gs_dataset *set[2], gs_trainer **trainer) {
    GS_TRY(gs_dataset_load("fashion-mnist-small", GS_TRAIN, &set[0]));
    GS_TRY(gs_dataset_load("fashion-mnist-small", GS_TEST, &set[1]));
    const gs_trainer_options options = {.model = "lenet", .data = set[0], .devices = "cpu,cpu"};
    GS_TRY(gs_trainer_create(&options, trainer));
    return train(*trainer, set[1]);
}

int main(void) {
    gs_dataset *set[2] = {NULL, NULL};
    gs_trainer *trainer = NULL;
    const gs_status status = load_and_train(set, &trainer);
    if (status != GS_OK) fprintf(stderr, "%s\n", gs_message());
    gs_trainer_free(trainer); /* NULL is allowed everywhere */
    gs_dataset_free(set[0]);
    gs_dataset_free(set[1]);
    return status == GS_OK ? 0 : 1;
}
