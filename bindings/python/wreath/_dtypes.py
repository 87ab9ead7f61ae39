"""The dtypes: the one table of them in Python, in the order of enum wreath_dtype."""

# numpy's (and ml_dtypes') name, and DLPack's {code, bits}.
_ROWS = (
    ("int8", (0, 8)),
    ("uint8", (1, 8)),
    ("int32", (0, 32)),
    ("uint32", (1, 32)),
    ("int64", (0, 64)),
    ("uint64", (1, 64)),
    ("float16", (2, 16)),
    ("float32", (2, 32)),
    ("float64", (2, 64)),
    ("bfloat16", (4, 16)),
    ("float8_e4m3fn", (10, 8)),
    ("float8_e5m2", (12, 8)),
)
NAMES = tuple(name for name, _ in _ROWS)
BY_DLPACK = {dlpack: name for name, dlpack in _ROWS}


def is_integer(number):
    """Whether the dtype of this number is one of integers: DLPack's codes 0 and 1."""
    return _ROWS[number][1][0] < 2
