"""Where the compilers are: NVIDIA's NVRTC, and a C compiler."""

import glob
import os
import shutil
import sys
import tempfile


def _loaded_nvrtc():
    """The one that this process has loaded already, by PyTorch for example: two would be two versions."""
    try:
        with open("/proc/self/maps") as maps:
            for line in maps:
                path = line.rsplit(maxsplit=1)[-1]
                if os.path.basename(path).startswith("libnvrtc.so"):
                    return path
    except OSError:
        pass
    return None


def _packaged_nvrtc(folders):
    """Of NVIDIA's wheels: nvidia-cuda-nvrtc (CUDA 13) and nvidia-cuda-nvrtc-cu12."""
    for folder in folders:
        for place in ("nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"):
            found = sorted(glob.glob(os.path.join(folder, place, "libnvrtc.so.*")))
            found = [path for path in found if "builtins" not in path]
            if found:
                return found[-1]
    return None


def _nvrtc_below(root):
    for place in ("lib", "lib64", "targets/x86_64-linux/lib"):
        found = sorted(glob.glob(os.path.join(root, place, "libnvrtc.so*")))
        if found:
            return found[-1]
    return None


def find_nvrtc():
    """The path of NVRTC, looked for as cuda-pathfinder does; None: the dynamic loader's."""
    path = os.environ.get("INGOT_NVRTC") or _loaded_nvrtc() or _packaged_nvrtc(sys.path)
    if path:
        return path
    if os.environ.get("CONDA_PREFIX"):
        path = _nvrtc_below(os.environ["CONDA_PREFIX"])
        if path:
            return path
    import ctypes.util

    if ctypes.util.find_library("nvrtc"):
        return None
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            path = _nvrtc_below(os.environ[variable])
            if path:
                return path
    return None


# zig reads "-" in the name of a processor as "without".
_ZIG_LAUNCHER = """#!/bin/sh
export ZIG_GLOBAL_CACHE_DIR={cache} ZIG_LOCAL_CACHE_DIR={cache}
for argument; do
    shift
    case $argument in
    -march=x86-64-v3*) argument=-march=x86_64_v3${{argument#-march=x86-64-v3}} ;;
    -march=x86-64-v4*) argument=-march=x86_64_v4${{argument#-march=x86-64-v4}} ;;
    esac
    set -- "$@" "$argument"
done
exec {zig} cc "$@"
"""


def _zig_launcher():
    """A program that is `python -m ziglang cc`: the library starts compilers by one path, without arguments."""
    import importlib.util

    package = importlib.util.find_spec("ziglang")
    if package is None:
        return None
    zig = os.path.join(os.path.dirname(package.origin), "zig")
    # The library starts compilers in an environment of few variables; zig wants a place for what it keeps.
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "ingot", "zig")
    folder = tempfile.mkdtemp(prefix="ingot-zig-")
    path = os.path.join(folder, "cc")
    with open(path, "w") as file:
        file.write(_ZIG_LAUNCHER.format(zig=_quoted(zig), cache=_quoted(cache)))
    os.chmod(path, 0o700)
    import atexit

    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return path


def _quoted(text):
    import shlex

    return shlex.quote(text)


_zig = None


def find_cc():
    """A C compiler: $CC, cc, gcc, clang, or ziglang's. None: there is none, and the library says so."""
    global _zig
    wanted = os.environ.get("CC")
    if wanted and shutil.which(wanted):
        return shutil.which(wanted)
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return shutil.which(name)
    if _zig is None or not os.path.exists(_zig):
        _zig = _zig_launcher()
    return _zig
