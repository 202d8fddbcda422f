"""Providers: the CPU always, CUDA where there is a GPU. What else is asked for is warned about and left out."""

import warnings

import ingot

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


def get_all_providers():
    return [CUDA, CPU]


def get_available_providers():
    try:
        return [CUDA, CPU] if ingot.gpu_count() > 0 else [CPU]
    except ingot.Error:
        return [CPU]


def get_device():
    """'GPU' where there is one, else 'CPU'."""
    return "GPU" if CUDA in get_available_providers() else "CPU"


def _given(providers, options):
    """(name, options) of each provider that was asked for, in either way of asking."""
    if not isinstance(providers, (list, tuple)):
        raise ValueError("'providers' should be a sequence.")
    if options is not None:
        if not isinstance(options, (list, tuple)) or len(options) != len(providers):
            raise ValueError("'providers' and 'provider_options' should be sequences of the same length if both are given.")
        if not all(isinstance(name, str) for name in providers):
            raise ValueError("Only string values for 'providers' are supported if 'provider_options' is given.")
        return list(zip(providers, options))
    return [tuple(item) if isinstance(item, (list, tuple)) and len(item) == 2 else (item, {}) for item in providers]


def chosen(providers, options):
    """What sessions are asked to run on, as a list of (name, options), with the CPU last."""
    available, result = get_available_providers(), []
    for name, given in _given(providers or available[:1], options if providers else None):
        if not isinstance(name, str) or not isinstance(given, dict):
            raise ValueError("Provider names must be str, with a dict of options.")
        if name not in available:
            warnings.warn(f"Specified provider '{name}' is not in available provider names."
                          f"Available providers: '{', '.join(available)}'", UserWarning, stacklevel=4)
        elif name not in (known for known, _ in result):
            result.append((name, {str(key): str(value) for key, value in given.items()}))
    if CPU not in (name for name, _ in result):
        result.append((CPU, {}))
    return result
