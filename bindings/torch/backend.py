"""Makes the wheel of this package by CMake, against the torch that this interpreter imports outside of pip's build."""

import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "python"))

import wheel  # noqa: E402

VERSION = re.search(r'__version__ = "(.*)"', (HERE / "wreath_torch" / "__init__.py").read_text()).group(1)
ENTRY_POINTS = b"[torch.backends]\nwreath = wreath_torch_autoload:register\n"


def _metadata(torch_version):
    minor = ".".join(torch_version.split(".")[:2])
    return f"""Name: wreath-torch
Version: {VERSION}
Summary: Wreath as a backend of torch.distributed
License: Apache-2.0
Requires-Python: >=3.9
Requires-Dist: torch =={minor}.*
"""


def _tag():
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{python}-{python}-{re.sub(r'[-.]', '_', sysconfig.get_platform())}"


def _outside_of_pip():
    """Returns the environment without what pip sets to hide the packages that are installed, torch among them."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONNOUSERSITE")}


def _compile(build):
    launchers = [f"-D{name}={os.environ[name]}" for name in ("CMAKE_CXX_COMPILER_LAUNCHER",) if name in os.environ]
    subprocess.run(
        ["cmake", "-S", SOURCES, "-B", build, "-DCMAKE_BUILD_TYPE=Release", f"-DWREATH_TORCH_PYTHON={sys.executable}"]
        + ["-DWREATH_TESTS=OFF", "-DWREATH_TOOLS=OFF", "-DWREATH_INSTALL=OFF", "-DWREATH_CUDA=OFF", *launchers],
        check=True,
        env=_outside_of_pip(),
    )
    missing = re.search(r"^WREATH_TORCH_MISSING:INTERNAL=(.+)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
    if missing:
        sys.exit(f"wreath_torch is compiled against the torch that is installed: {missing.group(1)}")
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count()))
    subprocess.run(["cmake", "--build", build, "--target", "wreath_torch", "--parallel", jobs], check=True)
    return build / "lib" / "wreath" / "torch"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory(prefix="wreath-torch-") as build:
        package = _compile(pathlib.Path(build))
        files = {str(path.relative_to(package)): path.read_bytes() for path in sorted(package.rglob("*")) if path.is_file()}
    version = re.search(r'TORCH = "(.*)"', files["wreath_torch/_built.py"].decode()).group(1)
    return wheel.write(wheel_directory, _metadata(version), _tag(), {**files, "dist-info/entry_points.txt": ENTRY_POINTS})
