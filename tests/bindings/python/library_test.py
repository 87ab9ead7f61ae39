"""Tests what needs no ranks: where the library is looked for, and perf results as tables. Arguments: TOOLS FOLDER."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import wreath
import wreath.perf

TOOLS = sys.argv.pop(1)


def import_with(path):
    """Returns the process that has run `import wreath` with this WREATH_LIBRARY."""
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

    def test_leaves_memory_to_arrays_that_outlive_the_interpreter(self):
        program = "\n".join(
            (
                "import os, wreath",
                "class Kept:",
                "    def __init__(self): self.values = wreath.empty(4)",
                "    def __del__(self, write=os.write): write(1, b'%g\\n' % self.values[0])",
                "kept = Kept()",
            )
        )
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        self.assertEqual((ended.returncode, ended.stdout), (0, "0\n"), ended.stderr)

    def test_has_a_version(self):
        self.assertEqual(wreath.library_version, wreath.__version__)


def start(words, variables):
    """Starts a process of this interpreter, whose rank a launcher's variables give."""
    return subprocess.Popen(
        [sys.executable, *words],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class Launchers(unittest.TestCase):
    """The variables of MPI's launchers and of Slurm are set for the example and for wreath.init() alone."""

    INIT = ("-c", "import wreath; one = wreath.init(); one.barrier(); print('rank', one.rank, 'of', one.ranks)")

    def programs(self):
        programs = [self.INIT]
        if importlib.util.find_spec("numpy") is not None:
            root = pathlib.Path(wreath.__file__).parents[3]
            programs.append((str(root / "examples" / "05_python" / "main.py"),))
        return programs

    def test_of_mpi_make_no_worlds_of_one(self):
        for variables, named in (
            ({"OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_RANK": "1", "PMIX_RANK": "1"}, "OMPI_COMM_WORLD_SIZE=3"),
            ({"PMI_SIZE": "3", "PMI_RANK": "1"}, "PMI_SIZE=3"),
            ({"PMIX_RANK": "1", "PMIX_NAMESPACE": "prterun-7"}, "PMIX_RANK=1"),
        ):
            for program in self.programs():
                process = start(program, variables)
                out, err = process.communicate()
                self.assertNotEqual(process.returncode, 0, (program, named, out))
                self.assertNotIn("rank", out)
                self.assertIn(f"{named}, but Wreath does not meet through MPI's launchers", err)
                self.assertIn("wreath run", err)

    def test_of_slurm_join(self):
        for program in self.programs():
            ranks = [
                start(
                    program,
                    {
                        "SLURM_PROCID": str(rank),
                        "SLURM_STEP_NUM_TASKS": "2",
                        "SLURM_STEP_ID": "0",
                        "SLURM_JOB_ID": str(os.getpid()),
                        "SLURM_STEP_NODELIST": "n0",
                        "PMI_SIZE": "2",
                        "PMIX_RANK": str(rank),
                    },
                )
                for rank in range(2)
            ]
            for rank, process in enumerate(ranks):
                out, err = process.communicate()
                self.assertEqual(process.returncode, 0, err)
                self.assertIn(f"rank {rank} of 2", out)


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
            # The tool is built with the sanitizer, so it does not need the one preloaded for this interpreter.
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
