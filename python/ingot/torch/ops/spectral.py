"""
Singular values and eigenvalues of small matrices by Jacobi's one-sided method (Golub and Van Loan, Matrix Computations,
section 8.6.3), whose singular values are accurate relative to each of them.
"""

import torch

from ..errors import Unsupported
from ..registry import register
from . import factoring as f
from .linalg import _like

LARGEST = 32  # columns; beyond, LAPACK is much faster
SWEEPS = {"f32": 12, "f64": 16}  # twice and more what random matrices of that size need


def _rotation(b, alpha, beta, gamma):
    """(cosine, sine) that make two vectors of squared lengths alpha and beta, and of product gamma, orthogonal."""
    zeta = b.div(b.sub(beta, alpha), b.mul(gamma, 2.0))
    size = b.op("abs", zeta)
    # sqrt(1 + zeta^2), of large numbers without overflow
    root = b.where(b.lt(1e8, size), size, b.op("sqrt", b.add(b.mul(zeta, zeta), 1.0)))
    tangent = b.div(b.where(b.lt(zeta, 0), b.number(-1.0, zeta.dtype), 1.0), b.add(size, root))
    cosine = b.div(1.0, b.op("sqrt", b.add(b.mul(tangent, tangent), 1.0)))
    done = b.eq(gamma, 0)
    return b.where(done, 1.0, cosine), b.where(done, 0.0, b.mul(cosine, tangent))


def _orthogonalised(b, a):
    """
    (a V, V), both transposed, for an orthogonal V that makes a's columns orthogonal. Each round rotates every column with
    one other; a round robin of them meets all.
    """
    batch, m, n = a.shape
    half = (n + 1) // 2
    even = 2 * half
    start = b.concat([a, b.broadcast(f.identity(b, n, n, a.dtype), [batch, n, n])], 1)
    start = b.pad(f.transposed(b, start), [0, 0, 0], [0, even - n, 0])
    top, bottom = list(range(half)), list(range(half, even))
    order = torch.tensor([top[0], bottom[0], *top[1:-1], *bottom[1:], top[-1]][:even])
    order = b.constant(order if half > 1 else torch.tensor([0, 1]), "i64")

    def step(b, i, x, order):
        upper, lower = b.slice(x, 1, 0, half), b.slice(x, 1, half, half)
        p, q = b.slice(upper, 2, 0, m), b.slice(lower, 2, 0, m)
        alpha, beta, gamma = (b.reduce("reduce_sum", b.mul(*pair), [2], True) for pair in ((p, p), (q, q), (p, q)))
        c, s = _rotation(b, alpha, beta, gamma)
        upper, lower = b.sub(b.mul(c, upper), b.mul(s, lower)), b.add(b.mul(s, upper), b.mul(c, lower))
        return [b.op("gather", b.concat([upper, lower], 1), order, axis=1)]

    x = b.loop((even - 1) * SWEEPS[a.dtype], [start], [order], step)[0]
    x = b.slice(x, 1, 0, n)
    return b.slice(x, 2, 0, m), b.slice(x, 2, m, n)


def _by_rows(b, x, order):
    return b.op("gather_elements", x, b.broadcast(b.unsqueeze(order, -1), x.shape), axis=1)


def svd(b, a, full=False):
    """(U, S [batch, k], V^T) of [batch, m, n], S descending; full: U and V are square."""
    batch, m, n = a.shape
    if m < n:
        u, s, vt = svd(b, f.transposed(b, a), full)
        return f.transposed(b, vt), s, f.transposed(b, u)
    if n > LARGEST:
        raise Unsupported(f"singular values of matrices of more than {LARGEST} rows and columns")
    if n == 0 or batch == 0:
        eye = b.broadcast(f.identity(b, m, m if full else n, a.dtype), [batch, m, m if full else n])
        return eye, b.broadcast(b.number(0.0, a.dtype), [batch, n]), b.broadcast(b.number(0.0, a.dtype), [batch, n, n])
    size = b.reduce("reduce_max", b.op("abs", a), [1, 2], True)
    size = b.where(b.eq(size, 0), 1.0, size)
    w, vt = _orthogonalised(b, b.div(a, size))
    lengths = b.op("sqrt", b.reduce("reduce_sum", b.mul(w, w), [2], False))
    s, order = b.op("topk", lengths, outputs=2, axis=1, k=n, largest=1)
    w, vt = _by_rows(b, w, order), _by_rows(b, vt, order)
    # Columns are orthogonal, so R is diagonal; those of length 0 become whatever completes the others.
    factors, taus = f.factor_qr(b, f.transposed(b, w))
    wide = m if full else n
    u = f.apply_reflections(b, factors, taus, b.broadcast(f.identity(b, m, wide, a.dtype), [batch, m, wide]))
    turned = b.lt(f.transposed(b, f.diagonal(b, factors)), 0)
    turned = b.pad(b.cast(turned, "u8"), [0, 0, 0], [0, 0, wide - n])
    u = b.where(b.cast(turned, "bool"), b.op("neg", u), u)
    return u, b.mul(s, b.reshape(size, [batch, 1])), vt


@register("_linalg_svd")
def _svd(b, a, full_matrices=False, compute_uv=True, *, driver=None):
    u, s, vt = svd(b, f.matrices(b, a), full_matrices and compute_uv)
    if not compute_uv:
        u = vt = b.broadcast(b.number(0.0, a.dtype), [0])
    return _like(b, [u, s, vt])


def eigh(b, a):
    """
    (eigenvalues [batch, n], ascending, eigenvectors [batch, n, n]) of symmetric matrices: a + shift is positive, so its
    singular vectors are eigenvectors of both.
    """
    batch, n, _ = a.shape
    if 0 in (batch, n):
        return b.broadcast(b.number(0.0, a.dtype), [batch, n]), a
    size = b.reduce("reduce_max", b.op("abs", a), [1, 2], True)
    size = b.where(b.eq(size, 0), 1.0, size)
    a = b.div(a, size)
    shift = b.op("sqrt", b.reduce("reduce_sum", b.mul(a, a), [1, 2], True))
    _, _, vt = svd(b, b.add(a, b.mul(f.identity(b, n, n, a.dtype), shift)))
    values = b.reduce("reduce_sum", b.mul(b.op("MatMul", vt, a), vt), [2], False)
    values, order = b.op("topk", values, outputs=2, axis=1, k=n, largest=0)
    return b.mul(values, b.reshape(size, [batch, 1])), f.transposed(b, _by_rows(b, vt, order))


def _symmetric(b, a, uplo):
    """What one triangle of a tells."""
    a = f.transposed(b, a) if uplo.upper() == "U" else a
    return b.add(f.lower(b, a), f.transposed(b, f.lower(b, a, -1)))


@register("_linalg_eigh")
def _eigh(b, a, UPLO="L", compute_v=True):  # noqa: N803
    values, vectors = eigh(b, _symmetric(b, f.matrices(b, a), UPLO))
    return _like(b, [values, vectors if compute_v else b.broadcast(b.number(0.0, a.dtype), [0])])


_EPSILON = {"f32": 2.0**-23, "f64": 2.0**-52}


@register("linalg_pinv.atol_rtol_tensor")
def _pinv(b, a, *, atol=None, rtol=None, hermitian=False):
    lead, (m, n), dtype = a.shape[:-2], a.shape[-2:], a.dtype
    default = b.number(_EPSILON[dtype] * max(m, n), dtype)
    absolute = b.number(0.0, dtype) if atol is None else b.cast(atol, dtype)
    if rtol is None:
        rtol = default if atol is None else b.where(b.lt(0, absolute), 0.0, default)
    relative = b.cast(rtol, dtype)
    if 0 in a.shape:
        return b.broadcast(b.number(0.0, dtype), b.shape)
    a = f.matrices(b, a)
    if hermitian:
        s, u = eigh(b, _symmetric(b, a, "L"))
        vt = f.transposed(b, u)
    else:
        u, s, vt = svd(b, a)
    size = b.op("abs", s)
    largest = b.reduce("reduce_max", size, [1], True)
    count = [a.shape[0], 1]
    absolute, relative = (b.reshape(b.broadcast(x, lead), count) for x in (absolute, relative))
    kept = b.lt(b.max(absolute, b.mul(relative, largest)), size)
    inverse = b.where(kept, b.div(1.0, s), 0.0)
    y = b.op("MatMul", b.mul(f.transposed(b, vt), b.unsqueeze(inverse, 1)), f.transposed(b, u))
    return b.reshape(y, b.shape)


@register("linalg_polar")
def _polar(b, a):
    """(U V^T, V S V^T)"""
    u, s, vt = svd(b, f.matrices(b, a))
    scaled = b.mul(f.transposed(b, vt), b.unsqueeze(s, 1))
    return _like(b, [b.op("MatMul", u, vt), b.op("MatMul", scaled, vt)])


@register("linalg_matrix_sqrth")
def _sqrth(b, a):
    values, vectors = eigh(b, _symmetric(b, f.matrices(b, a), "L"))
    scaled = b.mul(vectors, b.unsqueeze(b.op("sqrt", values), 1))
    return b.reshape(b.op("MatMul", scaled, f.transposed(b, vectors)), b.shape)
