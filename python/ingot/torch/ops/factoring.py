"""
Factorisations and triangular systems of small matrices, as loops over columns: the textbook's right-looking algorithms, with
LAPACK's pivots, signs and scaling (Golub and Van Loan, Matrix Computations, chapters 3 to 5). Matrices are [batch, m, n].
"""

from .. import dims
from ..errors import Unsupported

# Rows or columns. Beyond, LAPACK's blocked algorithms are much faster than a loop of rank-1 updates, or of rows.
LARGEST = 64
LARGEST_TRIANGLE = 256


def matrices(b, x, lead=None, largest=LARGEST):
    """x as [batch, m, n], its leading axes broadcast to `lead` before."""
    if any(isinstance(s, str) for s in x.shape[-2:]):
        raise Unsupported("a factorisation of matrices of unknown size")
    if max(x.shape[-2:]) > largest:
        raise Unsupported(f"a factorisation of matrices of more than {largest} rows or columns")
    if lead is not None and x.shape[:-2] != lead:
        x = b.broadcast(x, lead + x.shape[-2:])
    return b.reshape(x, [dims.product(x.shape[:-2]), *x.shape[-2:]])


def rows(b, count):
    return b.iota([1, count, 1], 1)


def columns(b, count):
    return b.iota([1, 1, count], 2)


def at(b, x, i, axis):
    """Row (axis 1) or column (axis 2) number i, a scalar."""
    return b.op("gather", x, b.reshape(i, [1]), axis=axis)


def lower(b, x, diagonal=0):
    """Zeros right of a diagonal."""
    return b.where(b.le(columns(b, x.shape[2]), b.add(rows(b, x.shape[1]), diagonal)), x, 0.0)


def upper(b, x, diagonal=0):
    """Zeros left of a diagonal."""
    return b.where(b.le(b.add(rows(b, x.shape[1]), diagonal), columns(b, x.shape[2])), x, 0.0)


def identity(b, m, n, dtype):
    return b.cast(b.eq(rows(b, m), columns(b, n)), dtype)


def diagonal(b, x):
    """[batch, min(m, n), 1]"""
    count = min(x.shape[1:])
    x = b.slice(b.slice(x, 1, 0, count), 2, 0, count)
    on = b.eq(rows(b, count), columns(b, count))
    return b.reduce("reduce_sum", b.where(on, x, 0.0), [2], True)


def transposed(b, x):
    return b.transpose(x, [0, 2, 1])


def solve_triangular(b, a, y, is_upper, unit=False):
    """The solution x of a x = y, by substitution; the other triangle of a is not read."""
    n, k = y.shape[1:]
    if 0 in (n, k):
        return y
    strict = upper(b, a, 1) if is_upper else lower(b, a, -1)
    pivots = b.broadcast(b.number(1.0, a.dtype), [a.shape[0], n, 1]) if unit else diagonal(b, a)
    start = b.broadcast(b.number(0.0, a.dtype), [a.shape[0], n, k])

    def step(b, i, x, strict, pivots, y):
        i = b.sub(n - 1, i) if is_upper else i
        known = b.op("MatMul", at(b, strict, i, 1), x)
        found = b.div(b.sub(at(b, y, i, 1), known), at(b, pivots, i, 1))
        return [b.where(b.eq(rows(b, n), i), found, x)]

    return b.loop(n, [start], [strict, pivots, y], step)[0]


# ---- LU


def swapped(b, x, i, j):
    """x with rows i and j exchanged; j is one for each matrix, [batch, 1, 1]."""
    m = x.shape[1]
    order = b.where(b.eq(rows(b, m), i), j, b.where(b.eq(rows(b, m), j), i, rows(b, m)))
    return b.op("gather_elements", x, b.broadcast(order, x.shape), axis=1)


def factor_lu(b, a):
    """
    (LU, pivots, info): both factors in one, the row that each was exchanged with, from 1 on, i32 [batch, min(m, n)], and
    the number of the first pivot that is zero, from 1 on, or 0, i32 [batch].
    """
    batch, m, n = a.shape
    count = min(m, n)
    pivots = b.broadcast(b.number(0, "i32"), [batch, count])
    if 0 in (m, n):
        return a, pivots, b.broadcast(b.number(0, "i32"), [batch])

    def step(b, k, a, pivots):
        below, right = b.lt(k, rows(b, m)), b.lt(k, columns(b, n))
        size = b.where(b.lt(rows(b, m), k), -1.0, b.op("abs", at(b, a, k, 2)))
        best = b.op("argmax", size, axis=1, last=0)
        a = swapped(b, a, k, best)
        row, column = at(b, a, k, 1), at(b, a, k, 2)
        pivot = at(b, row, k, 2)
        column = b.where(b.eq(pivot, 0), column, b.div(column, pivot))
        rest = b.where(right, b.sub(a, b.mul(column, row)), a)
        a = b.where(below, b.where(b.eq(columns(b, n), k), column, rest), a)
        place = b.cast(b.add(b.reshape(best, [batch, 1]), 1), "i32")
        return [a, b.where(b.eq(b.iota([1, count], 1), k), place, pivots)]

    a, pivots = b.loop(count, [a, pivots], [], step)
    return a, pivots, first_flag(b, b.eq(diagonal(b, a), 0))


def first_flag(b, flags):
    """The number of the first of flags [batch, n, 1] that is set, from 1 on, or 0; i32 [batch]."""
    count = flags.shape[1]
    first = b.reduce("reduce_min", b.where(flags, b.add(rows(b, count), 1), count + 1), [1, 2], False)
    return b.cast(b.where(b.lt(count, first), 0, first), "i32")


def permuted(b, pivots, m):
    """The order i64 [batch, m, 1] of rows that exchanges by pivots [batch, n] give."""
    order = b.broadcast(rows(b, m), [pivots.shape[0], m, 1])
    places = b.unsqueeze(b.sub(b.cast(pivots, "i64"), 1), -1)
    if 0 in (m, pivots.shape[1]):
        return order
    return b.loop(
        pivots.shape[1], [order], [places], lambda b, k, order, places: [swapped(b, order, k, at(b, places, k, 1))]
    )[0]


def permutation(b, pivots, m, dtype):
    """The matrix P [batch, m, m] of P L U."""
    order = permuted(b, pivots, m)
    return b.cast(b.eq(rows(b, m), b.reshape(order, [order.shape[0], 1, m])), dtype)


def triangles(b, lu):
    """(L, U), with ones on the first's diagonal."""
    m, n = lu.shape[1:]
    count = min(m, n)
    left = lower(b, b.slice(lu, 2, 0, count), -1)
    return b.add(left, identity(b, m, count, lu.dtype)), upper(b, b.slice(lu, 1, 0, count))


def solve_lu(b, lu, pivots, y, adjoint=False):
    """The solution x of a x = y (adjoint: a^T x = y), with a's factors."""
    if 0 in y.shape[1:]:
        return y
    order = permuted(b, pivots, y.shape[1])
    if adjoint:
        y = solve_triangular(b, transposed(b, lu), y, False)
        y = solve_triangular(b, transposed(b, lu), y, True, unit=True)
        back = b.eq(rows(b, y.shape[1]), b.reshape(order, [order.shape[0], 1, y.shape[1]]))
        order = b.op("argmax", b.cast(back, "u8"), axis=2, last=0)
        return b.op("gather_elements", y, b.broadcast(order, y.shape), axis=1)
    y = b.op("gather_elements", y, b.broadcast(order, y.shape), axis=1)
    return solve_triangular(b, lu, solve_triangular(b, lu, y, False, unit=True), True)


# ---- Cholesky


def factor_cholesky(b, a):
    """(L, info) of a's lower triangle: info is the number of the first minor that is not positive, from 1 on, or 0."""
    batch, n, _ = a.shape
    roots = b.broadcast(b.number(1.0, a.dtype), [batch, n, 1])
    if n == 0:
        return a, b.broadcast(b.number(0, "i32"), [batch])

    def step(b, j, a, roots):
        column = at(b, a, j, 2)
        minor = at(b, column, j, 1)
        root = b.op("sqrt", minor)
        column = b.where(b.eq(rows(b, n), j), root, b.div(column, root))
        rest = b.sub(a, b.mul(column, transposed(b, column)))
        rest = b.where(b.lt(j, columns(b, n)), rest, b.where(b.eq(columns(b, n), j), column, a))
        roots = b.where(b.eq(rows(b, n), j), minor, roots)
        return [b.where(b.le(columns(b, n), rows(b, n)), b.where(b.le(j, rows(b, n)), rest, a), 0.0), roots]

    y, minors = b.loop(n, [lower(b, a), roots], [], step)
    return y, first_flag(b, b.negate(b.lt(0, minors)))


# ---- QR


def _reflector(b, column, j):
    """(v, tau, beta): the reflection 1 - tau v v^T that makes zeros below row j of a column, with beta in row j (LAPACK's larfg)."""
    place = rows(b, column.shape[1])
    alpha, tail = at(b, column, j, 1), b.where(b.lt(j, place), column, 0.0)
    size = b.reduce("reduce_max", b.op("abs", b.where(b.le(j, place), column, 0.0)), [1], True)
    scale = b.where(b.eq(size, 0), 1.0, size)
    a, t = b.div(alpha, scale), b.div(tail, scale)
    square = b.reduce("reduce_sum", b.mul(t, t), [1], True)
    norm = b.mul(b.op("sqrt", b.add(b.mul(a, a), square)), scale)
    beta = b.where(b.lt(alpha, 0), norm, b.op("neg", norm))
    done = b.eq(square, 0)
    beta = b.where(done, alpha, beta)
    tau = b.where(done, 0.0, b.div(b.sub(beta, alpha), beta))
    tail = b.where(done, 0.0, b.div(tail, b.sub(alpha, beta)))
    return b.where(b.eq(place, j), 1.0, tail), tau, beta


def _reflected(b, x, v, tau):
    return b.sub(x, b.mul(v, b.mul(tau, b.op("MatMul", transposed(b, v), x))))


def factor_qr(b, a):
    """(R with the reflections' vectors below the diagonal, tau [batch, min(m, n), 1])"""
    batch, m, n = a.shape
    count = min(m, n)
    taus = b.broadcast(b.number(0.0, a.dtype), [batch, count, 1])
    if 0 in (m, n):
        return a, taus

    def step(b, j, a, taus):
        v, tau, beta = _reflector(b, at(b, a, j, 2), j)
        column = b.where(b.eq(rows(b, m), j), beta, b.where(b.lt(j, rows(b, m)), v, at(b, a, j, 2)))
        here, right = b.eq(columns(b, n), j), b.lt(j, columns(b, n))
        a = b.where(right, _reflected(b, a, v, tau), b.where(here, column, a))
        return [a, b.where(b.eq(rows(b, count), j), tau, taus)]

    return b.loop(count, [a, taus], [], step)


def apply_reflections(b, vectors, taus, x, transpose=False):
    """Q x, or Q^T x; Q is the product of the reflections whose vectors stand below the diagonal."""
    m, count = vectors.shape[1], taus.shape[1]
    if 0 in x.shape[1:] or count == 0:
        return x

    def step(b, i, x, vectors, taus):
        i = i if transpose else b.sub(count - 1, i)
        v = at(b, vectors, i, 2)
        v = b.where(b.eq(rows(b, m), i), 1.0, b.where(b.lt(i, rows(b, m)), v, 0.0))
        return [_reflected(b, x, v, at(b, taus, i, 1))]

    return b.loop(count, [x], [vectors, taus], step)[0]
