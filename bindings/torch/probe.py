"""Prints what CMake has to know of the torch that this interpreter imports, a `name=value` a line, or why it cannot."""

import sys
import sysconfig


def facts():
    try:
        import torch
    except Exception as error:
        return {"missing": f"{sys.executable} cannot import torch ({type(error).__name__}: {error})".replace("\n", " ")}
    version = getattr(torch, "__version__", "0.0")
    if tuple(int(part) for part in version.split(".")[:2]) < (2, 6):
        return {"missing": f"torch {version}: 2.6 or newer is needed"}
    if not torch._C._GLIBCXX_USE_CXX11_ABI:
        return {"missing": f"torch {version} is built with C++ strings of before 2015; wheels from 2.7 on are not"}
    if not torch.distributed.is_available():
        return {"missing": f"torch {version} is built without torch.distributed"}
    return {
        "version": version,
        "root": torch.__path__[0],
        "include": sysconfig.get_path("include"),
        "suffix": sysconfig.get_config_var("EXT_SUFFIX"),
    }


for name, value in facts().items():
    print(f"{name}={value}")
