"""Linear algebra through engines: systems of equations and factorisations, of odd shapes, batches and nothing."""

import unittest

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

    def test_what_is_large_is_left_to_lapack(self):
        x = torch.randn(200, 200)
        with self.assertRaisesRegex(Exception, "more than 64 rows"), torch.no_grad():
            self.compiled(torch.linalg.inv)(x)


class Factorisations(TestCase):
    def test_lu(self):
        for shape in ((5, 5), (2, 3, 6), (2, 7, 4), (1, 1), (0, 3), (0, 3, 3)):
            with self.subTest(shape=shape):
                self.check(lambda a: (torch.linalg.lu(a), torch.linalg.lu_factor(a)), _matrix(*shape))

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
        for shape in ((5, 5), (2, 6, 3), (2, 3, 6), (1, 1), (4, 0)):
            with self.subTest(shape=shape):
                kinds = ("reduced", "complete", "r")
                self.check(lambda a: [torch.linalg.qr(a, mode=k) for k in kinds], _matrix(*shape))
        zero, huge = torch.zeros(3, 3), 1e30 * _matrix(3, 3)
        self.check(lambda a, h: (torch.linalg.qr(a), torch.linalg.qr(h)), zero, huge)

    def test_reflections(self):
        a, x = _matrix(6, 4), _matrix(6, 3)

        def f(a, x):
            v, tau = torch.geqrf(a)
            kinds = [torch.ormqr(v, tau, x), torch.ormqr(v, tau, x, transpose=True), torch.ormqr(v, tau, x.mT, left=False)]
            return *kinds, torch.linalg.householder_product(v, tau), torch.linalg.householder_product(v, tau[:2])

        self.check(f, a, x)


if __name__ == "__main__":
    unittest.main()
