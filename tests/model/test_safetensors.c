/* Valid weight files: the bytes of ours, and files from other writers. test_safetensors_harm.c tests invalid ones. */
#include "tests/support/files.h"
#include "tests/support/hand_made.h"

#include <math.h>

TEST(exact_bytes) {
    const char *path = hand_made_path();
    unsigned char file[2000];
    assert_ok(gs_safetensors_save(path, &hand_made, hand_made_values));
    size_t size = read_raw(path, file, sizeof file);

    const char *header =
        "{\"__metadata__\":{\"format\":\"pt\",\"input\":\"1x1x4\",\"mean\":\"0.25\",\"std\":\"0.100000001\","
        "\"model\":\"conv 2 1x3, flatten, "
        "linear 2 no_bias\",\"gradsum\":\"" GRADSUM_VERSION "\"}," CONV_W "," CONV_B "," LINEAR_W "}";
    uint64_t length;
    memcpy(&length, file, 8);
    assert_int_equal(length, (strlen(header) + 7) / 8 * 8);
    assert_int_equal(size, 8 + length + sizeof hand_made_values);
    assert_memory_equal(file + 8, header, strlen(header));
    for (size_t i = strlen(header); i < length; i++) assert_int_equal(file[8 + i], ' ');
    assert_memory_equal(file + 8 + length, hand_made_values, sizeof hand_made_values);
}

TEST(round_trip) {
    const char *path = hand_made_path();
    float back[16];
    gs_weights_info saved;
    assert_ok(gs_safetensors_save(path, &hand_made, hand_made_values));
    assert_ok(gs_safetensors_load(path, &hand_made, back));
    assert_memory_equal(back, hand_made_values, sizeof hand_made_values);
    assert_ok(gs_safetensors_read_info(path, &saved));
    assert_string_equal(saved.model, hand_made.text);
    assert_true(saved.has_mean && saved.scaling.mean.of[0] == 0.25f && saved.has_std &&
                saved.scaling.std.of[0] == 0.1f);
    assert_int_equal(saved.in.c, 1);
    assert_int_equal(saved.in.h, 1);
    assert_int_equal(saved.in.w, 4);
    gs_weights_info_free(&saved);

    float odd[16] = {NAN, INFINITY, -INFINITY, -0.0f}; /* weights of a failed run are saved unchanged */
    assert_ok(gs_safetensors_save(path, &hand_made, odd));
    assert_ok(gs_safetensors_load(path, &hand_made, back));
    assert_memory_equal(back, odd, sizeof odd);
}

/* Colour images have a scaling for each channel; each float is restored bit for bit. */
TEST(numbers_of_each_channel) {
    const char *path = hand_made_path();
    const gs_scaling grey = hand_made.scaling, colour = {{3, {0.1f, 1 / 3.0f, -2.5f}}, {3, {1e-8f, 0.7f, 3}}};
    gs_weights_info saved;
    hand_made.scaling = colour;
    gs_status status = gs_safetensors_save(path, &hand_made, hand_made_values);
    hand_made.scaling = grey;
    assert_ok(status);
    assert_ok(gs_safetensors_read_info(path, &saved));
    assert_true(saved.has_mean && saved.has_std && saved.scaling.mean.count == 3 &&
                saved.scaling.std.count == 3);
    assert_memory_equal(saved.scaling.mean.of, colour.mean.of, sizeof colour.mean.of);
    assert_memory_equal(saved.scaling.std.of, colour.std.of, sizeof colour.std.of);
    gs_weights_info_free(&saved);
}

/* Other programs order tensors by name or size, add metadata, and do not pad. */
TEST(other_writers) {
    const char *path = hand_made_path();
    float back[16];
    gs_weights_info saved;
    hand_made_write(path,
                    "{ \"2.weight\" : {\"shape\":[2,4], \"dtype\":\"F32\",\"data_offsets\":[0,32]},\n"
                    "\"0.weight\":{\"dtype\":\"F32\",\"shape\":[2,1,1,3],\"data_offsets\":[40,64]},"
                    "\"0.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[32,40]}} ",
                    64);
    assert_ok(gs_safetensors_load(path, &hand_made, back));
    assert_memory_equal(back, hand_made_values + 10, 24);
    assert_memory_equal(back + 6, hand_made_values + 8, 8);
    assert_memory_equal(back + 8, hand_made_values, 32);
    assert_ok(gs_safetensors_read_info(path, &saved));
    assert_null(saved.model);
    assert_true(!saved.has_mean && !saved.has_std && saved.scaling.mean.of[0] == 0 &&
                saved.scaling.std.of[0] == 1);
    gs_weights_info_free(&saved);
}

/* F16 and BF16 are converted to F32 exactly, including signed zeros, the smallest values, infinity and NaN. */
TEST(numbers_of_16_bits) {
    static const uint16_t f16[8] = {0x3c00, 0xbc00, 0x0001, 0x8000, 0x7c00, 0x7bff, 0x0400, 0x3555};
    static const uint16_t bf16[2] = {0x3f80, 0xc2f7};
    static const char header[] =
        "{" CONV_W ",\"0.bias\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[24,28]},"
        "\"2.weight\":{\"dtype\":\"F16\",\"shape\":[2,4],\"data_offsets\":[28,44]}}";
    static const float wanted[8] = {1, -1, 0x1p-24f, -0.0f, INFINITY, 65504, 0x1p-14f, 0x1.554p-2f};
    unsigned char file[500];
    uint64_t length = strlen(header);
    memcpy(file, &length, 8);
    memcpy(file + 8, header, length);
    memcpy(file + 8 + length, hand_made_values, 24);
    memcpy(file + 32 + length, bf16, 4);
    memcpy(file + 36 + length, f16, 16);
    const char *path = hand_made_path();
    float back[16];
    write_raw(path, file, 52 + length);
    assert_ok(gs_safetensors_load(path, &hand_made, back));
    assert_memory_equal(back, hand_made_values, 24);
    assert_true(back[6] == 1.0f && back[7] == -123.5f);
    assert_memory_equal(back + 8, wanted, sizeof wanted);
}

/* Names with a prefix, as PyTorch writes for layers in a member of a module, or in DistributedDataParallel. */
TEST(names_with_a_prefix) {
    static const char *const prefixes[] = {"model.", "module.", "module.model.", "0.", "10.", "net.0."};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        const char *p = prefixes[i], *path = hand_made_path();
        float back[16];
        const char *header =
            gs_test_format("{\"%s2.weight\":{\"dtype\":\"F32\",\"shape\":[2,4],\"data_offsets\":[32,64]},"
                           "\"%s0.weight\":{\"dtype\":\"F32\",\"shape\":[2,1,1,3],\"data_offsets\":[0,24]},"
                           "\"%s0.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]}}",
                           p, p, p);
        hand_made_write(path, header, 64);
        assert_ok(gs_safetensors_check(path, &hand_made));
        assert_ok(gs_safetensors_load(path, &hand_made, back));
        assert_memory_equal(back, hand_made_values, sizeof hand_made_values);
    }
    static const char *const wrong[][2] = {
        /* not all names have the prefix, and none equals a name of the model */
        {"{\"model.0.weight\":{\"dtype\":\"F32\",\"shape\":[2,1,1,3],\"data_offsets\":[0,24]},"
         "\"0.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]}}",
         "0.weight is missing in "},
        {"{\"model.0.weight\":{\"dtype\":\"F32\",\"shape\":[2,1,1,3],\"data_offsets\":[0,24]},"
         "\"module.0.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]}}",
         "what is there begins with model.0.weight (2,1,1,3)"},
        {"{\"model.0.weight\":{\"dtype\":\"F32\",\"shape\":[2,1,1,3],\"data_offsets\":[0,24]}}",
         "0.bias is missing in "},
        {"{\"conv.weight\":{\"dtype\":\"F32\",\"shape\":[2,1,1,3],\"data_offsets\":[0,24]}}",
         "what is there begins with conv.weight (2,1,1,3)"},
        /* from a model with nested layers, whose names do not share one prefix */
        {"{\"1.0.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"2.0.weight\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[8,24]}}",
         "0.weight is missing in "},
        {"{\"model10.weight\":{\"dtype\":\"F32\",\"shape\":[2,1,1,3],\"data_offsets\":[0,24]}}",
         "0.weight is missing in "},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *path = hand_made_path();
        hand_made_write(path, wrong[i][0], i < 2 ? 32 : 24);
        assert_fails(GS_E_SHAPE, wrong[i][1], gs_safetensors_check(path, &hand_made));
    }
}

/* A file's names may contain anything, but no control sequence from them reaches a terminal. */
TEST(names_stay_text) {
    const char *path = hand_made_path();
    hand_made_write(path, "{\"a\\u001b[2J\\n\\u009b1mb\\u00e9\":7}", 0);
    assert_fails(GS_E_FORMAT, "'a\\x1b[2J\\n\\xc2\\x9b1mb\xc3\xa9' has no proper",
                 gs_safetensors_check(path, &hand_made));
}
