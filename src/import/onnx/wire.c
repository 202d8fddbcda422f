/*
 * Two things that must happen on the wire form, before protobuf-c unpacks it.
 *
 * protobuf-c copies every field. So the large ones, the elements of tensors in `raw_data`, are cut out: it gets the
 * message with an index in place of each, and the elements are read where they lie, in the mapped file. The messages
 * around them get shorter, and with them the lengths that the format puts before each message.
 *
 * It also unpacks recursively without a limit, so a small file of subgraphs within subgraphs could exhaust the stack:
 * their nesting is checked here.
 *
 * The walk enters the messages that our schema has, by protobuf-c's own description of it, and reads the same encodings as
 * protobuf-c; a file that is malformed for this walk is left as it is, for protobuf-c to judge. Source: protobuf.dev,
 * "Encoding".
 */
#include <limits.h>
#include <string.h>

#include "import/onnx/importer.h"
#include "import/onnx/wire.h"

struct cut {
    struct ig_job *job;
    uint8_t *to; /* NULL: only counts */
    size_t size;
    ProtobufCBinaryData *raw;
    uint32_t n_raw;
    bool is_malformed;
};

static bool read_varint(struct ig_wire_cursor *cursor, unsigned most_bytes, uint64_t *out) {
    uint64_t value = 0;
    for (unsigned i = 0; i < most_bytes && cursor->at < cursor->end; i++) {
        uint8_t byte = *cursor->at++;
        value |= (uint64_t)(byte & 0x7f) << 7 * i;
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    return false;
}

bool ig_wire_read(struct ig_wire_cursor *cursor, struct ig_wire_field *out) {
    uint64_t tag, length;
    *out = (struct ig_wire_field){.begin = cursor->at};
    if (!read_varint(cursor, 5, &tag)) return false;
    out->number = tag >> 3;
    out->behind_tag = cursor->at;
    switch (tag & 7) {
    case PROTOBUF_C_WIRE_TYPE_VARINT: return read_varint(cursor, 10, &length);
    case PROTOBUF_C_WIRE_TYPE_64BIT: length = 8; break;
    case PROTOBUF_C_WIRE_TYPE_32BIT: length = 4; break;
    case PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED:
        if (!read_varint(cursor, 5, &length) || length > INT_MAX) return false;
        if (length > (uint64_t)(cursor->end - cursor->at)) return false;
        out->body = (struct ig_wire_cursor){cursor->at, cursor->at + length};
        break;
    default: return false;
    }
    if (length > (uint64_t)(cursor->end - cursor->at)) return false;
    cursor->at += length;
    return true;
}

/* ---- Writing */

static void put(struct cut *cut, const uint8_t *bytes, size_t size) {
    if (cut->to && size > 0) memcpy(cut->to + cut->size, bytes, size);
    cut->size += size;
}

/* Room for a length of any size. */
enum { LENGTH_BYTES = 5 };

static void put_length(struct cut *cut, size_t at, size_t length) {
    for (int i = 0; cut->to && i < LENGTH_BYTES; i++)
        cut->to[at + (size_t)i] = (uint8_t)(length >> 7 * i & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0);
}

static void put_index(struct cut *cut, const struct ig_wire_field *field) {
    const uint32_t index = cut->n_raw++;
    const uint8_t length = sizeof index;
    if (cut->to)
        cut->raw[index] =
            (ProtobufCBinaryData){(size_t)(field->body.end - field->body.at), (uint8_t *)(uintptr_t)field->body.at};
    put(cut, field->begin, (size_t)(field->behind_tag - field->begin));
    put(cut, &length, sizeof length);
    put(cut, (const uint8_t *)&index, sizeof index);
}

static void put_message(struct cut *cut, const ProtobufCMessageDescriptor *type, struct ig_wire_cursor from,
                        int depth) {
    struct ig_wire_field field;
    depth += type == &onnx__graph_proto__descriptor;
    if (depth > IG_ONNX_MAX_NESTING)
        ig_raise(cut->job, INGOT_UNSUPPORTED, "subgraphs are nested more than %d deep", IG_ONNX_MAX_NESTING);
    while (from.at < from.end) {
        if (!ig_wire_read(&from, &field)) {
            cut->is_malformed = true;
            return;
        }
        const ProtobufCFieldDescriptor *known = NULL;
        if (field.body.at) known = protobuf_c_message_descriptor_get_field(type, (unsigned)field.number);
        if (known && known->type == PROTOBUF_C_TYPE_MESSAGE) {
            put(cut, field.begin, (size_t)(field.behind_tag - field.begin));
            const size_t at = cut->size;
            cut->size += LENGTH_BYTES;
            put_message(cut, known->descriptor, field.body, depth);
            put_length(cut, at, cut->size - at - LENGTH_BYTES);
        } else if (known && type == &onnx__tensor_proto__descriptor &&
                   known->offset == offsetof(Onnx__TensorProto, raw_data)) {
            put_index(cut, &field);
        } else {
            put(cut, field.begin, (size_t)(from.at - field.begin));
        }
    }
}

struct ig_onnx_message ig_onnx_cut(struct ig_job *job, const uint8_t *data, size_t size) {
    const struct ig_wire_cursor whole = {data, data + size};
    struct cut cut = {.job = job};
    put_message(&cut, &onnx__model_proto__descriptor, whole, 0);
    if (cut.is_malformed || cut.n_raw == 0 || cut.size > INT_MAX) return (struct ig_onnx_message){data, size, NULL, 0};
    cut.to = ig_alloc(job, cut.size);
    cut.raw = IG_NEW_ARRAY(job, ProtobufCBinaryData, cut.n_raw);
    cut.size = cut.n_raw = 0;
    put_message(&cut, &onnx__model_proto__descriptor, whole, 0);
    return (struct ig_onnx_message){cut.to, cut.size, cut.raw, cut.n_raw};
}
