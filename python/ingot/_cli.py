"""The console script `ingot`: the command line that is in the wheel."""

import os
import sys

from . import _tools


def main():
    program = os.path.join(os.path.dirname(__file__), "bin", "ingot")
    if not os.path.exists(program):
        sys.exit("ingot: the command line is not part of this installation")
    # What a program of C cannot know: where this environment keeps compilers.
    for variable, find in (("INGOT_NVRTC", _tools.find_nvrtc), ("INGOT_CC", _tools.find_cc)):
        path = os.environ.get(variable) or find()
        if path:
            os.environ[variable] = path
    import subprocess  # not exec: files that _tools made are removed at the end

    sys.exit(subprocess.call([program, *sys.argv[1:]]))
