"""Writes wheels: a wheel is a zip of a package's files with what pip wants to know of them."""

import base64
import hashlib
import pathlib
import stat
import zipfile


def _record(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def write(wheel_directory, metadata, tag, files):
    """Writes a wheel and returns its name. The same files make the same bytes.

    `metadata` is METADATA's text after its version, with Name and Version. `tag` is one such as py3-none-any or
    cp311-cp311-linux_x86_64. `files` maps a path in the wheel to bytes; `dist-info/NAME` is one more file of the
    dist-info folder, and `data/scripts/NAME` a program of the environment. Files in folders `bin` and `scripts` are
    programs.
    """
    fields = dict(line.split(": ", 1) for line in metadata.splitlines()[:2])
    package = f"{fields['Name'].replace('-', '_')}-{fields['Version']}"
    folder = f"{package}.dist-info"
    pure = str(tag.endswith("-any")).lower()
    wheel = f"Wheel-Version: 1.0\nGenerator: wreath\nRoot-Is-Purelib: {pure}\nTag: {tag}\n"
    places = {"dist-info": folder, "data": f"{package}.data"}
    parts = {path: path.partition("/") for path in files}
    files = {f"{places.get(first, first)}{slash}{rest}": files[path] for path, (first, slash, rest) in parts.items()}
    files |= {f"{folder}/METADATA": f"Metadata-Version: 2.1\n{metadata}".encode(), f"{folder}/WHEEL": wheel.encode()}
    record = "".join(_record(name, data) for name, data in files.items()) + f"{folder}/RECORD,,\n"
    name = f"{package}-{tag}.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in {**files, f"{folder}/RECORD": record.encode()}.items():
            # Each entry has the oldest date that a zip can have.
            entry = zipfile.ZipInfo(path)
            entry.compress_type = zipfile.ZIP_DEFLATED
            mode = 0o755 if pathlib.PurePath(path).parent.name in ("bin", "scripts") else 0o644
            entry.external_attr = (stat.S_IFREG | mode) << 16
            archive.writestr(entry, data)
    return name
