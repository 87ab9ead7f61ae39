"""Makes the wheel of this package: a zip of its files, for pip. Nothing has to be downloaded or compiled.

With `--config-settings build=BUILD` the wheel also has the library and the program `wreath` of that build folder, for
machines like this one (docs/packages.md).
"""

import pathlib
import re
import subprocess
import sysconfig
import tempfile

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


# It becomes the program `wreath`, which pip cannot place beside the libraries that it loads.
SCRIPT = b"""#!python
import importlib.util
import os
import sys

package = importlib.util.find_spec("wreath").submodule_search_locations[0]
os.execv(os.path.join(package, "bin", "wreath"), sys.argv)
"""
# Every machine has these libraries, so no wheel brings them.
OF_THE_SYSTEM = re.compile(r"^(ld-linux.*|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+))\.so")


def _stripped(path):
    with tempfile.NamedTemporaryFile() as copy:
        subprocess.run(["strip", "-o", copy.name, path], check=True)
        return pathlib.Path(copy.name).read_bytes()


def _licences(library):
    """Returns the licences of the libraries that this one needs, of which auditwheel puts copies into the wheel."""
    files = {}
    said = subprocess.run(["ldd", library], check=True, capture_output=True, text=True).stdout
    for name, path in re.findall(r"(\S+) => (/\S+)", said):
        search = ["dpkg-query", "-S", pathlib.Path(path).resolve()]
        owner = subprocess.run(search, capture_output=True, text=True).stdout
        licence = pathlib.Path("/usr/share/doc", owner.split(":")[0], "copyright")
        if owner and not OF_THE_SYSTEM.match(name) and licence.exists():
            files[f"dist-info/licenses/{name}.txt"] = licence.read_bytes()
    return files


def _files_of_build(build):
    library = build / "lib" / "libwreath.so.0"
    return {
        f"wreath/{library.name}": _stripped(library),
        "wreath/bin/wreath": _stripped(build / "bin" / "wreath"),
        "data/scripts/wreath": SCRIPT,
        "dist-info/licenses/LICENSE": (HERE.parent.parent / "LICENSE").read_bytes(),
        **_licences(library),
    }


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    files = {f"wreath/{path.name}": path.read_bytes() for path in sorted((HERE / "wreath").glob("*.py"))}
    tag = "py3-none-any"
    build = (config_settings or {}).get("build")
    if build:
        files |= _files_of_build(pathlib.Path(build))
        tag = "py3-none-" + re.sub(r"[-.]", "_", sysconfig.get_platform())
    return wheel.write(wheel_directory, METADATA, tag, files)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return wheel.write(wheel_directory, METADATA, "py3-none-any", {"wreath.pth": f"{HERE}\n".encode()})
