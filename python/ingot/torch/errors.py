"""What can go wrong between PyTorch's graphs and Ingot's."""


class Unsupported(Exception):
    """An ATen node that has no translation. The text says why, for people."""


class Fallback(RuntimeError):
    """Raised with strict=True where a part of a module would run in eager PyTorch. The text is the report."""


class FallbackWarning(UserWarning):
    """Given where a part of a module runs in eager PyTorch."""
