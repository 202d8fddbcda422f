"""Files that are replaced as a whole."""

import os
import tempfile


def write(path, data):
    """Writes `data` to `path`: whoever reads it meanwhile sees the old contents or the new ones."""
    path = os.fsdecode(path)
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=".ingot-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
