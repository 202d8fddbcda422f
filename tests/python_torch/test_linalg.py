"""Linear algebra through engines: systems of equations and factorisations, of odd shapes, batches and nothing."""

import unittest

import ingot.torch
import torch
from helpers import TestCase


def _matrix(*shape):
    return torch.randn(*shape)


class Systems(TestCase):
    def test_triangular(self):
        a, y = _matrix(2, 1, 5, 5) + 3 * torch.eye(5), _matrix(3, 5, 4)
        a[..., 0, 4] = torch.nan  # the triangle that is not read

        def f(a, y):
            solve = torch.linalg.solve_triangular
            x = [solve(a, y, upper=False), solve(a, y, upper=False, unitriangular=True)]
            x += [solve(a.mT, y, upper=True), solve(a, y.mT, upper=False, left=False)]
            return x + [solve(a[..., :0, :0], y[:, :0], upper=True), torch.triangular_solve(y, a.mT, upper=True)]

        self.check(f, a, y)

    def test_solve(self):
        a, y = _matrix(2, 5, 5), _matrix(5, 3)

        def f(a, y):
            x = [torch.linalg.solve(a, y), torch.linalg.solve(a, a[..., 0]), torch.linalg.solve(a, y.mT, left=False)]
            x += [torch.linalg.inv(a), torch.linalg.det(a), torch.linalg.slogdet(a), torch.logdet(a @ a.mT)]
            return x + [torch.linalg.det(a[:, :0, :0]), torch.linalg.inv(a[0, :1, :1])]

        self.check(f, a, y, tolerance=1e-3)

    def test_a_singular_matrix_raises(self):
        a = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
        call = self.compiled(torch.linalg.inv)
        with torch.no_grad():
            call(a + torch.eye(2))
            with self.assertRaises(torch.linalg.LinAlgError):
                call(a)
            info = self.compiled(torch.linalg.inv_ex)(a).info
            self.assertEqual(int(info), 2)

    def test_batches_of_any_size(self):
        def f(a):
            return torch.linalg.inv(a), torch.linalg.svdvals(a), torch.linalg.qr(a)

        call = self.compiled(f, dynamic=True)
        with torch.no_grad():
            for batch in (3, 2, 5):
                a = _matrix(batch, 4, 4) + 4 * torch.eye(4)
                torch._dynamo.mark_static(a, 1)
                torch._dynamo.mark_static(a, 2)
                self.assert_same(call(a), f(a))

    def test_export(self):
        class Whitened(torch.nn.Module):
            def forward(self, x):
                return torch.linalg.solve_triangular(torch.linalg.cholesky(x.mT @ x), x.mT, upper=False)

        x = _matrix(6, 3)
        engine = ingot.torch.export(Whitened(), (x,))
        self.assert_same(torch.from_dlpack(engine(x)), Whitened()(x), 1e-3)

    def test_what_is_large_is_left_to_lapack(self):
        x = torch.randn(200, 200)
        with self.assertRaisesRegex(Exception, "more than 64 rows"), torch.no_grad():
            self.compiled(torch.linalg.inv)(x)


class Factorisations(TestCase):
    def test_lu(self):
        shapes = ((5, 5), (2, 3, 6), (2, 7, 4), (1, 1), (0, 3), (0, 3, 3))
        self.check(lambda *xs: [(torch.linalg.lu(a), torch.linalg.lu_factor(a)) for a in xs], *(_matrix(*s) for s in shapes))

    def test_solving_with_lu(self):
        a, y = _matrix(2, 4, 4), _matrix(2, 4, 3)

        def f(a, y):
            lu, pivots = torch.linalg.lu_factor(a)
            kinds = [(True, False), (True, True), (False, False), (False, True)]
            solved = [torch.linalg.lu_solve(lu, pivots, y if k[0] else y.mT, left=k[0], adjoint=k[1]) for k in kinds]
            return *solved, torch.lu_unpack(lu, pivots)

        self.check(f, a, y, tolerance=1e-3)

    def test_cholesky(self):
        a = _matrix(2, 5, 5)
        a, y = a @ a.mT + torch.eye(5), _matrix(5, 2)

        def f(a, y):
            left, right = torch.linalg.cholesky(a), torch.linalg.cholesky(a, upper=True)
            return left, right, torch.cholesky_solve(y, left), torch.cholesky_inverse(right, upper=True)

        self.check(f, a, y, tolerance=1e-3)

    def test_cholesky_of_what_is_not_positive(self):
        a = torch.tensor([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 1.0]])
        with torch.no_grad():
            self.assertEqual(int(self.compiled(torch.linalg.cholesky_ex)(a).info), 2)

    def test_qr(self):
        given = [_matrix(*shape) for shape in ((5, 5), (2, 6, 3), (2, 3, 6), (1, 1), (4, 0))]
        kinds = ("reduced", "complete", "r")
        self.check(lambda *xs: [torch.linalg.qr(a, mode=k) for k in kinds for a in xs], *given)
        self.check(lambda a, h: (torch.linalg.qr(a), torch.linalg.qr(h)), torch.zeros(3, 3), 1e30 * _matrix(3, 3))

    def test_reflections(self):
        a, x = _matrix(6, 4), _matrix(6, 3)

        def f(a, x):
            v, tau = torch.geqrf(a)
            kinds = [torch.ormqr(v, tau, x), torch.ormqr(v, tau, x, transpose=True), torch.ormqr(v, tau, x.mT, left=False)]
            return *kinds, torch.linalg.householder_product(v, tau), torch.linalg.householder_product(v, tau[:2])

        self.check(f, a, x)


class Spectra(TestCase):
    def singular(self, *matrices):
        """Singular values as eager PyTorch's; vectors that are orthonormal, and give the matrix."""

        def f(*matrices):
            return [torch.linalg.svd(a, full_matrices=full) for a in matrices for full in (False, True)]

        with torch.no_grad():
            results = iter(self.compiled(f, dynamic=False)(*matrices))
        for a in matrices:
            for _ in range(2):
                u, s, vh = next(results)
                k, scale = min(a.shape[-2:]), max(float(s.max()), 1e-30)
                self.assert_same(s / scale, torch.linalg.svdvals(a) / scale)
                self.assert_same((u[..., :k] * (s / scale)[..., None, :]) @ vh[..., :k, :], a / scale)
                for x in (u, vh.mT):
                    self.assert_same(x.mT @ x, torch.eye(x.shape[-1]).expand(*x.shape[:-2], -1, -1))

    def test_singular_values(self):
        self.singular(*(_matrix(*shape) for shape in ((5, 5), (2, 6, 3), (3, 7), (1, 1), (4, 1), (20, 19))))

    def test_singular_values_of_less_than_full_rank(self):
        x, graded = _matrix(6, 2), torch.diag(torch.tensor([1.0, 1e-6, 0.0, 3]))
        self.singular(torch.zeros(4, 3), torch.ones(5, 4), x @ x.T, torch.eye(4), graded)

    def test_singular_values_of_large_and_small_numbers(self):
        self.singular(1e25 * _matrix(4, 3), 1e-25 * _matrix(4, 3))

    def test_eigenvalues(self):
        a = _matrix(2, 6, 6)
        a = a + a.mT

        def f(a):
            values, vectors = torch.linalg.eigh(a)
            back = (vectors * values[..., None, :]) @ vectors.mT
            return values, back, vectors.mT @ vectors, torch.linalg.eigvalsh(a, UPLO="U")

        self.check(f, a)
        self.check(f, torch.diag(torch.tensor([2.0, -2.0, 2.0, 0.0])))  # equal sizes, with other signs

    def test_what_follows_from_singular_values(self):
        a = _matrix(5, 3)

        def f(a):
            y = [torch.linalg.pinv(a), torch.linalg.matrix_rank(a @ a.mT, tol=1e-3), torch.linalg.cond(a)]
            y += torch.linalg.polar(a) if hasattr(torch.linalg, "polar") else []  # since PyTorch 2.14
            y += [torch.linalg.matrix_norm(a, k) for k in (2, -2, "nuc")]
            return y + [torch.linalg.pinv(a @ a.mT, rtol=1e-3, hermitian=True)]

        self.check(f, a, tolerance=1e-3)


if __name__ == "__main__":
    unittest.main()
