"""Special functions and polynomials through engines, on what eager PyTorch gives for f64: f32's own is less accurate."""

import itertools
import math
import unittest

import torch
from helpers import TestCase

SP = torch.special
EXTREME = [0.0, -0.0, 1.0, -1.0, 2.0, -3.0, 0.5, -0.5, -2.5, 1e-20, -1e-20, 30.0, 1e4, math.inf, -math.inf, math.nan]


class Special(TestCase):
    def near(self, functions, x, tolerance=1e-5):
        """Each function of x, an f32, is that of f64, rounded."""
        with torch.no_grad():
            made = self.compiled(lambda x: [f(x) for f in functions], dynamic=False)(x)
            for function, actual in zip(functions, made):
                with self.subTest(function=getattr(function, "__name__", str(function))):
                    expected = function(x.double()).float()
                    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=1e-6, equal_nan=True)

    def points(self, low, high, *more):
        return torch.cat([torch.linspace(low, high, 997), torch.tensor([*EXTREME, *more])])

    def test_gamma(self):
        self.near([torch.lgamma, torch.digamma], self.points(-9.7, 40, 1e30, -25.25))

    def test_polygamma(self):
        # PyTorch's own loses the last digits near its poles, and takes other signs at infinity.
        x = torch.linspace(-4.9, 20, 500)
        x = x[(x - x.round()).abs() > 0.02]
        self.near([lambda x, n=n: torch.polygamma(n, x) for n in (1, 2, 3, 4)], x)
        self.check(lambda x, s: (SP.zeta(s, x), SP.zeta(2.5, x)), x[x > 0], x[x > 0] / 3 + 1)

    def test_error_functions(self):
        self.near([SP.erfcx], self.points(-9, 30))
        self.near([torch.erfinv], self.points(-1, 1, 0.999999, -0.999999, 1.5))
        self.near([SP.ndtri], self.points(0, 1, 1e-30, 1e-5, 0.99999, -0.1, 1.1))

    def test_modified_bessel(self):
        self.near([torch.i0, SP.i0e, SP.i1, SP.i1e], self.points(-40, 40, 88.0))
        k = [SP.modified_bessel_k0, SP.modified_bessel_k1, SP.scaled_modified_bessel_k0, SP.scaled_modified_bessel_k1]
        self.near(k, self.points(1e-3, 60)[:-2])

    def test_bessel(self):
        x = torch.linspace(0.01, 60, 997)
        self.near([SP.bessel_j0, SP.bessel_j1], torch.cat([x, -x, torch.tensor([0.0, math.nan, 500.0])]))
        self.near([SP.bessel_y0, SP.bessel_y1], torch.cat([x, torch.tensor([0.0, -1.0, math.nan, 500.0])]))
        self.near([SP.spherical_bessel_j0], torch.cat([x, -x, torch.tensor([0.0, math.nan])]))

    def test_polynomials(self):
        x = torch.tensor([0.0, 0.3, -0.7, 0.99, 1.0, -1.0, 1.2, -1.5])
        n = torch.tensor([-1.0, 0.0, 1.0, 2.0, 5.0, 8.0, 9.0, 20.0])
        pairs = torch.tensor(list(itertools.product(x.tolist(), n.tolist())))
        names = ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"]
        names += [f"{shift}chebyshev_polynomial_{kind}" for shift in ("", "shifted_") for kind in "tuvw"]
        functions = [getattr(SP, name) for name in names]
        self.check(lambda x, n: [f(x, n) for f in functions] + [f(x, 3) for f in functions], *pairs.T, tolerance=1e-3)


if __name__ == "__main__":
    unittest.main()
