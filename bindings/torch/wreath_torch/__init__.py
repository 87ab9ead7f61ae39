"""Makes Wreath a backend of torch.distributed, for CPU tensors: `init_process_group("wreath")`.

Importing this registers the name, as `import torch` does by itself where the package is installed. The compiled part is
loaded with the first process group.
"""

import atexit
import functools

import torch
import torch.distributed

from wreath_torch._built import TORCH as built_for

__version__ = "0.1.0"
__all__ = ["built_for"]


def _minor(version):
    return version.split(".")[:2]


@functools.cache
def _native():
    if _minor(torch.__version__) != _minor(built_for):
        raise ImportError(
            f"wreath_torch was compiled for torch {built_for}, and this is torch {torch.__version__}: install it again "
            "(pip install --force-reinstall --no-deps bindings/torch, in Wreath's sources)"
        )
    from wreath_torch import _C

    # Peers shall not take the end of this program for a death.
    atexit.register(_C.shut_down_all)
    return _C


def _make_backend(options, pg_options):
    if pg_options is not None:
        raise ValueError(f"pg_options = {pg_options!r}: the backend wreath takes none; its settings are environment variables")
    return _native().make_backend(
        store=options.store,
        rank=options.group_rank,
        size=options.group_size,
        timeout=options.timeout,
        name=options.group_id,
        global_ranks=options.global_ranks_in_group,
    )


def _register():
    if torch.distributed.is_available() and "WREATH" not in torch.distributed.Backend._plugins:
        torch.distributed.Backend.register_backend("wreath", _make_backend, extended_api=True, devices=["cpu"])


_register()
