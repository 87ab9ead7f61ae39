"""Tests the package around the backend: `import torch` finds it and never fails because of it. Argument: the folder
of the build."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILT = sys.argv.pop(1)
NAMES = "import torch, torch.distributed as dist; print('wreath' in dist.Backend.backend_list)"


class Installed(unittest.TestCase):
    """A copy of the package with the entry point that pip would install."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copytree(BUILT, self.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        os.mkdir(f"{self.folder}/wreath_torch-0.dist-info")
        self.write("wreath_torch-0.dist-info/METADATA", "Metadata-Version: 2.1\nName: wreath-torch\nVersion: 0\n")
        self.write("wreath_torch-0.dist-info/entry_points.txt", "[torch.backends]\nwreath = wreath_torch_autoload:register\n")

    def write(self, path, text):
        with open(f"{self.folder}/{path}", "w", encoding="utf-8") as file:
            file.write(text)

    def run_python(self, code, *flags, **environment):
        return subprocess.run([sys.executable, "-B", *flags, "-c", code], env={**os.environ, "PYTHONPATH": self.folder, **environment},
                              capture_output=True, text=True, check=False, timeout=100)

    def test_import_torch_registers_the_name(self):
        self.assertEqual(self.run_python(NAMES).stdout, "True\n")
        self.assertEqual(self.run_python(NAMES, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout, "False\n")
        self.assertEqual(self.run_python("import wreath_torch;" + NAMES, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout, "True\n")

    def test_the_module_is_loaded_with_the_first_group(self):
        code = """
import sys, torch, torch.distributed as dist
assert "wreath_torch._C" not in sys.modules
dist.init_process_group("{}", store=dist.HashStore(), rank=0, world_size=1)
tensor = torch.ones(3)
dist.all_reduce(tensor)
print(tensor.tolist(), "wreath_torch._C" in sys.modules, type(dist.group.WORLD._get_backend(torch.device("cpu"))).__name__)
"""
        for name in ("wreath", "cpu:wreath"):
            said = self.run_python(code.format(name))
            self.assertEqual(said.stdout, "[1.0, 1.0, 1.0] True Backend\n", said.stderr)

    def test_a_broken_package_is_a_warning(self):
        self.write("wreath_torch/__init__.py", "raise OSError('of a test')\n")
        for flags in ([], ["-W", "error"]):
            said = self.run_python("import torch; print('imported')", *flags)
            self.assertEqual(said.stdout, "imported\n", said.stderr)
        said = self.run_python("import torch")
        self.assertEqual(said.stderr.count("the backend wreath of torch.distributed is not there: of a test"), 1, said.stderr)

    def test_a_broken_module_is_an_error_of_the_group(self):
        for name in os.listdir(f"{self.folder}/wreath_torch"):
            if name.endswith(".so"):
                self.write(f"wreath_torch/{name}", "no library")
        code = """
import torch, torch.distributed as dist
try: dist.init_process_group("wreath", store=dist.HashStore(), rank=0, world_size=1)
except ImportError as error: print("ImportError", error)
"""
        self.assertIn("ImportError", self.run_python(code).stdout)

    def test_another_torch_is_an_error_that_says_what_to_do(self):
        self.write("wreath_torch/_built.py", "TORCH = '2.6.1'\n")
        code = """
import torch, torch.distributed as dist
try: dist.init_process_group("wreath", store=dist.HashStore(), rank=0, world_size=1)
except ImportError as error: print(error)
"""
        self.assertRegex(self.run_python(code).stdout, "compiled for torch 2.6.1, and this is torch .*: install it again")


if __name__ == "__main__":
    unittest.main(verbosity=2 if os.environ.get("WREATH_TEST_LONG") == "1" else 1)
