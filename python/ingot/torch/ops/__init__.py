"""The translations of ATen operators, by family. Importing this fills registry.TABLE."""

from . import (  # noqa: F401  # noqa: F401
    attention,
    contraction,
    control,
    convolution,
    counting,
    creation,
    elementwise,
    indexing,
    linalg,
    losses,
    movement,
    normalisation,
    polynomials,
    pooling,
    recurrent,
    reduction,
    sampling,
    sorting,
    special,
    spectral,
)
