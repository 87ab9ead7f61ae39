"""Makes the wheel of this package: a zip of its files, for pip. Nothing has to be downloaded or compiled."""

import pathlib
import re

import wheel

HERE = pathlib.Path(__file__).resolve().parent
VERSION = re.search(r'__version__ = "(.*)"', (HERE / "wreath" / "__init__.py").read_text()).group(1)
METADATA = f"""Name: wreath
Version: {VERSION}
Summary: Collective communication: rings and trees of ranks
License: Apache-2.0
Requires-Python: >=3.9
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
Provides-Extra: perf
Requires-Dist: pandas; extra == "perf"
"""


def _write(wheel_directory, files):
    return wheel.write(wheel_directory, METADATA, "py3-none-any", files)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _write(wheel_directory, {f"wreath/{path.name}": path.read_bytes() for path in sorted((HERE / "wreath").glob("*.py"))})


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _write(wheel_directory, {"wreath.pth": f"{HERE}\n".encode()})
