/* --tensor: weights in files are whole, whoever has written them and whoever reads them. */
#include <unistd.h>

#include "tests/training.h"

static const char two[] = "cpu,cpu", four[] = "cpu,cpu,cpu,cpu", eight[] = "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu";

typedef struct layout {
    const char *devices;
    int tensor;
} layout;

static gs_result train_with(gs_settings s, const layout *l) {
    s.devices = l->devices;
    s.tensor = l->tensor;
    return gs_test_train(&s);
}

TEST(saved_and_resumed) {
    static const struct {
        layout first, then;
    } runs[] = {{{two, 2}, {"cpu", 0}}, {{"cpu", 0}, {four, 4}}, {{four, 2}, {eight, 8}}};
    const char *path = gs_test_format("%s/tensor.safetensors", gs_test_folder());
    gs_settings s = gs_test_settings("cpu");
    s.exact = true;
    s.optimizer = &gs_adam;
    s.lr = 0.001f;
    s.steps = 8;
    gs_result never_stopped = gs_test_train(&s);
    for (int i = 0; i < 3; i++) {
        gs_settings part = s;
        part.steps = 5;
        part.save = path;
        part.save_state = true;
        gs_result first = train_with(part, &runs[i].first);
        gs_result_free(&first);
        part = s;
        part.resume = path;
        gs_result resumed = train_with(part, &runs[i].then);
        assert_same_bits(&never_stopped, &resumed, runs[i].then.devices);
        gs_result_free(&resumed);
    }
    unlink(path);
}

TEST(the_best_epoch_is_kept) {
    const char *path = gs_test_format("%s/best.safetensors", gs_test_folder());
    gs_settings s = gs_test_settings(two);
    s.exact = true;
    s.steps = 0;
    s.epochs = 2;
    s.batch = 500;
    s.keep.best = true;
    s.tests = 2;
    s.save = path;
    s.model = "flatten, linear 16, tanh, linear 10";
    gs_result whole = gs_test_train(&s), divided = train_with(s, &(layout){two, 2});
    assert_int_equal(whole.kept_epoch, divided.kept_epoch);
    assert_same_bits(&whole, &divided, "--keep best");
    gs_result_free(&divided);
    s.keep.best = false;
    s.save = NULL;
    s.load = path;
    s.epochs = 1;
    gs_result loaded = gs_test_train(&s), by_parts = train_with(s, &(layout){two, 2});
    assert_same_bits(&loaded, &by_parts, "--load");
    gs_result_free(&by_parts);
    unlink(path);
}
