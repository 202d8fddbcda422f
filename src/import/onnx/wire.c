/*
 * Checks the nesting of subgraphs on the wire form. protobuf-c unpacks recursively without a limit, so a small file of
 * subgraphs within subgraphs could exhaust the stack before any other check. This walk follows the one recursive path
 * of our schema (graph, node, attribute, graph) and nothing else. Malformed messages are left for protobuf-c to refuse.
 * Source: protobuf.dev, "Encoding".
 */
#include "import/onnx/importer.h"

enum kind { MODEL, GRAPH, NODE, ATTRIBUTE, FUNCTION };

/* The fields that the walk enters. */
static const struct step {
    enum kind from;
    uint64_t field;
    enum kind to;
} steps[] = {
    {MODEL, 7, GRAPH},     {MODEL, 25, FUNCTION}, {GRAPH, 1, NODE},          {NODE, 5, ATTRIBUTE},
    {ATTRIBUTE, 6, GRAPH}, {FUNCTION, 7, NODE},   {FUNCTION, 11, ATTRIBUTE},
};

struct cursor {
    const uint8_t *at, *end;
};

static bool read_varint(struct cursor *cursor, uint64_t *out) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && cursor->at < cursor->end; shift += 7) {
        uint8_t byte = *cursor->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    return false;
}

/* Reads a field's tag and skips its contents; *out_body: the contents, if length-delimited. */
static bool read_field(struct cursor *cursor, uint64_t *out_field, struct cursor *out_body) {
    uint64_t tag, length;
    *out_body = (struct cursor){NULL, NULL};
    if (!read_varint(cursor, &tag)) return false;
    *out_field = tag >> 3;
    switch (tag & 7) {
    case 0: return read_varint(cursor, &length);
    case 1: length = 8; break;
    case 5: length = 4; break;
    case 2:
        if (!read_varint(cursor, &length)) return false;
        if (length > (uint64_t)(cursor->end - cursor->at)) return false;
        *out_body = (struct cursor){cursor->at, cursor->at + length};
        break;
    default: return false;
    }
    if (length > (uint64_t)(cursor->end - cursor->at)) return false;
    cursor->at += length;
    return true;
}

static void walk(struct ig_job *job, enum kind kind, struct cursor cursor, int depth) {
    if (depth > IG_ONNX_MAX_NESTING) {
        ig_raise(job, INGOT_UNSUPPORTED, "subgraphs are nested more than %d deep", IG_ONNX_MAX_NESTING);
    }
    uint64_t field;
    struct cursor body;
    while (cursor.at < cursor.end && read_field(&cursor, &field, &body)) {
        if (!body.at) continue;
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            if (steps[i].from != kind || steps[i].field != field) continue;
            walk(job, steps[i].to, body, depth + (steps[i].to == GRAPH));
        }
    }
}

void ig_onnx_check_nesting(struct ig_job *job, const uint8_t *data, size_t size) {
    walk(job, MODEL, (struct cursor){data, data + size}, 0);
}
