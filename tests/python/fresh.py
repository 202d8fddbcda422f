"""A Python with nothing but the wheel: imports it, and runs the engine of examples/digits that is given."""

import array
import sys
import time

begin = time.perf_counter()
import ingot

milliseconds = (time.perf_counter() - begin) * 1e3
engine = ingot.load(sys.argv[1])
image = memoryview(array.array("f", [0.5] * 64)).cast("B").cast("f", (1, 1, 8, 8))
probability = engine(image).tolist()[0]
assert len(probability) == 10 and abs(sum(probability) - 1) < 1e-4, probability
if not ingot.can_compile:
    try:
        ingot.compile("model.onnx")
    except ingot.Unsupported as error:
        assert "libingot" in str(error)
    else:
        raise AssertionError("libingot-rt compiles")
print(f"ingot {ingot.__version__} on Python {sys.version.split()[0]}: imported in {milliseconds:.0f} ms, ran an engine")
