"""Registers the backend when `import torch` asks for it (entry point group `torch.backends`), and never fails."""

import contextlib
import warnings


def register():
    try:
        import wreath_torch  # noqa: F401
    except Exception as error:
        # With this the call does not fail where warnings are errors, either.
        with contextlib.suppress(Exception):
            warnings.warn(f"the backend wreath of torch.distributed is not there: {error}", RuntimeWarning, stacklevel=2)
