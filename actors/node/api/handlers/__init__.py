"""One file an API; each registers itself. `load()` imports them all, so that the table is complete."""

import importlib
import pkgutil

_loaded = False


def load() -> None:
    """Import every module of this package once."""
    global _loaded
    if _loaded:
        return
    _loaded = True
    for module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{module}")
