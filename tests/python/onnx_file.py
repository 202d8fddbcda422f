"""ONNX models as bytes, without the onnx package: just enough of protobuf's encoding."""

import numpy

FLOAT, INT64, BOOL, DOUBLE = 1, 7, 9, 11
_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11}


def _varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field, value):
    return _varint(field << 3) + _varint(value)


def _bytes(field, value):
    value = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _float(field, value):
    return _varint(field << 3 | 5) + numpy.float32(value).tobytes()


def _attribute(name, value):
    out = _bytes(1, name)
    if isinstance(value, (bool, int)):
        return out + _number(3, int(value)) + _number(20, 2)
    if isinstance(value, float):
        return out + _float(2, value) + _number(20, 1)
    if isinstance(value, str):
        return out + _bytes(4, value) + _number(20, 3)
    return out + b"".join(_number(8, x) for x in value) + _number(20, 7)


def node(op, inputs, outputs, domain="", **attributes):
    out = b"".join(_bytes(1, name) for name in inputs) + b"".join(_bytes(2, name) for name in outputs)
    out += _bytes(3, outputs[0]) + _bytes(4, op)
    out += b"".join(_bytes(5, _attribute(name, value)) for name, value in attributes.items())
    return out + (_bytes(7, domain) if domain else b"")


def tensor(name, array):
    array = numpy.asarray(array)
    out = b"".join(_number(1, dim) for dim in array.shape) + _number(2, _TYPES[array.dtype.name])
    return out + _bytes(8, name) + _bytes(9, array.tobytes())


def port(name, dtype, shape):
    """A dim is a number, a name, or None: without a name."""
    dims = b""
    for dim in shape:
        dims += _bytes(1, _number(1, dim) if isinstance(dim, int) else _bytes(2, dim) if dim else b"")
    kind = _number(1, _TYPES[numpy.dtype(dtype).name]) + _bytes(2, dims)
    return _bytes(1, name) + _bytes(2, _bytes(1, kind))


def model(nodes, inputs, outputs, initializers=(), metadata=None, opset=17, producer="tests", domains=()):
    """`inputs` and `outputs`: (name, dtype, shape). domains: of operators, in their first version, beside ONNX's."""
    graph = b"".join(_bytes(1, n) for n in nodes) + _bytes(2, "graph")
    graph += b"".join(_bytes(5, tensor(name, array)) for name, array in dict(initializers).items())
    graph += b"".join(_bytes(11, port(*x)) for x in inputs) + b"".join(_bytes(12, port(*x)) for x in outputs)
    out = _number(1, 8) + _bytes(2, producer) + _bytes(7, graph) + _bytes(8, _bytes(1, "") + _number(2, opset))
    out += b"".join(_bytes(8, _bytes(1, domain) + _number(2, 1)) for domain in domains)
    for key, value in (metadata or {}).items():
        out += _bytes(14, _bytes(1, key) + _bytes(2, value))
    return out
