/* Fields of messages as they lie in a file. Source: protobuf.dev, "Encoding". */
#ifndef IG_IMPORT_ONNX_WIRE_H
#define IG_IMPORT_ONNX_WIRE_H

#include <stdbool.h>
#include <stdint.h>

struct ig_wire_cursor {
    const uint8_t *at, *end;
};

struct ig_wire_field {
    uint64_t number;
    const uint8_t *begin, *behind_tag;
    struct ig_wire_cursor body; /* if length-delimited; else NULL */
};

/* Reads a field's tag and skips its contents. False: it is malformed. */
bool ig_wire_read(struct ig_wire_cursor *inout_cursor, struct ig_wire_field *out_field);

#endif
