/* Weights with torchvision's names (model/names.h). */
#include "tests/support/files.h"

static const gs_shape LARGE = {3, 224, 224, 0};

static const char *shape_of(const gs_param *p, char *text, size_t size) {
    size_t used = 0;
    *text = '\0';
    for (int d = 0; d < p->ndim; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%d", d ? "," : "", p->dims[d]);
    return text;
}

/* Names and shapes equal those that torchvision wrote to tests/golden/torchvision.txt. */
TEST(names_are_torchvisions) {
    static const char *const models[] = {"resnet18", "resnet50", "vgg11"};
    char line[200], model[20], name[100], shape[60], ours[60];
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        FILE *golden = fopen("tests/golden/torchvision.txt", "r");
        int found = 0;
        assert_non_null(golden);
        gs_model *m = gs_test_plan(models[i], LARGE);
        assert_ok(gs_names_rename(m, GS_NAMES_TORCHVISION));
        while (fgets(line, sizeof line, golden)) {
            assert_int_equal(sscanf(line, "%19s %99s %59s", model, name, shape), 3);
            if (strcmp(model, models[i]) != 0) continue;
            int at = 0;
            while (at < m->saved_count && strcmp(m->param[at]->name, name) != 0) at++;
            if (at == m->saved_count) fail_msg("%s: no tensor is named %s", model, name);
            assert_string_equal(shape_of(m->param[at], ours, sizeof ours), shape);
            found++;
        }
        fclose(golden);
        assert_int_equal(found, m->saved_count);
    }
}

static const char SMALL[] = "conv 2 3 pad 1 no_bias, batch_norm, relu, residual (conv 2 3 pad 1, "
                            "batch_norm), relu, residual (conv 3 3 stride 2 pad 1 | conv 3 1 stride 2, "
                            "batch_norm), relu, residual (conv 3 1), global_avg_pool, flatten, linear 2";
enum { ROOM = 400 };

static gs_model *small(gs_names names, float *values) {
    gs_model *m = gs_test_plan(SMALL, (gs_shape){1, 4, 4, 0});
    assert_ok(gs_names_rename(m, names));
    assert_true(m->saved <= ROOM);
    for (size_t i = 0; i < m->saved; i++) values[i] = (float)i;
    return m;
}

TEST(stages_and_blocks) {
    static const char *const want[] = {"conv1.weight",
                                       "bn1.weight",
                                       "bn1.bias",
                                       "layer1.0.conv1.weight",
                                       "layer1.0.conv1.bias",
                                       "layer1.0.bn1.weight",
                                       "layer1.0.bn1.bias",
                                       "layer2.0.conv1.weight",
                                       "layer2.0.conv1.bias",
                                       "layer2.0.downsample.0.weight",
                                       "layer2.0.downsample.0.bias",
                                       "layer2.0.downsample.1.weight",
                                       "layer2.0.downsample.1.bias",
                                       "layer2.1.conv1.weight",
                                       "layer2.1.conv1.bias",
                                       "fc.weight",
                                       "fc.bias"};
    float values[ROOM];
    gs_model *m = small(GS_NAMES_TORCHVISION, values);
    assert_int_equal(m->param_count, sizeof want / sizeof *want);
    for (int i = 0; i < m->param_count; i++) assert_string_equal(m->param[i]->name, want[i]);
}

/* Files with our names and with torchvision's load the same values, with or without a prefix. */
TEST(either_names_load) {
    const char *path = in_folder(gs_test_folder(), "w.safetensors");
    float values[ROOM], back[ROOM];
    gs_model *own = small(GS_NAMES_OWN, values);
    for (int i = 0; i < 3; i++) {
        gs_model *m = small(i == 0 ? GS_NAMES_OWN : GS_NAMES_TORCHVISION, values);
        for (int p = 0; i == 2 && p < m->saved_count; p++) {
            char name[GS_PARAM_NAME];
            snprintf(name, sizeof name, "module.%.50s", m->param[p]->name);
            memcpy(m->param[p]->name, name, sizeof name);
        }
        assert_ok(gs_safetensors_save(path, m, values));
        assert_ok(gs_safetensors_check(path, own));
        memset(back, 0, sizeof back);
        assert_ok(gs_safetensors_load(path, own, back));
        assert_memory_equal(back, values, own->saved * sizeof *values);
    }
}

/* PyTorch's num_batches_tracked is ignored; any other unknown tensor is rejected. */
TEST(counters_of_pytorch) {
    const char *path = in_folder(gs_test_folder(), "w.safetensors");
    const struct {
        const char *name;
        bool taken;
    } extra[] = {{"1.num_batches_tracked", true}, {"1.num_batches", false}};
    gs_model *m = gs_test_plan("flatten, linear 1 no_bias", (gs_shape){1, 1, 1, 0});
    for (size_t i = 0; i < sizeof extra / sizeof *extra; i++) {
        const float one = 3;
        const uint64_t count = 7;
        unsigned char data[sizeof one + sizeof count];
        float back = 0;
        memcpy(data, &one, sizeof one);
        memcpy(data + sizeof one, &count, sizeof count);
        const char *text =
            gs_test_format("{\"1.weight\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]},"
                           "\"%s\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[4,12]}}",
                           extra[i].name);
        write_safetensors(path, text, data, sizeof data);
        if (extra[i].taken)
            assert_ok(gs_safetensors_load(path, m, &back));
        else
            assert_fails(GS_E_SHAPE, "1.num_batches () is in", gs_safetensors_load(path, m, &back));
        assert_true(!extra[i].taken || back == one);
    }
}

TEST(models_without_names) {
    static const char *const wrong[][2] = {
        {"residual (flatten, linear 9, flatten | flatten), linear 1", "for layer 0.body.1, linear"},
        {"conv 2 1, residual (relu), conv 2 1, flatten, linear 1", "for layer 2, conv2d"},
        {"residual (residual (relu)), flatten, linear 1", "for layer 0.body.0, residual"},
        {"flatten, linear 2, batch_norm, linear 1", "for layer 2, batch_norm"},
        {"flatten, linear 2, conv 2 1, flatten, linear 1", "for layer 2, conv2d"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gs_model *m = gs_test_plan(wrong[i][0], (gs_shape){1, 3, 3, 0});
        assert_fails(GS_E_USAGE, wrong[i][1], gs_names_rename(m, GS_NAMES_TORCHVISION));
        assert_true(strncmp(m->param[0]->name, "layer", 5) != 0); /* nothing is renamed */
    }
}
