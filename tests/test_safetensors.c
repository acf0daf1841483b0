#include "tests/test.h"

#include <math.h>

/* A model made by hand, as far as the file format needs one: its text is below, its input (1, 1, 4). */
static gs_param conv_w = {.name = "0.weight", .ndim = 4, .dims = {2, 1, 1, 3}, .at = 0, .count = 6};
static gs_param conv_b = {.name = "0.bias", .ndim = 1, .dims = {2}, .at = 6, .count = 2};
static gs_param linear_w = {.name = "2.weight", .ndim = 2, .dims = {2, 4}, .at = 8, .count = 8};
static gs_param *params[] = {&conv_w, &conv_b, &linear_w};
static gs_model model = {.scaling = {{1, {0.25f}}, {1, {0.1f}}},
                         .text = (char[]){"conv 2 1x3, flatten, linear 2 no_bias"},
                         .in = {1, 1, 4, 0},
                         .params = 16,
                         .param = params,
                         .saved = 16,
                         .param_count = 3,
                         .saved_count = 3};

#define METADATA                                                                                             \
    "\"__metadata__\":{\"format\":\"pt\",\"input\":\"1x1x4\",\"mean\":\"0.25\",\"std\":\"0.100000001\","     \
    "\"model\":\"conv 2 1x3, flatten, linear 2 "                                                             \
    "no_bias\"}"
#define CONV_W "\"0.weight\":{\"dtype\":\"F32\",\"shape\":[2,1,1,3],\"data_offsets\":[0,24]}"
#define CONV_B "\"0.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]}"
#define LINEAR_W "\"2.weight\":{\"dtype\":\"F32\",\"shape\":[2,4],\"data_offsets\":[32,64]}"
#define GOOD "{" METADATA "," CONV_W "," CONV_B "," LINEAR_W "}"

static const float values[16] = {1, -2, 3.25f, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 1e-20f};

static const char *new_path(void) {
    static char path[600];
    snprintf(path, sizeof path, "%s/w.safetensors", gs_test_folder());
    return path;
}

static void write_bytes(const char *path, const void *bytes, size_t count) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, count, f), count);
    assert_int_equal(fclose(f), 0);
}

static size_t read_bytes(const char *path, unsigned char *bytes, size_t size) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t count = fread(bytes, 1, size, f);
    fclose(f);
    return count;
}

/* A file with this header and the first `count` bytes of the values. */
static void write_file(const char *path, const char *header, size_t count) {
    uint64_t length = strlen(header);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(&length, 1, sizeof length, f), sizeof length);
    assert_int_equal(fwrite(header, 1, length, f), length);
    assert_true(count <= sizeof values);
    assert_int_equal(fwrite(values, 1, count, f), count);
    assert_int_equal(fclose(f), 0);
}

/* ---- good files ---- */

static void exact_bytes(void **state) {
    (void)state;
    const char *path = new_path();
    unsigned char file[2000];
    assert_ok(gs_safetensors_save(path, &model, values));
    size_t size = read_bytes(path, file, sizeof file);

    const char *header =
        "{\"__metadata__\":{\"format\":\"pt\",\"input\":\"1x1x4\",\"mean\":\"0.25\",\"std\":\"0.100000001\","
        "\"model\":\"conv 2 1x3, flatten, "
        "linear 2 no_bias\",\"gradsum\":\"" GRADSUM_VERSION "\"}," CONV_W "," CONV_B "," LINEAR_W "}";
    uint64_t length;
    memcpy(&length, file, 8);
    assert_int_equal(length, (strlen(header) + 7) / 8 * 8);
    assert_int_equal(size, 8 + length + sizeof values);
    assert_memory_equal(file + 8, header, strlen(header));
    for (size_t i = strlen(header); i < length; i++) assert_int_equal(file[8 + i], ' ');
    assert_memory_equal(file + 8 + length, values, sizeof values);
}

static void round_trip(void **state) {
    (void)state;
    const char *path = new_path();
    float back[16];
    gs_saved saved;
    assert_ok(gs_safetensors_save(path, &model, values));
    assert_ok(gs_safetensors_load(path, &model, back));
    assert_memory_equal(back, values, sizeof values);
    assert_ok(gs_safetensors_about(path, &saved));
    assert_string_equal(saved.model, model.text);
    assert_true(saved.has_mean && saved.scaling.mean.of[0] == 0.25f && saved.has_std &&
                saved.scaling.std.of[0] == 0.1f);
    assert_int_equal(saved.in.c, 1);
    assert_int_equal(saved.in.h, 1);
    assert_int_equal(saved.in.w, 4);
    gs_saved_free(&saved);

    float odd[16] = {NAN, INFINITY, -INFINITY,
                     -0.0f}; /* weights of a training that went wrong are kept as they are */
    assert_ok(gs_safetensors_save(path, &model, odd));
    assert_ok(gs_safetensors_load(path, &model, back));
    assert_memory_equal(back, odd, sizeof odd);
}

/* Of colour images, each channel has its own; each float comes back to the bit. */
static void numbers_of_each_channel(void **state) {
    (void)state;
    const char *path = new_path();
    const gs_scaling grey = model.scaling, colour = {{3, {0.1f, 1 / 3.0f, -2.5f}}, {3, {1e-8f, 0.7f, 3}}};
    gs_saved saved;
    model.scaling = colour;
    gs_status status = gs_safetensors_save(path, &model, values);
    model.scaling = grey;
    assert_ok(status);
    assert_ok(gs_safetensors_about(path, &saved));
    assert_true(saved.has_mean && saved.has_std && saved.scaling.mean.count == 3 &&
                saved.scaling.std.count == 3);
    assert_memory_equal(saved.scaling.mean.of, colour.mean.of, sizeof colour.mean.of);
    assert_memory_equal(saved.scaling.std.of, colour.std.of, sizeof colour.std.of);
    gs_saved_free(&saved);
}

/* Other writers order tensors by name or size, add metadata, and do not pad. */
static void other_writers(void **state) {
    (void)state;
    const char *path = new_path();
    float back[16];
    gs_saved saved;
    write_file(path,
               "{ \"2.weight\" : {\"shape\":[2,4], \"dtype\":\"F32\",\"data_offsets\":[0,32]},\n"
               "\"0.weight\":{\"dtype\":\"F32\",\"shape\":[2,1,1,3],\"data_offsets\":[40,64]},"
               "\"0.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[32,40]}} ",
               64);
    assert_ok(gs_safetensors_load(path, &model, back));
    assert_memory_equal(back, values + 10, 24);
    assert_memory_equal(back + 6, values + 8, 8);
    assert_memory_equal(back + 8, values, 32);
    assert_ok(gs_safetensors_about(path, &saved));
    assert_null(saved.model);
    assert_true(!saved.has_mean && !saved.has_std && saved.scaling.mean.of[0] == 0 &&
                saved.scaling.std.of[0] == 1);
    gs_saved_free(&saved);
}

/* F16 and BF16 become F32 exactly, also zeros with a sign, the smallest numbers, infinity and NaN. */
static void numbers_of_16_bits(void **state) {
    (void)state;
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
    memcpy(file + 8 + length, values, 24);
    memcpy(file + 32 + length, bf16, 4);
    memcpy(file + 36 + length, f16, 16);
    const char *path = new_path();
    float back[16];
    write_bytes(path, file, 52 + length);
    assert_ok(gs_safetensors_load(path, &model, back));
    assert_memory_equal(back, values, 24);
    assert_true(back[6] == 1.0f && back[7] == -123.5f);
    assert_memory_equal(back + 8, wanted, sizeof wanted);
}

/* As a network that holds the layers in a member has it, or one that DistributedDataParallel has wrapped. */
static void names_with_a_prefix(void **state) {
    (void)state;
    static const char *const prefixes[] = {"model.", "module.", "module.model.", "0.", "10.", "net.0."};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        char header[600];
        const char *p = prefixes[i], *path = new_path();
        float back[16];
        snprintf(header, sizeof header,
                 "{\"%s2.weight\":{\"dtype\":\"F32\",\"shape\":[2,4],\"data_offsets\":[32,64]},"
                 "\"%s0.weight\":{\"dtype\":\"F32\",\"shape\":[2,1,1,3],\"data_offsets\":[0,24]},"
                 "\"%s0.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]}}",
                 p, p, p);
        write_file(path, header, 64);
        assert_ok(gs_safetensors_check(path, &model));
        assert_ok(gs_safetensors_load(path, &model, back));
        assert_memory_equal(back, values, sizeof values);
    }
    static const char *const wrong[][2] = {
        /* not all names have it; what is there is none of the model's */
        {"{\"model.0.weight\":{\"dtype\":\"F32\",\"shape\":[2,1,1,3],\"data_offsets\":[0,24]},"
         "\"0.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]}}",
         ": model.0.weight and 0.bias have different prefixes; wanted the same prefix for all of the "
         "model's names, "
         "or none (0.bias)"},
        {"{\"model.0.weight\":{\"dtype\":\"F32\",\"shape\":[2,1,1,3],\"data_offsets\":[0,24]},"
         "\"module.0.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]}}",
         ": model.0.weight and module.0.bias have different prefixes; "},
        {"{\"net.0.weight\":{\"dtype\":\"F32\",\"shape\":[2,1,1,3],\"data_offsets\":[0,24]},"
         "\"net.net.0.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]}}",
         ": net.0.weight and net.net.0.bias have different prefixes; "},
        {"{\"model.0.weight\":{\"dtype\":\"F32\",\"shape\":[2,1,1,3],\"data_offsets\":[0,24]}}",
         "0.bias is missing in "},
        {"{\"conv.weight\":{\"dtype\":\"F32\",\"shape\":[2,1,1,3],\"data_offsets\":[0,24]}}",
         "what is there begins with conv.weight"},
        {"{\"model10.weight\":{\"dtype\":\"F32\",\"shape\":[2,1,1,3],\"data_offsets\":[0,24]}}",
         "0.weight is missing in "},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *path = new_path();
        write_file(path, wrong[i][0], i < 3 ? 32 : 24);
        assert_fails(GS_E_SHAPE, wrong[i][1], gs_safetensors_check(path, &model));
    }
}

/* Names in a file may hold anything; a terminal sees none of its orders. */
static void names_stay_text(void **state) {
    (void)state;
    const char *path = new_path();
    write_file(path, "{\"a\\u001b[2J\\n\\u009b1mb\\u00e9\":7}", 0);
    assert_fails(GS_E_FORMAT, "'a\\x1b[2J\\n\\xc2\\x9b1mb\xc3\xa9' has no proper",
                 gs_safetensors_check(path, &model));
}

/* ---- bad files ---- */

static void cannot_be_read(void **state) {
    (void)state;
    float back[16];
    gs_saved saved;
    assert_fails(GS_E_FILE, "cannot read /no/file: No such file or directory",
                 gs_safetensors_load("/no/file", &model, back));
    assert_fails(GS_E_FILE, "cannot read /no/file: No such", gs_safetensors_about("/no/file", &saved));
    const char *folder = gs_test_folder();
    assert_fails(GS_E_FILE, "Is a directory", gs_safetensors_load(folder, &model, back));
    assert_fails(GS_E_FILE, "it is not a regular file", gs_safetensors_load("/dev/null", &model, back));
    assert_fails(GS_E_FILE, "/no/file: No such file or directory",
                 gs_safetensors_save("/no/file", &model, values));
}

static void bad_length(void **state) {
    (void)state;
    const char *path = new_path();
    float back[16];
    write_bytes(path, "", 0);
    assert_fails(GS_E_FORMAT, "w.safetensors is truncated: it has 0 bytes; wanted at least 8",
                 gs_safetensors_load(path, &model, back));
    write_bytes(path, "1234567", 7);
    assert_fails(GS_E_FORMAT, "it has 7 bytes; wanted at least 8", gs_safetensors_load(path, &model, back));
    write_bytes(path, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    assert_fails(GS_E_FORMAT, "the header's length is 18446744073709551615; at most 100000000 is allowed",
                 gs_safetensors_load(path, &model, back));
    write_bytes(path, "\x10\0\0\0\0\0\0\0{}", 10);
    assert_fails(GS_E_FORMAT, "truncated: the header's length is 16, but only 2 bytes follow",
                 gs_safetensors_load(path, &model, back));
    write_bytes(path, "\0\0\0\0\0\0\0\0", 8);
    assert_fails(GS_E_FORMAT, "the header is not valid JSON: wrong at byte 0 of 0",
                 gs_safetensors_load(path, &model, back));
}

static void bad_headers(void **state) {
    (void)state;
    static const struct {
        gs_status code;
        const char *part, *header;
        size_t bytes;
    } bad[] = {
        {GS_E_FORMAT, "w.safetensors: the header is not valid JSON: wrong at byte ", "{\"a\":", 0},
        {GS_E_FORMAT, "not valid JSON: wrong at byte 3 of 6", "{} {} ", 0},
        {GS_E_FORMAT, "the header is not a JSON object", "[1, 2]", 0},
        {GS_E_FORMAT, "'0.bias' has no proper dtype, shape and data_offsets", "{\"0.bias\":7}", 0},
        {GS_E_FORMAT, "'0.bias' has no proper", "{\"0.bias\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8},
        {GS_E_FORMAT, "'0.bias' has no proper",
         "{\"0.bias\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8},
        {GS_E_FORMAT, "'0.bias' has no proper",
         "{\"0.bias\":{\"dtype\":\"F32\",\"shape\":[2.5],\"data_offsets\":[0,8]}}", 8},
        {GS_E_FORMAT, "'0.bias' has no proper",
         "{\"0.bias\":{\"dtype\":\"F32\",\"shape\":[1e99],\"data_offsets\":[0,8]}}", 8},
        {GS_E_FORMAT, "'0.bias' has no proper",
         "{\"0.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,9]}}", 8},
        {GS_E_FORMAT, "'0.bias' has no proper",
         "{\"0.bias\":{\"dtype\":\"F32\",\"shape\":[\"2\"],\"data_offsets\":[0,8]}}", 8},
        {GS_E_FORMAT, "0.bias is I32; wanted F32, F16 or BF16",
         "{" CONV_W ",\"0.bias\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[24,32]}}", 32},
        {GS_E_SHAPE, "1.num_batches (0) is in ",
         "{" CONV_W "," CONV_B "," LINEAR_W
         ",\"1.num_batches\":{\"dtype\":\"I64\",\"shape\":[0],\"data_offsets\":[64,64]}}",
         64},
        {GS_E_FORMAT, "0.bias lies at bytes 0 to 8 of the data, which has 7",
         "{\"0.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7},
        {GS_E_FORMAT, "0.bias lies at bytes 8 to 0",
         "{\"0.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8},
        {GS_E_FORMAT, "0.bias is (3), 12 bytes, but has 8 bytes of data",
         "{\"0.bias\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8},
        {GS_E_FORMAT, "0.bias is (4294967296,4294967296), 73786976294838206464 bytes, but has 0 bytes",
         "{\"0.bias\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0},
        {GS_E_FORMAT, "0.bias appears twice",
         "{\"0.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"0.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}",
         16},
        {GS_E_FORMAT, "b begins at byte 4 of the data, but the tensor before it ends at 8",
         "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         8},
        {GS_E_FORMAT, "b begins at byte 12 of the data, but the tensor before it ends at 8",
         "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]}}",
         16},
        {GS_E_FORMAT,
         "w.safetensors is truncated or damaged: 2.weight lies at bytes 32 to 64 of the data, which has 63",
         GOOD, 63},
        {GS_E_FORMAT, "the tensors end at byte 8 of the data, which has 9",
         "{\"0.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 9},
        {GS_E_SHAPE, "0.weight is missing in ", "{" METADATA "}", 0},
        {GS_E_SHAPE, "the model has (2,1,1,3)", "{" METADATA "}", 0},
        {GS_E_SHAPE, "0.weight is (3,2) in ",
         "{\"0.weight\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]}}", 24},
        {GS_E_SHAPE, "w.safetensors; the model has (2,1,1,3)",
         "{\"0.weight\":{\"dtype\":\"F32\",\"shape\":[2,1,3,1],\"data_offsets\":[0,24]}}", 24},
        {GS_E_SHAPE, "0.weight is () in ",
         "{\"0.weight\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4},
        {GS_E_SHAPE, "2.bias (0) is in ",
         "{" CONV_W "," CONV_B "," LINEAR_W
         ",\"2.bias\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[64,64]}}",
         64},
    };
    const char *path = new_path();
    float back[16];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file(path, bad[i].header, bad[i].bytes);
        assert_fails(bad[i].code, bad[i].part, gs_safetensors_load(path, &model, back));
        assert_non_null(strstr(gs_message(), "w.safetensors"));
    }
}

static void bad_metadata(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"{\"__metadata__\":{\"std\":\"1e-45\"}}",
         "'std' in the metadata is 1e-45; wanted a number from 1e-08 to"},
        {"{\"__metadata__\":{\"std\":\"0\"}}", "'std' in the metadata is 0; wanted a number from 1e-08 to"},
        {"{\"__metadata__\":{\"std\":\"-1\"}}", "'std' in the metadata is -1; wanted a number"},
        {"{\"__metadata__\":{\"std\":\"nan\"}}", "'std' in the metadata is 'nan'; wanted a number"},
        {"{\"__metadata__\":{\"mean\":\"1e30\"}}",
         "'mean' in the metadata is 1e30; wanted a number from -1e+06 to 1e+06"},
        {"{\"__metadata__\":{\"mean\":\"\"}}", "'mean' in the metadata is ''; wanted a number"},
        {"{\"__metadata__\":{\"mean\":\"1,2,3,4,5\"}}", "is '1,2,3,4,5'; wanted a number, or up to 4 with"},
        {"{\"__metadata__\":{\"mean\":\"1,,3\"}}", "'mean' in the metadata is '1,,3'; wanted a number"},
        {"{\"__metadata__\":{\"std\":\"1,0,3\"}}",
         "'std' in the metadata is 1,0,3; wanted a number from 1e-08"},
        {"{\"__metadata__\":{\"mean\":0.5}}",
         "'mean' in the metadata is not a string; wanted \"mean\": \"0.5\""},
        {"{\"__metadata__\":{\"model\":\"mlp\",\"input\":28}}",
         "'input' in the metadata is not a string; wanted"},
        {"{\"__metadata__\":{\"model\":\"mlp\",\"input\":\"\"}}",
         "'input' in the metadata is ''; wanted a shape such as 1x28x28"},
        {"{\"__metadata__\":{\"model\":\"mlp\",\"input\":\"28x28\"}}", "'input' in the metadata is '28x28'"},
        {"{\"__metadata__\":{\"model\":\"mlp\",\"input\":\"1x28x28x3x5\"}}", "'1x28x28x3x5'"},
        {"{\"__metadata__\":{\"model\":\"mlp\",\"input\":\"1x0x28\"}}", "'1x0x28'"},
        {"{\"__metadata__\":{\"model\":\"mlp\",\"input\":\"1x-2x28\"}}", "'1x-2x28'"},
        {"{\"__metadata__\":{\"model\":\"mlp\",\"input\":\"1x28x99999999999999999999\"}}",
         "'1x28x99999999999999999999'"},
    };
    const char *path = new_path();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gs_saved saved;
        write_file(path, bad[i][0], 0);
        assert_fails(GS_E_FORMAT, bad[i][1], gs_safetensors_about(path, &saved));
        gs_saved_free(&saved);
    }
}

/* A file that ends early is refused wherever it ends; one with a wrong bit is refused or loads as a whole. */
static void damaged_anywhere(void **state) {
    (void)state;
    const char *path = new_path();
    unsigned char file[2000];
    float back[16];
    assert_ok(gs_safetensors_save(path, &model, values));
    size_t size = read_bytes(path, file, sizeof file);
    for (size_t cut = 0; cut < size; cut++) {
        write_bytes(path, file, cut);
        gs_status st = gs_safetensors_load(path, &model, back);
        if (st != GS_E_FORMAT) fail_msg("cut at %zu of %zu: %s", cut, size, st ? gs_message() : "loaded");
    }
    int loaded = 0;
    for (size_t at = 0; at < size; at++)
        for (int bit = 0; bit < 8; bit++) {
            file[at] ^= (unsigned char)(1 << bit);
            write_bytes(path, file, size);
            gs_status st = gs_safetensors_load(path, &model, back);
            if (st == GS_OK) {
                assert_true(at >= 8); /* the header's length is never taken on trust */
                assert_memory_equal(back, file + size - sizeof back, sizeof back);
                loaded++;
            } else if (st != GS_E_FORMAT && st != GS_E_SHAPE)
                fail_msg("wrong bit %d at %zu: %s", bit, at, gs_message());
            file[at] ^= (unsigned char)(1 << bit);
        }
    assert_true(loaded >= (int)sizeof values * 8); /* every bit of the data may be different */
}

GS_TESTS(safetensors, cmocka_unit_test(exact_bytes), cmocka_unit_test(round_trip),
         cmocka_unit_test(numbers_of_each_channel), cmocka_unit_test(other_writers),
         cmocka_unit_test(numbers_of_16_bits), cmocka_unit_test(names_with_a_prefix),
         cmocka_unit_test(names_stay_text), cmocka_unit_test(cannot_be_read), cmocka_unit_test(bad_length),
         cmocka_unit_test(bad_headers), cmocka_unit_test(bad_metadata), cmocka_unit_test(damaged_anywhere))
