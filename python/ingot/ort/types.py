"""Types of elements: ONNX Runtime's names, NumPy's and Ingot's."""

import numpy

_NAMES = {
    "f32": "float", "f64": "double", "f16": "float16", "bf16": "bfloat16", "i8": "int8", "i16": "int16", "i32": "int32",
    "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "bool": "bool",
    "i4": "int4", "u4": "uint4", "i2": "int2", "u2": "uint2", "f8e4m3fn": "float8e4m3fn", "f8e5m2": "float8e5m2",
    "f8e4m3fnuz": "float8e4m3fnuz", "f8e5m2fnuz": "float8e5m2fnuz", "f8e8m0": "float8e8m0", "f4e2m1": "float4e2m1",
}
_NUMPY = {
    "f32": numpy.float32, "f64": numpy.float64, "f16": numpy.float16, "i8": numpy.int8, "i16": numpy.int16,
    "i32": numpy.int32, "i64": numpy.int64, "u8": numpy.uint8, "u16": numpy.uint16, "u32": numpy.uint32,
    "u64": numpy.uint64, "bool": numpy.bool_,
}
# Of the package ml_dtypes.
_ML_DTYPES = {
    "bf16": "bfloat16", "i4": "int4", "u4": "uint4", "i2": "int2", "u2": "uint2", "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2fnuz": "float8_e5m2fnuz",
    "f8e8m0": "float8_e8m0fnu", "f4e2m1": "float4_e2m1fn",
}
# TensorProto.DataType, which I/O bindings may give instead of a NumPy type.
_ONNX = {
    1: "f32", 2: "u8", 3: "i8", 4: "u16", 5: "i16", 6: "i32", 7: "i64", 9: "bool", 10: "f16", 11: "f64", 12: "u32",
    13: "u64", 16: "bf16", 17: "f8e4m3fn", 18: "f8e4m3fnuz", 19: "f8e5m2", 20: "f8e5m2fnuz", 21: "u4", 22: "i4",
    23: "f4e2m1", 24: "f8e8m0", 25: "u2", 26: "i2",
}


def name(dtype):
    """'tensor(float)' for Ingot's 'f32'."""
    return f"tensor({_NAMES[str(dtype)]})"


def to_numpy(dtype):
    """NumPy's type; bfloat16 and narrow types are those of ml_dtypes."""
    if str(dtype) in _ML_DTYPES:
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, _ML_DTYPES[str(dtype)]))
    return numpy.dtype(_NUMPY[str(dtype)])


def of_numpy(dtype):
    """Ingot's name of a NumPy type; None: it has none."""
    dtype = numpy.dtype(dtype)
    for ours, theirs in _ML_DTYPES.items():
        if dtype.name == theirs:
            return ours
    return next((ours for ours, theirs in _NUMPY.items() if numpy.dtype(theirs) == dtype), None)


def of_any(element_type):
    """Ingot's name of a NumPy type or of a number of ONNX's."""
    if isinstance(element_type, (int, numpy.integer)) and not isinstance(element_type, bool):
        return _ONNX.get(int(element_type))
    return of_numpy(element_type)


def numpy_name(dtype):
    """'tensor(float)' for an array's type, for messages."""
    ours = of_numpy(dtype)
    return name(ours) if ours else f"tensor({numpy.dtype(dtype).name})"
