"""What needs no ranks: where the library is looked for, and perf results as tables. Arguments: TOOLS FOLDER."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import wreath
import wreath.perf

TOOLS = sys.argv.pop(1)


def import_with(path):
    """What `import wreath` says with this WREATH_LIBRARY."""
    return subprocess.run(
        [sys.executable, "-c", "import wreath; print(wreath.library_path)"],
        env={**os.environ, "WREATH_LIBRARY": path},
        capture_output=True,
        text=True,
        check=False,
    )


class Library(unittest.TestCase):
    def test_is_taken_from_the_file_or_folder_that_is_named(self):
        for path in (str(wreath.library_path), str(wreath.library_path.parent)):
            self.assertEqual(import_with(path).stdout.strip(), str(wreath.library_path))

    def test_that_is_not_there_is_an_error_that_names_the_place(self):
        said = import_with("/nowhere/at/all.so").stderr
        self.assertIn("ImportError: the Wreath library is not found", said)
        self.assertIn("/nowhere/at/all.so (WREATH_LIBRARY): not there", said)

    def test_of_another_kind_is_an_error(self):
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            self.assertIn(file.name + " (WREATH_LIBRARY): ", import_with(file.name).stderr)

    def test_has_a_version(self):
        self.assertEqual(wreath.library_version, wreath.__version__)


class Package(unittest.TestCase):
    def test_is_installed_by_pip_without_a_network(self):
        source = os.path.dirname(os.path.dirname(wreath.__file__))
        pip = [sys.executable, "-m", "pip"]
        if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode != 0:
            self.skipTest("pip is not here")
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "PYTHONPATH": "", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
            install = [*pip, "install", "--quiet", "--no-index", "--no-compile", "--target", folder, source]
            subprocess.run(install, check=True, env=environment, capture_output=True)
            said = subprocess.run(
                [sys.executable, "-c", "import wreath; print(wreath.__file__, wreath.init())"],
                env={**environment, "PYTHONPATH": folder},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            self.assertEqual(said, f"{folder}/wreath/__init__.py <wreath.Communicator rank 0 of 1>\n")


class Perf(unittest.TestCase):
    def test_results_become_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "results.json")
            command = [os.path.join(TOOLS, "all_reduce_perf"), "-t", "2", "--sizes", "8,64K", "-n", "2", "-w", "1", "--json", path]
            # What was loaded before this interpreter for a sanitizer's sake the tool has in itself.
            environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
            subprocess.run(command, env=environment, check=True, capture_output=True)
            rows = wreath.perf.rows(path)
            with open(path, encoding="utf-8") as file:
                first = json.load(file)["results"][0]
            self.assertEqual([row["size"] for row in rows], [8, 8, 65536, 65536])
            self.assertEqual([row["in_place"] for row in rows], [False, True, False, True])
            self.assertEqual(rows[0]["time_us"], first["out_of_place"]["time"])
            self.assertEqual(rows[1]["busbw_gbps"], first["in_place"]["bus_bw"])
            self.assertEqual((rows[0]["ranks"], rows[0]["type"], rows[0]["wrong"]), (2, "float", 0))
            self.assertIn("lanes=", rows[0]["plan"])
            self.assertEqual(len(wreath.perf.read(path)), 4)


if __name__ == "__main__":
    unittest.main()
