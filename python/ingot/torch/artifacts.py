"""
Engines in PyTorch's portable cache (torch.compiler.save_cache_artifacts, load_cache_artifacts): what Ingot's own cache keeps of
a build, which is the engine without its weights.
"""

import hashlib
import os
import tempfile

import ingot

import torch

_loaded = {}  # key -> the bytes of an exported cache
_folder = _cache = None  # of all that was loaded

try:
    from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager
except ImportError:  # another PyTorch
    CacheArtifactManager = None
else:

    @CacheArtifactFactory.register
    class EngineArtifact(CacheArtifact):
        @staticmethod
        def type():
            return "ingot"

        def populate_cache(self):
            _load(self.key, self.content)


def _load(key, content):
    global _folder, _cache
    if _cache is None:
        _folder = tempfile.TemporaryDirectory(prefix="ingot")
        _cache = ingot.Cache(_folder.name)
    with tempfile.TemporaryDirectory(prefix="ingot") as folder:
        path = os.path.join(folder, "cache")
        with open(path, "wb") as file:
            file.write(content)
        _cache.import_file(path)
    _loaded[key] = content


def build(model, artifacts=False, **options):
    """As ingot.compile, by what was loaded. artifacts: torch.compiler.save_cache_artifacts is to have it."""
    if artifacts and "cache" in options:
        raise ValueError("the options cache and artifacts exclude each other")
    if artifacts and CacheArtifactManager is None:
        raise ValueError(f"the option artifacts is not for PyTorch {torch.__version__}")
    if _cache is not None and "cache" not in options:
        engine = ingot.compile(model, cache=_cache, **options)
        if not artifacts:
            return engine
        if engine.report["structure_cached"]:
            for key, content in _loaded.items():
                CacheArtifactManager.record_artifact("ingot", key, content)
            return engine
    return _build_and_record(model, options) if artifacts else ingot.compile(model, **options)


def _build_and_record(model, options):
    with tempfile.TemporaryDirectory(prefix="ingot") as folder:
        cache = ingot.Cache(os.path.join(folder, "entries"))
        engine = ingot.compile(model, cache=cache, **options)
        path = os.path.join(folder, "cache")
        cache.export_file(path)
        with open(path, "rb") as file:
            content = file.read()
        del cache
    CacheArtifactManager.record_artifact("ingot", hashlib.sha256(content).hexdigest(), content)
    return engine
