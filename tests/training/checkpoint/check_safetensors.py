"""Reads a checkpoint with nothing but Python's standard library: check_safetensors.py FOLDER STEP.

Every file must be as safetensors' README says, and the index must name what the files hold. Every element must have
the value that tests/training/checkpoint/model.cpp gives it. With --safetensors, Python's own package reads the
values.
"""

import json
import math
import struct
import sys
from pathlib import Path

MOMENTS = {"exp_avg": 1, "exp_avg_sq": 2}


def read_file(path):
    """Returns a file's tensors as {name: (shape, values)}. Checks its header, and that its offsets leave no hole."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    assert length % 8 == 0 and data[8:9] == b"{", f"{path}: header of {length} bytes"

    def without_repetition(pairs):
        assert len({key for key, _ in pairs}) == len(pairs), f"{path}: a key twice"
        return dict(pairs)

    header = json.loads(data[8 : 8 + length].decode("utf-8"), object_pairs_hook=without_repetition)
    assert header.pop("__metadata__") == {"format": "pt"}, path
    buffer = data[8 + length :]
    tensors, end = {}, 0
    for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        first, last = tensor["data_offsets"]
        count = math.prod(tensor["shape"])
        assert tensor["dtype"] == "F32" and first == end and last - first == 4 * count, f"{path}: {name}: {tensor}"
        tensors[name] = (tensor["shape"], struct.unpack(f"<{count}f", buffer[first:last]))
        end = last
    assert end == len(buffer), f"{path}: {end} of {len(buffer)} bytes are tensors"
    assert list(header) == sorted(header), f"{path}: not in order"
    return tensors


def read_with_package(path):
    from safetensors import safe_open

    with safe_open(path, framework="np") as file:
        assert file.metadata() == {"format": "pt"}
        return {name: (list(file.get_tensor(name).shape), file.get_tensor(name).flatten()) for name in file.keys()}


def value_of(name, index, step):
    base, _, moment = name.rpartition(".")
    array = MOMENTS.get(moment, 0)
    letters = sum(map(ord, base if array else name))
    return (letters + step) * 2048 + array * 512 + index


def check_set(folder, stem, step, read):
    index = json.loads((folder / f"{stem}.safetensors.index.json").read_text())
    held, bytes_held = {}, 0
    files = sorted(folder.glob(f"{stem}-*-of-*.safetensors"))
    for number, path in enumerate(files, 1):
        assert path.name == f"{stem}-{number:05}-of-{len(files):05}.safetensors", path
        for name, (_, values) in read(path).items():
            held[name] = path.name
            bytes_held += 4 * len(values)
            for i, value in enumerate(values):
                assert value == value_of(name, i, step), f"{path}: {name}[{i}] is {value}"
    assert index["weight_map"] == held and index["metadata"]["total_size"] == bytes_held, f"index of {stem}"
    return set(held)


def main():
    folder, step = Path(sys.argv[1]), int(sys.argv[2])
    read = read_with_package if "--safetensors" in sys.argv else read_file
    weights = check_set(folder, "model", step, read)
    moments = check_set(folder, "optimizer", step, read)
    assert moments == {f"{name}.{moment}" for name in weights for moment in MOMENTS}, "moments"
    assert json.loads((folder / "training_state.json").read_text())["step"] == step
    print(f"{len(weights)} weights and {len(moments)} moments are as they should be")


if __name__ == "__main__":
    main()
