"""An ONNX classifier from Python: python3 examples/digits.py, with NumPy and the package installed (or in build/python)."""
import numpy as np

import ingot

picture = ["  #@*-  ", "  **#*  ", "    +=  ", "   +#.  ", "  =@@*  ", "  =:=@. ", " :#-+#  ", " .*@#-  "]
image = np.array([[" .:-=+*#@".index(c) / 8 for c in line] for line in picture], np.float32)
engine = ingot.compile("examples/digits/digits.onnx")
probability = engine(image.reshape(1, 1, 8, 8))[0]
print(f"a {probability.argmax()}, with probability {probability.max():.3f}")
