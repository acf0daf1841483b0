/* --tensor: the options that it cannot be combined with. */
#include "tests/support/devices.h"
#include "tests/support/training.h"

static const char two[] = "cpu,cpu", four[] = "cpu,cpu,cpu,cpu";

TEST(bad_use_is_told) {
    static const char heads[] =
        "train --data jargon --model \"embedding 155 9, linear 27, attention 3, linear 9, tied\" --steps 1";
    assert_prints(2, "is not a whole number from 2 to 64", "train --tensor 1");
    assert_prints(2, "there is 1 worker; wanted a multiple of 2", "train --model mlp --tensor 2");
    assert_prints(2, "there are 3 workers; wanted a multiple of 2",
                  "train --model mlp --tensor 2 --devices cpu,cpu,cpu");
    assert_prints(2, "the model has nothing to divide", "train --model softmax --tensor 2 --devices %s", two);
    assert_prints(2, "3 heads cannot be divided among 2 workers",
                  "train --data jargon --model \"embedding 155 12, linear 36, attention 3, linear 12, "
                  "tied\" --tensor 2 --devices %s",
                  two);
    assert_prints(2, "layer 1 (linear 27): its 27 outputs cannot be divided among 2 workers",
                  "%s --tensor 2 --devices %s", heads, two);
    assert_prints(2, "120 outputs cannot be divided among 7 workers",
                  "train --model lenet --tensor 7 --devices %s,cpu,cpu,cpu", four);
    assert_prints(2, "there are 2 workers; wanted a multiple of 4, a worker for each part of each stage",
                  "train --model mlp --tensor 2 --pipeline 2 --devices %s", two);
    assert_prints(2, "--micro-batches 2 is for --pipeline P",
                  "train --model mlp --tensor 2 --micro-batches 2 --devices %s", two);
    assert_prints(2, "devices of one kind, not cpu and cl", "train --tensor 2 --devices cpu,cl");
    assert_prints(2, "wanted 2, 4 or 8 workers in a group",
                  "train --model mlp --exact --tensor 3 --devices cpu,cpu,cpu");
    assert_prints(2, "--batch-norm global: --pipeline 2 computes a batch in parts",
                  "train --layout tp2,pp2 --devices %s,%s --model resnet20", two, two);
}
