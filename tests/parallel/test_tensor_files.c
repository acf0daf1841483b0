/* --tensor: weights in files are whole, whoever has written them and whoever reads them. */
#include <unistd.h>

#include "tests/support/training.h"

static const char two[] = "cpu,cpu", four[] = "cpu,cpu,cpu,cpu", eight[] = "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu";

static gs_result train_divided(gs_settings s) {
    s.tensor = 2;
    return gs_test_train(&s);
}

TEST(saved_and_resumed) {
    static const gs_test_change runs[] = {{{two, NULL, 2, 0}, {"cpu", NULL, 0, 0}},
                                          {{"cpu", NULL, 0, 0}, {four, NULL, 4, 0}},
                                          {{four, NULL, 2, 0}, {eight, NULL, 8, 0}}};
    gs_settings s = gs_test_settings("cpu --exact --optimizer adam --lr 0.001 --steps 8");
    gs_test_goes_on(&s, 5, runs, 3);
}

TEST(the_best_epoch_is_kept) {
    const char *path = gs_test_format("%s/best.safetensors", gs_test_folder());
    gs_settings s = gs_test_settings("%s --exact --epochs 2 --batch 500 --keep best --tests 2 --save %s "
                                     "--model 'flatten, linear 16, tanh, linear 10'",
                                     two, path);
    s.steps = 0;
    gs_result whole = gs_test_train(&s), divided = train_divided(s);
    assert_int_equal(whole.kept_epoch, divided.kept_epoch);
    assert_same_bits(&whole, &divided, "--keep best");
    s = gs_test_with(s, "--load %s --epochs 1", path);
    s.keep.best = false;
    s.save = NULL;
    gs_result loaded = gs_test_train(&s), by_parts = train_divided(s);
    assert_same_bits(&loaded, &by_parts, "--load");
    unlink(path);
}
