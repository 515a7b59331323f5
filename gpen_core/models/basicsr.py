"""The one door to basicsr, which restoring faces never needs.

basicsr 1.4.2, its last release, cannot be imported beside torchvision 0.17 or later without help.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

REMOVED_MODULE = "torchvision.transforms.functional_tensor"
"""basicsr imports from it; torchvision removed it in 0.17 and has its functions in `functional`."""


def import_basicsr(module: str) -> ModuleType:
    """`basicsr.<module>`.

    Raises:
        ImportError: basicsr is not installed, or not usable.
    """
    if REMOVED_MODULE not in sys.modules and importlib.util.find_spec(REMOVED_MODULE) is None:
        sys.modules[REMOVED_MODULE] = importlib.import_module(REMOVED_MODULE.removesuffix("_tensor"))
    return importlib.import_module(f"basicsr.{module}")
