/* Weights with the names of Hugging Face's GPT-2 (model/names.h). The test writes a file as transformers does, from the
 * names and shapes in tests/golden/gpt2.txt (tests/torch/gpt2.py), and compares logits with those there. */
#include "core/text.h"
#include "tests/support/files.h"
#include "tests/support/golden.h"
#include "tests/support/on_devices.h"
#include "tests/support/operators.h"
#include "tests/support/program.h"

enum { VOCABULARY = 40, CONTEXT = 16, WIDTH = 32, SEQUENCES = 6, PARTS = 28, ALL = 27264 };
static const char TEXT[] = "block layer = residual (layer_norm, linear 96, attention 4 causal, linear 32), "
                           "residual (layer_norm, linear 128, gelu tanh, linear 32); embedding 40 32, "
                           "positions, 2 x layer, layer_norm, ";

static gs_model *plan(const char *end, int context) {
    const char *text = gs_test_format("%s%s", TEXT, end);
    gs_model *m = gs_test_plan(text, (gs_shape){1, 1, 1, context});
    return m;
}

/* ---- a file as transformers writes it ---- */

typedef struct part {
    char name[GS_PARAM_NAME];
    int ndim, dims[2];
    size_t count;
} part;

/* The tensors of the golden file, in its order. */
static const part *tensors(void) {
    static part t[PARTS];
    char line[200];
    FILE *f = gs_test_open(gs_test_source("tests/golden/gpt2.txt"), "r");
    assert_non_null(fgets(line, sizeof line, f)); /* case names_and_shapes */
    for (int i = 0; i < PARTS; i++) {
        assert_non_null(fgets(line, sizeof line, f));
        t[i].ndim = sscanf(line, "%63s %d,%d", t[i].name, &t[i].dims[0], &t[i].dims[1]) - 1;
        assert_in_range(t[i].ndim, 1, 2);
        t[i].count = (size_t)t[i].dims[0] * (size_t)(t[i].ndim > 1 ? t[i].dims[1] : 1);
    }
    assert_int_equal(fgetc(f), 'c'); /* the next case */
    fclose(f);
    return t;
}

static float value(int i, size_t k) {
    return test_value(k, 100 + (uint32_t)i) / 4;
}

/* What a file contains besides the model's tensors, and what is wrong with it. */
typedef struct extra {
    const char *prefix;
    bool buffers;                       /* includes buffers for which the model has no tensor */
    bool output;                        /* lm_head.weight */
    const char *before_output, *shared; /* lm_head's prefix; what the metadata say about shared tensors */
    bool as_ours;                       /* the weights of linear layers are not transposed, as in nanoGPT */
    float difference;                   /* between the last element of lm_head.weight and that of the table */
    const char *drop;                   /* the name of a tensor to leave out */
    const char *reshape;                /* the name of a tensor whose dims are exchanged */
    int more_places;                    /* extra rows of wpe.weight, beyond the context */
    bool bf16;                          /* only the upper halves of the numbers */
} extra;

static void put_header(char *header, size_t size, const char *prefix, const char *name, int ndim,
                       const int *dims, size_t bytes, size_t *at) {
    size_t count = 1;
    gs_append(header, size, "%s\"%s%s\":{\"dtype\":\"%s\",\"shape\":[", header[1] ? "," : "", prefix, name,
              bytes == 2 ? "BF16" : "F32");
    for (int d = 0; d < ndim; d++) gs_append(header, size, "%s%d", d ? "," : "", dims[d]);
    for (int d = 0; d < ndim; d++) count *= (size_t)dims[d];
    gs_append(header, size, "],\"data_offsets\":[%zu,%zu]}", *at, *at + bytes * count);
    *at += bytes * count;
}

static const char *write_file(extra e) {
    enum { HEADER = 8000, MASK = CONTEXT * CONTEXT };
    static char header[HEADER];
    static float data[ALL + VOCABULARY * WIDTH + MASK + 8 * WIDTH];
    const char *prefix = e.prefix ? e.prefix : "", *path = in_folder(gs_test_folder(), "theirs.safetensors");
    const part *t = tensors();
    const size_t bytes = e.bf16 ? 2 : 4;
    size_t at = 0, floats = 0;
    strcpy(header, "{");
    for (int i = 0; i < PARTS; i++) {
        int dims[2] = {t[i].dims[0], t[i].dims[1]};
        const bool places = strcmp(t[i].name, "wpe.weight") == 0;
        const size_t more = places ? (size_t)(e.more_places * WIDTH) : 0;
        if (e.drop && strcmp(e.drop, t[i].name) == 0) continue;
        if (places) dims[0] += e.more_places;
        const bool turned = e.as_ours && t[i].ndim > 1 && *t[i].name == 'h';
        if (turned || (e.reshape && strcmp(e.reshape, t[i].name) == 0)) {
            dims[0] = t[i].dims[1];
            dims[1] = t[i].dims[0];
        }
        put_header(header, sizeof header, prefix, t[i].name, t[i].ndim, dims, bytes, &at);
        for (size_t k = 0; k < t[i].count + more; k++) {
            const size_t rows = (size_t)dims[0], columns = (size_t)dims[1];
            data[floats++] = value(i, turned ? k % columns * rows + k / columns : k);
        }
    }
    if (e.buffers) {
        put_header(header, sizeof header, prefix, "h.1.attn.bias", 4, (int[]){1, 1, CONTEXT, CONTEXT}, bytes,
                   &at);
        floats += MASK;
    }
    if (e.output) {
        put_header(header, sizeof header, e.before_output ? e.before_output : "", "lm_head.weight", 2,
                   t[0].dims, bytes, &at);
        for (size_t k = 0; k < t[0].count; k++) data[floats++] = value(0, k);
        data[floats - 1] += e.difference;
    }
    if (e.shared) gs_append(header, sizeof header, ",\"__metadata__\":{%s}", e.shared);
    strcat(header, "}");
    const uint64_t length = strlen(header);
    assert_true(length < HEADER - 1 && at == floats * bytes && floats <= sizeof data / sizeof *data);
    for (size_t k = 0; e.bf16 && k < floats; k++) memcpy((char *)data + 2 * k, (char *)&data[k] + 2, 2);
    write_safetensors(path, header, data, at);
    return path;
}

/* ---- loaded ---- */

static void logits_of_transformers_on(gs_device *d) {
    static float x[SEQUENCES * CONTEXT], w[ALL], got[SEQUENCES * CONTEXT * VOCABULARY];
    const extra files[] = {
        {.prefix = NULL},
        {.prefix = "transformer.", .buffers = true, .output = true},
        {.more_places = 3},
        {.prefix = "_orig_mod.transformer.", .output = true, .before_output = "_orig_mod."},
        {.prefix = "module.", .output = true, .before_output = "module."},
        {.prefix = "transformer.", .output = true, .drop = "wte.weight"},
        {.prefix = "_orig_mod.transformer.",
         .output = true,
         .before_output = "_orig_mod.",
         .drop = "wte.weight"},
        {.prefix = "transformer.",
         .output = true,
         .drop = "wte.weight",
         .shared = "\"transformer.wte.weight\":\"lm_head.weight\""},
        {.prefix = "transformer.", .shared = "\"lm_head.weight\":\"transformer.wte.weight\""},
        {.prefix = "transformer.", .as_ours = true},
    };
    const char *text = gs_test_format("%stied", TEXT);
    gs_model *m = gs_test_model(d, .text = text, .in = {1, 1, 1, CONTEXT}, .max_batch = SEQUENCES, .seed = 1);
    assert_int_equal(m->saved, ALL);
    for (size_t i = 0; i < SEQUENCES * CONTEXT; i++) x[i] = (float)(test_hash(i, SALT_X) % VOCABULARY);
    gs_mem from = gs_test_new_mem(d, x, SEQUENCES * CONTEXT), logits;
    gs_pass pass = {.n = SEQUENCES};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        assert_ok(gs_safetensors_load(write_file(files[i]), m, w));
        assert_ok(gs_model_write_weights(m, w));
        assert_ok(gs_model_forward(m, &pass, from, &logits));
        assert_ok(d->ops->read(d, got, logits, sizeof got));
        golden_check("gpt2", "logits", "logits", got, sizeof got / sizeof *got, 1e-5, d->name);
    }
}
ON_EVERY_DEVICE(logits_of_transformers)

/* Loading a BF16 file gives the same weights, rounded towards 0. */
TEST(bf16_loads) {
    static uint32_t whole[ALL], half[ALL];
    gs_model *m = plan("tied", CONTEXT);
    assert_ok(gs_safetensors_load(write_file((extra){.prefix = NULL}), m, (float *)whole));
    assert_ok(gs_safetensors_load(write_file((extra){.bf16 = true}), m, (float *)half));
    for (int i = 0; i < ALL; i++) assert_int_equal(half[i], whole[i] & 0xffff0000);
}

/* Weights saved with GPT-2's names have the names, shapes and values of the loaded file, and load again. Weights saved
 * with our own names also load again. */
TEST(saved_as_it_was) {
    static float w[ALL], back[ALL];
    const part *t = tensors();
    gs_model *m = plan("tied", CONTEXT), *ours = plan("tied", CONTEXT);
    assert_ok(gs_names_rename(m, GS_NAMES_HUGGINGFACE));
    assert_int_equal(m->saved_count, PARTS);
    for (int i = 0; i < PARTS; i++) assert_string_equal(m->param[i]->name, t[i].name);
    assert_ok(gs_safetensors_load(write_file((extra){.prefix = NULL}), m, w));

    const char *path = in_folder(gs_test_folder(), "ours.safetensors");
    assert_ok(gs_safetensors_save(path, m, w));
    FILE *f = fopen(path, "rb");
    uint64_t length;
    float number;
    assert_non_null(f);
    assert_int_equal(fread(&length, sizeof length, 1, f), 1);
    fseek(f, (long)length, SEEK_CUR);
    for (int i = 0; i < PARTS; i++)
        for (size_t k = 0; k < t[i].count; k++) {
            assert_int_equal(fread(&number, sizeof number, 1, f), 1);
            if (number != value(i, k)) fail_msg("%s[%zu] is %g", t[i].name, k, (double)number);
        }
    fclose(f);

    for (int own = 0; own < 2; own++) {
        if (own) assert_ok(gs_safetensors_save(path, ours, w));
        memset(back, 0, sizeof back);
        assert_ok(gs_safetensors_check(path, ours));
        assert_ok(gs_safetensors_load(path, ours, back));
        assert_memory_equal(back, w, sizeof w);
    }
}

/* A model that is planned for fewer tokens takes only the first rows of the position table. */
TEST(a_shorter_context) {
    static float w[ALL];
    gs_model *m = plan("tied", 5);
    assert_ok(gs_safetensors_load(write_file((extra){.prefix = NULL}), m, w));
    assert_int_equal(m->param[1]->count, 5 * WIDTH);
    for (size_t k = 0; k < m->param[1]->count; k++) assert_true(w[m->param[1]->at + k] == value(1, k));
    assert_true(w[m->param[2]->at + 1] == value(2, 1));
}

/* A separate output layer has its own tensor in the model. */
TEST(an_output_of_its_own) {
    static float w[ALL + VOCABULARY * WIDTH];
    gs_model *m = plan("linear 40 no_bias", CONTEXT);
    const extra files[] = {{.output = true, .difference = 1}, {.prefix = "transformer.", .output = true}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        assert_ok(gs_safetensors_load(write_file(files[i]), m, w));
        assert_true(w[m->param[PARTS]->at + 1] == value(0, 1)); /* not transposed */
    }
    /* one tensor in the file, two in the model */
    const extra one[] = {
        {.prefix = "transformer.", .shared = "\"lm_head.weight\":\"transformer.wte.weight\""},
        {.prefix = "transformer.",
         .output = true,
         .drop = "wte.weight",
         .shared = "\"transformer.wte.weight\":\"lm_head.weight\""}};
    for (size_t i = 0; i < sizeof one / sizeof *one; i++) {
        assert_ok(gs_safetensors_load(write_file(one[i]), m, w));
        assert_memory_equal(w + m->param[PARTS]->at, w + m->param[0]->at, VOCABULARY * WIDTH * sizeof *w);
    }
    assert_fails(GS_E_SHAPE, "wte.weight is missing in",
                 gs_safetensors_load(write_file((extra){.output = true, .drop = "wte.weight"}), m, w));
    assert_fails(GS_E_SHAPE, "lm_head.weight is missing in",
                 gs_safetensors_load(write_file((extra){.prefix = NULL}), m, w));
}

/* ---- refused ---- */

TEST(wrong_files) {
    static float w[2 * ALL];
    const struct {
        const char *end;
        int context;
        extra file;
        const char *message;
    } wrong[] = {
        {"tied",
         CONTEXT,
         {.output = true, .difference = 1},
         "lm_head.weight differs from wte.weight, but the model's output layer is tied to its embedding"},
        {"tied", CONTEXT, {.drop = "h.1.ln_2.bias"}, "h.1.ln_2.bias is missing in"},
        {"tied", CONTEXT, {.reshape = "h.1.mlp.c_fc.weight"}, "h.1.mlp.c_fc.weight is (128,32) in"},
        {"tied", CONTEXT, {.reshape = "h.0.attn.c_attn.weight"}, "h.0.mlp.c_fc.weight is (32,128) in"},
        {"tied", CONTEXT, {.prefix = "a.", .output = true, .before_output = "b."}, "0.weight is missing in"},
        {"tied", CONTEXT + 1, {.prefix = NULL}, "wpe.weight is (16,32) in"},
        {"tied", CONTEXT + 1, {.prefix = NULL}, "; the model has (17,32)"},
        {"tied, linear 3", CONTEXT, {.prefix = NULL}, "0.weight is missing in"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gs_model *m = plan(wrong[i].end, wrong[i].context);
        assert_fails(GS_E_SHAPE, wrong[i].message, gs_safetensors_load(write_file(wrong[i].file), m, w));
    }
    /* a model of a different size: the message names the first tensor that differs */
    gs_model *m = gs_test_plan("gpt", (gs_shape){1, 1, 1, CONTEXT});
    assert_fails(GS_E_SHAPE, "wte.weight is (40,32) in",
                 gs_safetensors_check(write_file((extra){.prefix = NULL}), m));
    m = gs_test_plan("gpt 40", (gs_shape){1, 1, 1, CONTEXT});
    assert_fails(GS_E_SHAPE, "; the model has (40,128)",
                 gs_safetensors_check(write_file((extra){.prefix = NULL}), m));
    m = gs_test_plan("mlp", (gs_shape){1, 28, 28, 0});
    assert_fails(GS_E_SHAPE, "1.weight is missing in",
                 gs_safetensors_check(write_file((extra){.prefix = NULL}), m));
}

#define EMBEDDED "embedding 9 4, positions, "
#define ATTENTION(what) "residual (layer_norm, linear 12, " what ", linear 4), "
#define MLP(what) "residual (layer_norm, linear 16, " what ", linear 4), "
#define BLOCK ATTENTION("attention 2 causal") MLP("gelu")

TEST(a_note_prints_the_config) {
    static const char *const texts[][2] = {
        {BLOCK BLOCK "layer_norm, tied",
         "\"n_layer\": 2, \"n_head\": 2, \"n_inner\": 16, "
         "\"activation_function\": \"gelu\", \"tie_word_embeddings\": true\n"},
        {ATTENTION("attention 4 causal") "residual (layer_norm, linear 8, gelu tanh, linear 4), "
                                         "layer_norm, linear 155 no_bias",
         "\"n_layer\": 1, \"n_head\": 4, \"n_inner\": 8, \"activation_function\": \"gelu_new\", "
         "\"tie_word_embeddings\": false\n"},
    };
    static const char *const workers[] = {"--threads 1", "--devices cpu,cpu --pipeline 2 --micro-batches 2"};
    for (size_t i = 0; i < 4; i++)
        assert_has(
            gs_test_shell_output(
                0,
                "COLUMNS=999 %s/gradsum train --data jargon --context 3 --steps 1 --batch 2 --tests 0 %s "
                "--names huggingface --save %s --model 'embedding 155 4, positions, %s' 2>&1",
                GS_BUILD_DIR, workers[i / 2], in_folder(gs_test_folder(), "config.safetensors"),
                texts[i % 2][0]),
            "\"model_type\": \"gpt2\", \"vocab_size\": 155, \"n_positions\": 3, \"n_embd\": 4, ",
            texts[i % 2][1]);
}

TEST(models_without_names) {
    static const char *const wrong[][2] = {
        {"embedding 9 4, tied", "for layer 0, sequential"},
        {"linear 4, positions, layer_norm, linear 4, tanh", "for layer 0, linear"},
        {"embedding 9 4, layer_norm, tanh, layer_norm, tied", "for layer 1, layer_norm"},
        {"embedding 9 4, positions, residual (layer_norm, tanh), layer_norm, tied", "for layer 2, residual"},
        {"embedding 9 4, positions, residual (layer_norm, linear 12, attention 2, linear 4), layer_norm, "
         "tied",
         "for layer 3, layer_norm"},
        {"embedding 9 4, positions, residual (layer_norm, linear 12, attention 2, linear 4), "
         "residual (layer_norm, linear 12, linear 12, linear 4), layer_norm, tied",
         "for layer 3.body.2, linear"},
        {"embedding 9 4, positions, layer_norm, tied, linear 2", "for layer 4, linear"},
        {"embedding 9 4, positions, relu, tanh, layer_norm", "for layer 2, relu"},
        /* the names fit, but GPT-2 computes another function */
        {EMBEDDED ATTENTION("attention 2") MLP("gelu tanh") "layer_norm, tied",
         "layer 2.body.2, attention 2, "},
        {EMBEDDED ATTENTION("relu") MLP("gelu") "layer_norm, tied", "layer 2.body.2, relu, "},
        {EMBEDDED ATTENTION("attention 2 causal") MLP("dropout 0.1") "layer_norm, tied",
         "layer 3.body.2, dropout 0.1, of this model: wanted gelu, gelu tanh, relu, "},
        {EMBEDDED BLOCK "layer_norm, linear 9",
         "layer 5, a linear layer with a bias, of this model: wanted no_bias"},
        {EMBEDDED BLOCK "layer_norm, tied, tanh", "layer 6, tanh, of this model: wanted nothing after"},
        {EMBEDDED BLOCK ATTENTION("attention 4 causal") MLP("gelu") "layer_norm, tied",
         "layer 4.body.2, attention 4 causal, of this model: wanted attention 2 causal, as in the block "
         "before"},
        {EMBEDDED BLOCK ATTENTION("attention 2 causal") MLP("relu") "layer_norm, tied",
         "layer 5.body.2, relu, "},
        {EMBEDDED
         "residual (layer_norm, linear 24, attention 2 causal, linear 4), " MLP("gelu") "layer_norm, tied",
         "layer 2.body.1, linear, of this model: wanted three outputs for each input"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gs_model *m;
        const gs_shape in =
            strstr(wrong[i][0], "embedding") ? (gs_shape){1, 1, 1, 3} : (gs_shape){4, 1, 1, 3};
        gs_status planned = gs_model_create(NULL, &(gs_model_config){.text = wrong[i][0], .in = in}, &m);
        assert_fails(GS_E_USAGE, "Hugging Face's GPT-2 ",
                     planned == GS_OK ? gs_names_rename(m, GS_NAMES_HUGGINGFACE) : planned);
        assert_non_null(strstr(gs_message(), wrong[i][1]));
        gs_model_free(m);
    }
}
