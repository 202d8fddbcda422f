"""Linear algebra: systems of equations, determinants, and factorisations."""

from .. import dims
from ..errors import Unsupported
from ..registry import register
from . import factoring as f


def _lead(*operands):
    """The leading axes of matrices, broadcast."""
    lead = []
    for x in operands:
        lead = dims.numpy_shape(lead, x.shape[:-2])
    return lead


def _like(b, results):
    """Results in the shapes that the node has; None: nothing reads it."""
    return [y if y is None else b.reshape(y, shape) for y, (_, shape) in zip(results, b.outputs)]


def _numbers(b, x, lead):
    """Vectors [..., n] as [batch, n]."""
    return b.reshape(b.broadcast(x, lead + x.shape[-1:]), [dims.product(lead), x.shape[-1]])


# ---- Triangular systems


@register("linalg_solve_triangular")
def _solve_triangular(b, a, y, *, upper, left=True, unitriangular=False):
    lead = _lead(a, y)
    a, y = (f.matrices(b, x, lead, f.LARGEST_TRIANGLE) for x in (a, y))
    if left:
        x = f.solve_triangular(b, a, y, upper, unitriangular)
    else:
        x = f.transposed(b, f.solve_triangular(b, f.transposed(b, a), f.transposed(b, y), not upper, unitriangular))
    return b.reshape(x, b.shape)


@register("triangular_solve")
def _triangular_solve(b, y, a, upper=True, transpose=False, unitriangular=False):
    lead = _lead(a, y)
    copy = b.broadcast(a, lead + a.shape[-2:])
    a, y = (f.matrices(b, x, lead, f.LARGEST_TRIANGLE) for x in (a, y))
    a = f.transposed(b, a) if transpose else a
    return b.reshape(f.solve_triangular(b, a, y, upper != transpose, unitriangular), b.shape), copy


# ---- LU


@register("linalg_lu_factor_ex")
def _lu_factor(b, a, *, pivot=True, check_errors=False):
    _check_pivot(pivot)
    return _like(b, f.factor_lu(b, f.matrices(b, a)))


def _check_pivot(pivot):
    if not pivot:
        raise Unsupported("a factorisation without pivots")


@register("linalg_lu")
def _lu(b, a, *, pivot=True):
    _check_pivot(pivot)
    a = f.matrices(b, a)
    lu, pivots, _ = f.factor_lu(b, a)
    return _like(b, [f.permutation(b, pivots, a.shape[1], a.dtype), *f.triangles(b, lu)])


@register("lu_unpack")
def _lu_unpack(b, lu, pivots, unpack_data=True, unpack_pivots=True):
    lead = lu.shape[:-2]
    lu, pivots = f.matrices(b, lu), _numbers(b, pivots, lead)
    empty = b.broadcast(b.number(0.0, lu.dtype), [0])
    order = f.permutation(b, pivots, lu.shape[1], lu.dtype) if unpack_pivots else empty
    return _like(b, [order, *(f.triangles(b, lu) if unpack_data else (empty, empty))])


@register("linalg_lu_solve")
def _lu_solve(b, lu, pivots, y, *, left=True, adjoint=False):
    lead = _lead(lu, y)
    lu, pivots, y = f.matrices(b, lu, lead), _numbers(b, pivots, lead), f.matrices(b, y, lead)
    if left:
        return b.reshape(f.solve_lu(b, lu, pivots, y, adjoint), b.shape)
    return b.reshape(f.transposed(b, f.solve_lu(b, lu, pivots, f.transposed(b, y), not adjoint)), b.shape)


@register("_linalg_solve_ex")
def _solve(b, a, y, *, left=True, check_errors=False):
    is_vector = y.rank == 1 or (y.rank == a.rank - 1 and y.shape == a.shape[:-1])
    y = b.unsqueeze(y, -1) if is_vector else y
    lead = _lead(a, y)
    lu, pivots, info = f.factor_lu(b, f.matrices(b, a))
    factors = _like(b, [None, lu, pivots, info])[1:]
    wide = f.matrices(b, factors[0], lead), _numbers(b, factors[1], lead), f.matrices(b, y, lead)
    if left or is_vector:
        x = f.solve_lu(b, *wide)
    else:
        x = f.transposed(b, f.solve_lu(b, *wide[:2], f.transposed(b, wide[2]), True))
    return b.reshape(x, b.shape), *factors


@register("linalg_inv_ex")
def _inverse(b, a, *, check_errors=False):
    a = f.matrices(b, a)
    lu, pivots, info = f.factor_lu(b, a)
    eye = b.broadcast(f.identity(b, a.shape[1], a.shape[1], a.dtype), a.shape)
    return _like(b, [f.solve_lu(b, lu, pivots, eye), info])


def _sign(b, pivots):
    """1.0 or -1.0 for the exchanges of pivots [batch, n]; [batch]"""
    exchanged = b.negate(b.eq(b.cast(pivots, "i64"), b.add(b.iota([1, pivots.shape[1]], 1), 1)))
    odd = b.op("mod", b.reduce("reduce_sum", b.cast(exchanged, "i64"), [1], False), b.number(2, "i64"))
    return b.where(b.eq(odd, 1), b.number(-1.0, b.dtype), 1.0)


@register("_linalg_det")
def _det(b, a):
    lu, pivots, _ = f.factor_lu(b, f.matrices(b, a))
    product = b.reduce("reduce_prod", f.diagonal(b, lu), [1, 2], False)
    return _like(b, [b.mul(product, _sign(b, pivots)), lu, pivots])


@register("_linalg_slogdet")
def _slogdet(b, a):
    lu, pivots, _ = f.factor_lu(b, f.matrices(b, a))
    diagonal = f.diagonal(b, lu)
    signs = b.where(b.lt(diagonal, 0), b.number(-1.0, a.dtype), b.where(b.eq(diagonal, 0), 0.0, b.div(diagonal, diagonal)))
    sign = b.mul(b.reduce("reduce_prod", signs, [1, 2], False), _sign(b, pivots))
    logarithm = b.reduce("reduce_sum", b.op("log", b.op("abs", diagonal)), [1, 2], False)
    return _like(b, [sign, logarithm, lu, pivots])


# ---- Cholesky


@register("linalg_cholesky_ex")
def _cholesky(b, a, *, upper=False, check_errors=False):
    a = f.matrices(b, a)
    y, info = f.factor_cholesky(b, f.transposed(b, a) if upper else a)
    return _like(b, [f.transposed(b, y) if upper else y, info])


def _solve_cholesky(b, factor, y, upper):
    left = f.transposed(b, factor) if upper else factor
    return f.solve_triangular(b, f.transposed(b, left), f.solve_triangular(b, left, y, False), True)


@register("cholesky_solve")
def _cholesky_solve(b, y, factor, upper=False):
    lead = _lead(factor, y)
    return b.reshape(_solve_cholesky(b, f.matrices(b, factor, lead), f.matrices(b, y, lead), upper), b.shape)


@register("cholesky_inverse")
def _cholesky_inverse(b, factor, upper=False):
    factor = f.matrices(b, factor)
    eye = b.broadcast(f.identity(b, factor.shape[1], factor.shape[1], factor.dtype), factor.shape)
    return b.reshape(_solve_cholesky(b, factor, eye, upper), b.shape)


# ---- QR


@register("geqrf")
def _geqrf(b, a):
    return _like(b, f.factor_qr(b, f.matrices(b, a)))


@register("linalg_qr")
def _qr(b, a, mode="reduced"):
    a = f.matrices(b, a)
    batch, m, n = a.shape
    factors, taus = f.factor_qr(b, a)
    wide = m if mode == "complete" else min(m, n)
    if mode == "r":
        q = b.broadcast(b.number(0.0, a.dtype), [0])
    else:
        eye = b.broadcast(f.identity(b, m, wide, a.dtype), [batch, m, wide])
        q = f.apply_reflections(b, factors, taus, eye)
    return _like(b, [q, f.upper(b, b.slice(factors, 1, 0, wide))])


def _taus(b, tau):
    return b.reshape(tau, [dims.product(tau.shape[:-1]), tau.shape[-1], 1])


@register("linalg_householder_product")
def _householder_product(b, vectors, tau):
    vectors = f.matrices(b, vectors)
    eye = b.broadcast(f.identity(b, *vectors.shape[1:], vectors.dtype), vectors.shape)
    return b.reshape(f.apply_reflections(b, vectors, _taus(b, tau), eye), b.shape)


@register("ormqr")
def _ormqr(b, vectors, tau, x, left=True, transpose=False):
    vectors, x = f.matrices(b, vectors), f.matrices(b, x)
    if left:
        return b.reshape(f.apply_reflections(b, vectors, _taus(b, tau), x, transpose), b.shape)
    y = f.apply_reflections(b, vectors, _taus(b, tau), f.transposed(b, x), not transpose)
    return b.reshape(f.transposed(b, y), b.shape)
