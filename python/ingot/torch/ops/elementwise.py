"""Elementwise operators."""

import math

from .. import dims
from ..dtypes import FLOATS, UNSIGNED
from ..errors import Unsupported
from ..registry import TABLE, find, register

# ---- One operand


def _same(op):
    """An operator of Ingot's that computes in the result's type."""

    def function(b, x):
        return b.op(op, b.cast(x, b.dtype))

    return function


for _name in """sqrt exp log log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf sigmoid""".split():
    TABLE[find(_name)] = _same(_name)
TABLE[find("special_ndtr")] = _same("normcdf")


def _integral(op):
    """An operator that leaves integers as they are."""

    def function(b, x):
        return b.op(op, x) if x.dtype in FLOATS else x

    return function


for _name in ("floor", "ceil"):
    TABLE[find(_name)] = _integral(_name)


@register("round", "round.decimals")
def _round(b, x, *, decimals=0):
    if x.dtype not in FLOATS:
        if decimals < 0:
            raise Unsupported("rounding integers to tens")
        return x
    if decimals == 0:
        return b.op("round", x)
    x, scale = b.cast(x, b.compute), 10.0 ** abs(decimals)
    if decimals > 0:
        return b.div(b.op("round", b.mul(x, scale)), scale)
    return b.mul(b.op("round", b.div(x, scale)), scale)


def _truncated(b, x):
    return b.where(b.lt(x, 0), b.op("ceil", x), b.op("floor", x))


@register("trunc")
def _trunc(b, x):
    return _truncated(b, x) if x.dtype in FLOATS else x


@register("frac")
def _frac(b, x):
    return b.sub(x, _truncated(b, x))


@register("neg")
def _neg(b, x):
    return b.op("neg", x)


@register("abs")
def _abs(b, x):
    return x if x.dtype in ("bool", *UNSIGNED) else b.op("abs", x)


@register("positive", "conj_physical", "real", "_conj")
def _positive(b, x):
    return x


@register("sign", "sgn")
def _sign(b, x):
    if x.dtype == "bool":
        return x
    one = b.number(1, x.dtype)
    positive = b.where(b.lt(0, x), one, 0)
    return positive if x.dtype in UNSIGNED else b.where(b.lt(x, 0), b.number(-1, x.dtype), positive)


@register("signbit")
def _signbit(b, x):
    if x.dtype in ("bool", *UNSIGNED):
        return b.op("not", b.eq(x, x))
    return _is_negative(b, x) if x.dtype in FLOATS else b.lt(x, 0)


def _is_negative(b, x):
    """The sign of floating-point numbers, zeros too; a NaN counts as positive."""
    zero = b.eq(x, 0)
    return b.either(b.lt(x, 0), b.both(zero, b.lt(b.div(1.0, x), 0)))


@register("expm1", "special_expm1")
def _expm1(b, x):
    x = b.cast(x, b.compute)
    t = b.op("tanh", b.mul(x, 0.5))
    near_zero = b.div(b.mul(t, 2.0), b.sub(1.0, t))
    return b.where(b.lt(b.op("abs", x), 0.5), near_zero, b.sub(b.op("exp", x), 1.0))


@register("exp2")
def _exp2(b, x):
    x = b.cast(x, b.compute)
    return b.op("pow", b.number(2.0, x.dtype), x)


@register("log2", factor=1 / math.log(2))
@register("log10", factor=1 / math.log(10))
def _log_scaled(b, x, factor):
    return b.mul(b.op("log", b.cast(x, b.compute)), factor)


@register("erfc", "special_erfc")
def _erfc(b, x):
    return b.mul(b.op("normcdf", b.mul(b.cast(x, b.compute), -math.sqrt(2))), 2.0)


@register("rsqrt")
def _rsqrt(b, x):
    return b.div(1.0, b.op("sqrt", b.cast(x, b.compute)))


@register("reciprocal")
def _reciprocal(b, x):
    return b.div(1.0, b.cast(x, b.dtype))


@register("deg2rad", factor=math.pi / 180)
@register("rad2deg", factor=180 / math.pi)
def _scaled(b, x, factor):
    return b.mul(b.cast(x, b.compute), factor)


@register("square")
def _square(b, x):
    x = b.cast(x, b.dtype)
    return b.mul(x, x)


@register("sinc")
def _sinc(b, x):
    x = b.mul(b.cast(x, b.compute), math.pi)
    return b.where(b.eq(x, 0), 1.0, b.div(b.op("sin", x), x))


@register("logit")
def _logit(b, x, eps=None):
    x = b.cast(x, b.compute)
    if eps is not None:
        x = b.min(b.max(x, eps), 1 - eps)
    return b.op("log", b.div(x, b.sub(1.0, x)))


@register("isnan")
def _isnan(b, x):
    return b.op("isnan", x) if x.dtype in FLOATS else _never(b, x)


@register("isinf")
def _isinf(b, x):
    return b.op("isinf", x) if x.dtype in FLOATS else _never(b, x)


def _never(b, x):
    return b.op("not", b.eq(x, x))


@register("isposinf", sign=1)
@register("isneginf", sign=-1)
def _is_signed_inf(b, x, sign):
    return b.eq(x, sign * math.inf) if x.dtype in FLOATS else _never(b, x)


@register("isfinite")
def _isfinite(b, x):
    if x.dtype not in FLOATS:
        return b.eq(x, x)
    return b.op("not", b.either(b.op("isnan", x), b.op("isinf", x)))


@register("nan_to_num")
def _nan_to_num(b, x, nan=None, posinf=None, neginf=None):
    if x.dtype not in FLOATS:
        return x
    largest = {
        "f32": 3.4028234663852886e38,
        "f64": 1.7976931348623157e308,
        "f16": 65504.0,
        "bf16": 3.3895313892515355e38,
    }
    posinf = largest[x.dtype] if posinf is None else posinf
    neginf = -largest[x.dtype] if neginf is None else neginf
    y = b.where(b.op("isnan", x), 0.0 if nan is None else nan, x)
    return b.where(b.eq(x, math.inf), posinf, b.where(b.eq(x, -math.inf), neginf, y))


@register("angle")
def _angle(b, x):
    """Of real numbers: pi of negative ones."""
    x = b.cast(x, b.dtype)
    return b.where(b.op("isnan", x), x, b.where(b.lt(x, 0), b.number(math.pi, x.dtype), 0.0))


@register("frexp.Tensor")
def _frexp(b, x):
    """(mantissa between 1/2 and 1, exponent), exactly: f64 has room for all powers of two that f32 needs."""
    if x.dtype == "f64":
        raise Unsupported("frexp of f64")
    wide = b.cast(x, "f64")
    size = b.op("abs", wide)
    plain = b.negate(b.either(b.eq(size, 0), b.either(b.op("isnan", x), b.op("isinf", x))))
    power = b.op("floor", b.mul(b.op("log", b.where(plain, size, 1.0)), 1 / math.log(2)))  # or one off
    power = b.add(power, 1.0)
    mantissa = b.div(wide, b.op("pow", b.number(2.0, "f64"), power))
    large, small = b.le(1.0, b.op("abs", mantissa)), b.lt(b.op("abs", mantissa), 0.5)
    power = b.where(large, b.add(power, 1.0), b.where(small, b.sub(power, 1.0), power))
    mantissa = b.where(large, b.mul(mantissa, 0.5), b.where(small, b.mul(mantissa, 2.0), mantissa))
    return b.where(plain, mantissa, wide), b.cast(b.where(plain, power, 0.0), "i32")


@register("logical_not")
def _logical_not(b, x):
    return b.op("not", b.cast(x, "bool"))


@register("bitwise_not")
def _bitwise_not(b, x):
    return b.op("not" if x.dtype == "bool" else "bitnot", x)


@register("_to_copy", "to.dtype")
def _to_copy(b, x, *rest, **options):
    if x.dtype in FLOATS and b.dtype not in FLOATS and b.dtype != "bool" and b.dtype in UNSIGNED:
        return b.cast(b.cast(x, "i64"), b.dtype)  # negative numbers wrap
    return b.cast(x, b.dtype)


@register("prims::convert_element_type")
def _convert(b, x, dtype):
    return _to_copy(b, x)


@register("clone", "alias", "detach", "lift_fresh_copy", "lift_fresh", "contiguous", "alias_copy", "detach_copy")
@register("lift", "_lazy_clone", "prims::clone", "resolve_conj", "resolve_neg")
def _copy_of(b, x, **options):
    return x


@register("dropout", "native_dropout", "alpha_dropout", "feature_dropout")
def _dropout(b, x, p, train):
    if train and p > 0:
        raise Unsupported("dropout in training mode")
    return (x, None) if len(b.outputs) == 2 else x


# ---- Two operands


def _scaled_operand(b, y, alpha):
    return y if alpha == 1 else b.mul(b.tensor(y, b.dtype), alpha)


@register("add.Tensor", "add.Scalar")
def _add(b, x, y, *args, alpha=1):
    alpha = args[0] if args else alpha
    if b.dtype == "bool":
        return b.op("or", *b.promoted(x, y)) if alpha else b.tensor(x, "bool")
    return b.add(b.tensor(x, b.dtype), _scaled_operand(b, b.tensor(y, b.dtype), alpha))


@register("sub.Tensor", "sub.Scalar")
def _sub(b, x, y, *args, alpha=1):
    alpha = args[0] if args else alpha
    return b.sub(b.tensor(x, b.dtype), _scaled_operand(b, b.tensor(y, b.dtype), alpha))


@register("rsub.Tensor", "rsub.Scalar")
def _rsub(b, x, y, *args, alpha=1):
    alpha = args[0] if args else alpha
    return b.sub(b.tensor(y, b.dtype), _scaled_operand(b, b.tensor(x, b.dtype), alpha))


@register("mul.Tensor", "mul.Scalar")
def _mul(b, x, y):
    return b.op("and" if b.dtype == "bool" else "mul", b.tensor(x, b.dtype), b.tensor(y, b.dtype))


@register("div.Tensor", "div.Scalar")
def _div(b, x, y):
    return b.div(b.tensor(x, b.dtype), b.tensor(y, b.dtype))


@register("div.Tensor_mode", "div.Scalar_mode")
def _div_mode(b, x, y, *, rounding_mode=None):
    x, y = b.tensor(x, b.dtype), b.tensor(y, b.dtype)
    if rounding_mode == "floor":
        return _floor_divide(b, x, y)
    if rounding_mode is None or b.dtype not in FLOATS:
        return b.div(x, y)
    return _truncated(b, b.div(x, y))


@register("floor_divide", "floor_divide.Scalar")
def _floor_div(b, x, y):
    return _floor_divide(b, b.tensor(x, b.dtype), b.tensor(y, b.dtype))


def _floor_divide(b, x, y):
    """Rounds down, as PyTorch does: from the exact remainder."""
    if b.dtype not in FLOATS:
        return b.div(b.sub(x, b.op("mod", x, y)), y)
    dtype = x.dtype
    x, y = b.cast(x, b.compute), b.cast(y, b.compute)
    remainder = b.op("fmod", x, y)
    quotient = b.div(b.sub(x, remainder), y)
    differ = b.both(b.op("not", b.eq(remainder, 0)), b.op("xor", b.lt(y, 0), b.lt(remainder, 0)))
    quotient = b.where(differ, b.sub(quotient, 1.0), quotient)
    result = b.op("floor", b.add(quotient, 0.0))
    result = b.where(b.lt(0.5, b.sub(quotient, result)), b.add(result, 1.0), result)
    return b.cast(b.where(b.eq(y, 0), b.div(x, y), result), dtype)


@register("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def _remainder(b, x, y):
    x, y = b.tensor(x, b.dtype), b.tensor(y, b.dtype)
    if b.dtype not in FLOATS:
        return b.op("mod", x, y)
    remainder = b.op("fmod", x, y)
    differ = b.both(b.op("not", b.eq(remainder, 0)), b.op("xor", b.lt(y, 0), b.lt(remainder, 0)))
    return b.where(differ, b.add(remainder, y), remainder)


@register("fmod.Tensor", "fmod.Scalar")
def _fmod(b, x, y):
    return b.op("fmod", b.tensor(x, b.dtype), b.tensor(y, b.dtype))


@register("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def _pow(b, x, y):
    x = b.tensor(x, b.dtype)
    if isinstance(y, (int, float)) and not isinstance(y, bool):
        if y == 2:
            return b.mul(x, x)
        if y == 3:
            return b.mul(b.mul(x, x), x)
        if y == 0.5 and b.dtype in FLOATS:
            return b.op("sqrt", x)
        if y == 1:
            return x
        if y == -1 and b.dtype in FLOATS:
            return b.div(1.0, x)
    return b.op("pow", x, b.tensor(y, b.dtype))


@register("maximum", op="max", logical="or")
@register("minimum", op="min", logical="and")
def _extremum(b, x, y, op, logical):
    return b.op(logical if b.dtype == "bool" else op, b.tensor(x, b.dtype), b.tensor(y, b.dtype))


@register("fmax", op="max", logical="or")
@register("fmin", op="min", logical="and")
def _extremum_of_numbers(b, x, y, op, logical):
    x, y = b.tensor(x, b.dtype), b.tensor(y, b.dtype)
    if b.dtype not in FLOATS:
        return b.op(logical if b.dtype == "bool" else op, x, y)
    return b.where(b.op("isnan", x), y, b.where(b.op("isnan", y), x, b.op(op, x, y)))


def _comparable(b, x, y):
    x, y = b.promoted(x, y)
    return (b.cast(x, "u8"), b.cast(y, "u8")) if x.dtype == "bool" else (x, y)


@register("eq.Tensor", "eq.Scalar")
def _eq(b, x, y):
    return b.op("eq", *_comparable(b, x, y))


@register("ne.Tensor", "ne.Scalar")
def _ne(b, x, y):
    return b.op("not", b.op("eq", *_comparable(b, x, y)))


@register("lt.Tensor", "lt.Scalar")
def _lt(b, x, y):
    return b.op("lt", *_comparable(b, x, y))


@register("le.Tensor", "le.Scalar")
def _le(b, x, y):
    return b.op("le", *_comparable(b, x, y))


@register("gt.Tensor", "gt.Scalar")
def _gt(b, x, y):
    x, y = _comparable(b, x, y)
    return b.op("lt", y, x)


@register("ge.Tensor", "ge.Scalar")
def _ge(b, x, y):
    x, y = _comparable(b, x, y)
    return b.op("le", y, x)


@register("logical_and", op="and")
@register("logical_or", op="or")
@register("logical_xor", op="xor")
def _logical(b, x, y, op):
    return b.op(op, b.tensor(x, "bool"), b.tensor(y, "bool"))


@register("bitwise_and.Tensor", "bitwise_and.Scalar", "bitwise_and.Scalar_Tensor", op="and")
@register("bitwise_or.Tensor", "bitwise_or.Scalar", "bitwise_or.Scalar_Tensor", op="or")
@register("bitwise_xor.Tensor", "bitwise_xor.Scalar", "bitwise_xor.Scalar_Tensor", op="xor")
def _bitwise(b, x, y, op):
    return b.op(op if b.dtype == "bool" else "bit" + op, b.tensor(x, b.dtype), b.tensor(y, b.dtype))


@register(
    "bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar", "__lshift__.Scalar", "__lshift__.Tensor", op="shl"
)
@register(
    "bitwise_right_shift.Tensor",
    "bitwise_right_shift.Tensor_Scalar",
    "__rshift__.Scalar",
    "__rshift__.Tensor",
    op="shr",
)
def _shift(b, x, y, op):
    return b.op(op, b.tensor(x, b.dtype), b.tensor(y, b.dtype))


@register("atan2")
def _atan2(b, y, x):
    y, x = b.cast(y, b.compute), b.cast(x, b.compute)
    rise, run = b.op("abs", y), b.op("abs", x)
    angle = b.op("atan", b.div(rise, run))
    angle = b.where(b.eq(rise, 0), b.where(b.op("isnan", run), run, 0.0), angle)
    diagonal = b.both(b.op("isinf", rise), b.op("isinf", run))
    angle = b.where(diagonal, math.pi / 4, angle)
    angle = b.where(_is_negative(b, x), b.sub(math.pi, angle), angle)
    return b.where(_is_negative(b, y), b.op("neg", angle), angle)


@register("copysign.Tensor", "copysign.Scalar")
def _copysign(b, x, y):
    x, y = b.tensor(x, b.dtype), b.tensor(y, b.dtype)
    magnitude = b.op("abs", x)
    return b.where(_is_negative(b, y), b.op("neg", magnitude), magnitude)


@register("hypot")
def _hypot(b, x, y):
    x, y = b.op("abs", b.cast(x, b.compute)), b.op("abs", b.cast(y, b.compute))
    large, small = b.max(x, y), b.min(x, y)
    ratio = b.div(small, large)
    length = b.mul(large, b.op("sqrt", b.add(b.mul(ratio, ratio), 1.0)))
    length = b.where(b.eq(large, 0), 0.0, length)
    return b.where(b.either(b.op("isinf", x), b.op("isinf", y)), math.inf, length)


@register("logaddexp", base=1.0)
@register("logaddexp2", base=math.log(2))
def _logaddexp(b, x, y, base):
    x, y = b.cast(x, b.compute), b.cast(y, b.compute)
    distance = b.op("neg", b.op("abs", b.sub(x, y)))
    tail = b.op("log1p", b.op("exp", b.mul(distance, base)))
    equal = b.both(b.eq(x, y), b.op("isinf", x))
    return b.where(equal, x, b.add(b.max(x, y), b.div(tail, base)))


@register("xlogy.Tensor", "xlogy.Scalar_Other", "xlogy.Scalar_Self", op="log")
@register("special_xlog1py", "special_xlog1py.other_scalar", "special_xlog1py.self_scalar", op="log1p")
def _xlogy(b, x, y, op):
    x, y = b.tensor(x, b.compute), b.tensor(y, b.compute)
    product = b.mul(x, b.op(op, y))
    return b.where(b.op("isnan", y), y, b.where(b.eq(x, 0), 0.0, product))


@register("ldexp.Tensor")
def _ldexp(b, x, y):
    return b.mul(b.cast(x, b.dtype), b.op("pow", b.number(2.0, b.dtype), b.cast(y, b.dtype)))


@register("heaviside")
def _heaviside(b, x, values):
    if b.dtype == "bool":
        return b.op("or", x, b.both(b.op("not", x), values))
    step = b.where(b.lt(0, x), b.number(1, b.dtype), 0)
    if b.dtype in FLOATS:
        step = b.where(b.op("isnan", x), b.number(0, b.dtype), step)
    return b.where(b.eq(x, 0), values, step)


@register("lerp.Scalar", "lerp.Tensor")
def _lerp(b, x, y, weight):
    x, y, weight = b.cast(x, b.compute), b.cast(y, b.compute), b.tensor(weight, b.compute)
    distance = b.sub(y, x)
    low = b.add(x, b.mul(weight, distance))
    high = b.sub(y, b.mul(distance, b.sub(1.0, weight)))
    return b.where(b.lt(b.op("abs", weight), 0.5), low, high)


@register("addcmul")
def _addcmul(b, x, y, z, *, value=1):
    product = b.mul(b.cast(y, b.compute), b.cast(z, b.compute))
    return b.add(b.cast(x, b.compute), product if value == 1 else b.mul(product, value))


@register("addcdiv")
def _addcdiv(b, x, y, z, *, value=1):
    ratio = b.div(b.cast(y, b.compute), b.cast(z, b.compute))
    return b.add(b.cast(x, b.compute), ratio if value == 1 else b.mul(ratio, value))


# ---- Three operands


@register("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _where(b, condition, x, y):
    return b.op("where", b.cast(condition, "bool"), b.tensor(x, b.dtype), b.tensor(y, b.dtype))


@register("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(b, x, mask, value):
    return b.op("where", b.cast(mask, "bool"), b.tensor(value, b.dtype), x)


@register("clamp", "clamp.Tensor", "clip")
def _clamp(b, x, min=None, max=None):
    x = b.cast(x, b.dtype)
    if min is not None:
        x = b.max(x, b.tensor(min, b.dtype))
    return x if max is None else b.min(x, b.tensor(max, b.dtype))


@register("clamp_min", "clamp_min.Tensor")
def _clamp_min(b, x, min):
    return _clamp(b, x, min)


@register("clamp_max", "clamp_max.Tensor")
def _clamp_max(b, x, max):
    return _clamp(b, x, None, max)


# ---- Activations


@register("relu")
def _relu(b, x):
    return b.max(x, 0)


@register("relu6")
def _relu6(b, x):
    return _clamp(b, x, 0, 6)


@register("hardtanh")
def _hardtanh(b, x, min_val=-1, max_val=1):
    return _clamp(b, x, min_val, max_val)


@register("gelu")
def _gelu(b, x, *, approximate="none"):
    return b.op("Gelu", x, approximate=approximate)


@register("silu")
def _silu(b, x):
    return b.mul(x, b.op("sigmoid", x))


@register("hardswish")
def _hardswish(b, x):
    return b.op("HardSwish", x)


@register("hardsigmoid")
def _hardsigmoid(b, x):
    return b.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@register("mish")
def _mish(b, x):
    return b.op("Mish", x)


@register("softplus")
def _softplus(b, x, beta=1, threshold=20):
    scaled = b.mul(b.cast(x, b.compute), float(beta))
    soft = b.div(_soft(b, scaled), float(beta))
    return b.where(b.lt(float(threshold), scaled), b.cast(x, b.compute), soft)


def _soft(b, x):
    """log(1 + exp(x)) without overflow."""
    return b.add(b.max(x, 0.0), b.op("log1p", b.op("exp", b.op("neg", b.op("abs", x)))))


@register("log_sigmoid_forward", "log_sigmoid")
def _log_sigmoid(b, x):
    y = b.op("neg", _soft(b, b.op("neg", b.cast(x, b.compute))))
    return (y, None) if len(b.outputs) == 2 else y


@register("elu")
def _elu(b, x, alpha=1, scale=1, input_scale=1):
    y = b.cast(x, b.compute)
    negative = b.mul(_expm1(b, b.mul(b.min(y, 0.0), float(input_scale))), float(alpha * scale))
    return b.where(b.lt(0, y), b.mul(y, float(scale)), negative)


@register("celu")
def _celu(b, x, alpha=1.0):
    return _elu(b, x, alpha, 1.0, 1.0 / alpha)


@register("selu")
def _selu(b, x):
    return _elu(b, x, 1.6732632423543772, 1.0507009873554805)


@register("leaky_relu")
def _leaky_relu(b, x, negative_slope=0.01):
    return b.where(b.lt(0, x), x, b.mul(x, float(negative_slope)))


@register("prelu", "_prelu_kernel")
def _prelu(b, x, weight):
    if weight.rank == 1 and x.rank > 1:
        weight = b.reshape(weight, [weight.shape[0]] + [1] * (x.rank - 2))
    return b.where(b.lt(0, x), x, b.mul(x, weight))


@register("threshold")
def _threshold(b, x, threshold, value):
    return b.where(b.le(x, threshold), b.number(value, x.dtype), x)


@register("hardshrink")
def _hardshrink(b, x, lambd=0.5):
    return b.where(b.le(b.op("abs", x), float(lambd)), b.number(0.0, x.dtype), x)


@register("softshrink")
def _softshrink(b, x, lambd=0.5):
    lambd = float(lambd)
    below = b.where(b.lt(x, -lambd), b.add(x, lambd), b.where(b.op("isnan", x), x, 0.0))
    return b.where(b.lt(lambd, x), b.sub(x, lambd), below)


@register("glu")
def _glu(b, x, dim=-1):
    axis = b.axis(x, dim)
    half = dims.floordiv(x.shape[axis], 2)
    return b.mul(b.slice(x, axis, 0, half), b.op("sigmoid", b.slice(x, axis, half, half)))
