/* What the two halves of the parser share: model_text.c has the layers, model_blocks.c what holds them. */
#pragma once

#include "layer/layer.h"
#include "model/words.h"

enum { GS_PARSER_BLOCKS = 64 };

typedef struct gs_parser {
    gs_words words;
    gs_block block[GS_PARSER_BLOCKS];
    int blocks; /* that the present place may name: those before it */
    int depth, layers;
    int uses; /* of blocks, so far */
} gs_parser;

/* ---- model_text.c ---- */

/* One layer; *kind is for gs_parse_layer_ends. */
gs_status gs_parse_layer(gs_parser *, int *kind, gs_layer **out);

/* After a layer of this kind: fails if neither a comma nor another sign nor the end follows. `end`: what may follow
 * besides a comma, for the message. */
gs_status gs_parse_layer_ends(const gs_parser *, const char *end, int kind);
bool gs_parse_is_end(const gs_parser *);

/* Has the grammar given this word a meaning? */
bool gs_parse_is_reserved(gs_word);

/* ---- model_blocks.c ---- */

/* A list of layers as a `sequential`, up to a word that cannot follow. */
gs_status gs_parse_model(gs_parser *, const char *end, gs_layer **net);

/* One more level of parentheses or blocks: fails if there are too many. */
gs_status gs_parse_deeper(gs_parser *);
