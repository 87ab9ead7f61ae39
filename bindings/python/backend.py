"""Makes the wheel of this package: a zip of its files, for pip. Nothing has to be downloaded or compiled."""

import base64
import hashlib
import pathlib
import re
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
VERSION = re.search(r'__version__ = "(.*)"', (HERE / "wreath" / "__init__.py").read_text()).group(1)
FOLDER = f"wreath-{VERSION}.dist-info"
METADATA = f"""Metadata-Version: 2.1
Name: wreath
Version: {VERSION}
Summary: Collective communication: rings and trees of ranks
License: Apache-2.0
Requires-Python: >=3.9
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
Provides-Extra: perf
Requires-Dist: pandas; extra == "perf"
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: wreath\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def _record(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def _write(wheel_directory, files):
    files = {**files, f"{FOLDER}/METADATA": METADATA.encode(), f"{FOLDER}/WHEEL": WHEEL.encode()}
    record = "".join(_record(name, data) for name, data in files.items()) + f"{FOLDER}/RECORD,,\n"
    name = f"wreath-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in {**files, f"{FOLDER}/RECORD": record.encode()}.items():
            wheel.writestr(path, data)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _write(wheel_directory, {f"wreath/{path.name}": path.read_bytes() for path in sorted((HERE / "wreath").glob("*.py"))})


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _write(wheel_directory, {"wreath.pth": f"{HERE}\n".encode()})
