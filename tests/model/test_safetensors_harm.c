/* Weight files that are damaged or were never valid: each one is rejected with a message. */
#include "tests/support/files.h"
#include "tests/support/hand_made.h"

TEST(cannot_be_read) {
    float back[16];
    gs_weights_info saved;
    assert_fails(GS_E_FILE, "cannot read /no/file: No such file or directory",
                 gs_safetensors_load("/no/file", &hand_made, back));
    assert_fails(GS_E_FILE, "cannot read /no/file: No such", gs_safetensors_read_info("/no/file", &saved));
    const char *folder = gs_test_folder();
    assert_fails(GS_E_FILE, "Is a directory", gs_safetensors_load(folder, &hand_made, back));
    assert_fails(GS_E_FILE, "it is not a regular file", gs_safetensors_load("/dev/null", &hand_made, back));
    assert_fails(GS_E_FILE, "/no/file: No such file or directory",
                 gs_safetensors_save("/no/file", &hand_made, hand_made_values));
}

TEST(bad_length) {
    const char *path = hand_made_path();
    float back[16];
    write_raw(path, "", 0);
    assert_fails(GS_E_FORMAT, "w.safetensors is empty; wanted a safetensors file",
                 gs_safetensors_load(path, &hand_made, back));
    write_raw(path, (const char[600]){0}, 600);
    assert_fails(GS_E_FORMAT,
                 "begins with zeros, as a download that has not ended leaves one; wanted a safetensors",
                 gs_safetensors_load(path, &hand_made, back));
    write_raw(path, "1234567", 7);
    assert_fails(GS_E_FORMAT, "it has 7 bytes; wanted at least 8",
                 gs_safetensors_load(path, &hand_made, back));
    write_raw(path, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    assert_fails(GS_E_FORMAT, "the header's length is 18446744073709551615; at most 100000000 is allowed",
                 gs_safetensors_load(path, &hand_made, back));
    write_raw(path, "\x10\0\0\0\0\0\0\0{}", 10);
    assert_fails(GS_E_FORMAT, "truncated: the header's length is 16, but only 2 bytes follow",
                 gs_safetensors_load(path, &hand_made, back));
    write_raw(path, "\0\0\0\0\0\0\0\0", 8);
    assert_fails(GS_E_FORMAT, "the header is not valid JSON: wrong at byte 0 of 0",
                 gs_safetensors_load(path, &hand_made, back));
}

TEST(bad_headers) {
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
    const char *path = hand_made_path();
    float back[16];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hand_made_write(path, bad[i].header, bad[i].bytes);
        assert_fails(bad[i].code, bad[i].part, gs_safetensors_load(path, &hand_made, back));
        assert_non_null(strstr(gs_message(), "w.safetensors"));
    }
}

TEST(bad_metadata) {
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
    const char *path = hand_made_path();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gs_weights_info saved;
        hand_made_write(path, bad[i][0], 0);
        assert_fails(GS_E_FORMAT, bad[i][1], gs_safetensors_read_info(path, &saved));
        gs_weights_info_free(&saved);
    }
}

/* A truncated file of any length is rejected; a file with a flipped bit is rejected or loaded completely. */
TEST(damaged_anywhere) {
    const char *path = hand_made_path();
    unsigned char file[2000];
    float back[16];
    assert_ok(gs_safetensors_save(path, &hand_made, hand_made_values));
    size_t size = read_raw(path, file, sizeof file);
    for (size_t cut = 0; cut < size; cut++) {
        write_raw(path, file, cut);
        gs_status st = gs_safetensors_load(path, &hand_made, back);
        if (st != GS_E_FORMAT) fail_msg("cut at %zu of %zu: %s", cut, size, st ? gs_message() : "loaded");
    }
    int loaded = 0;
    for (size_t at = 0; at < size; at++)
        for (int bit = 0; bit < 8; bit++) {
            file[at] ^= (unsigned char)(1 << bit);
            write_raw(path, file, size);
            gs_status st = gs_safetensors_load(path, &hand_made, back);
            if (st == GS_OK) {
                assert_true(at >= 8); /* a wrong header length is always detected */
                assert_memory_equal(back, file + size - sizeof back, sizeof back);
                loaded++;
            } else if (st != GS_E_FORMAT && st != GS_E_SHAPE)
                fail_msg("wrong bit %d at %zu: %s", bit, at, gs_message());
            file[at] ^= (unsigned char)(1 << bit);
        }
    assert_true(loaded >= (int)sizeof hand_made_values * 8); /* a flipped bit in the data is not detected */
}
