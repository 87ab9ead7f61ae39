"""What `import torch` calls (entry point group `torch.backends`): registers the backend, and never fails."""

import contextlib
import warnings


def register():
    try:
        import wreath_torch  # noqa: F401
    except Exception as error:
        with contextlib.suppress(Exception):  # also where warnings are errors
            warnings.warn(f"the backend wreath of torch.distributed is not there: {error}", RuntimeWarning, stacklevel=2)
