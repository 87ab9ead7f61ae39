"""Reads results of the perf tools (`all_reduce_perf --json FILE`) as a table."""

import json

# Maps keys of one row's `out_of_place` and `in_place` (docs/formats.md) to the columns they become.
_TIMES = {"time": "time_us", "alg_bw": "algbw_gbps", "bus_bw": "busbw_gbps", "nwrong": "wrong"}


def rows(path):
    """Returns a dictionary for each size and place of the buffers: what was measured, and with what plan."""
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    own = report.get("wreath", {})
    table = []
    for result in report["results"]:
        for place in ("out_of_place", "in_place"):
            times = result.get(place)
            if times is None:
                continue
            row = {key: result[key] for key in ("size", "count", "type", "redop", "root")}
            row["in_place"] = place == "in_place"
            row.update({column: times.get(key) for key, column in _TIMES.items()})
            row.update({key: value for key, value in result.get(f"{place}_per_iter", {}).items() if key != "times_us"})
            row["plan"] = result.get("wreath", {}).get("plan", {}).get("text")
            row["limit_us"] = result.get("wreath", {}).get("limit_us")
            row["ranks"] = own.get("ranks")
            row["transport"] = own.get("transport")
            table.append(row)
    return table


def read(path):
    """Returns a pandas.DataFrame of rows(path), or that list itself where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        return rows(path)
    return pandas.DataFrame(rows(path))
