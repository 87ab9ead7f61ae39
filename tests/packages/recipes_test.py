"""Reads the recipes of packaging/ as their tools would: Containerfile, and Spack's package.py. They name stages, presets,
options and packages that exist, and all packages that the build needs."""

import ast
import json
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
INSTRUCTIONS = {"FROM", "RUN", "COPY", "WORKDIR", "CMD", "ENV", "ARG", "LABEL", "USER", "ENTRYPOINT", "EXPOSE", "VOLUME"}
# Maps what CMake looks for to the packages of Spack that have it.
IN_SPACK = {
    "fmt": "fmt",
    "nlohmann_json": "nlohmann-json",
    "CLI11": "cli11",
    "libsodium": "libsodium",
    "libhwy": "highway",
    "libibverbs": "rdma-core",
    "libfabric": "libfabric",
    "hwloc": "hwloc",
}
# What recipes take from `spack.package` without naming it. Classes of packages are not in it since Spack 1.0.
OF_SPACK = {"license", "version", "variant", "depends_on", "conflicts"}
# Every machine has these.
IN_ANY = {"Threads", "PkgConfig"}


def read(path):
    return (ROOT / path).read_text()


def cmake_options():
    text = "".join(read(path) for path in ("CMakeLists.txt", "cmake/wreath_dependencies.cmake"))
    return set(re.findall(r"(?:option|set)\((WREATH_[A-Z_]+)", text))


def project_version():
    return re.search(r"project\(wreath VERSION ([0-9.]+)", read("CMakeLists.txt")).group(1)


def instructions(text):
    """Returns the pairs of instruction and arguments, with lines that go on joined."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    whole = re.sub(r"\\\n", " ", "\n".join(lines))
    return [tuple(line.split(None, 1)) for line in whole.splitlines() if line.strip()]


def installed_by(command):
    """Returns the packages that the words of an apt-get install name."""
    words = re.search(r"apt-get install ([^&]*)", command).group(1).split()
    return {word for word in words if not word.startswith("-")}


class Containerfile(unittest.TestCase):
    def setUp(self):
        self.instructions = instructions(read("packaging/Containerfile"))

    def test_is_made_of_instructions_and_begins_with_an_image(self):
        self.assertEqual(self.instructions[0][0], "FROM")
        for name, arguments in self.instructions:
            self.assertIn(name, INSTRUCTIONS)
            self.assertNotEqual(arguments.strip(), "")
            if arguments.startswith("["):
                self.assertIsInstance(json.loads(arguments), list)

    def test_copies_from_stages_that_come_before(self):
        stages = set()
        for name, arguments in self.instructions:
            if name == "FROM":
                stages |= set(re.findall(r" AS (\w+)$", arguments))
            for stage in re.findall(r"--from=(\w+)", arguments):
                self.assertIn(stage, stages)

    def test_uses_presets_and_options_that_exist(self):
        text = read("packaging/Containerfile")
        presets = {preset["name"] for preset in json.loads(read("CMakePresets.json"))["configurePresets"]}
        named = set(re.findall(r"--preset (\w+)", text))
        self.assertTrue(named and named <= presets, named)
        self.assertLessEqual(set(re.findall(r"build/(\w+)", text)), named)
        self.assertLessEqual(set(re.findall(r"-D(WREATH_\w+)", text)), cmake_options())

    def test_installs_what_run_installs_for_a_build(self):
        table = re.search(r'\[build\]="([^"]*)"', read("cmake/set_up")).group(1)
        needed = {line.split(":")[0] for line in table.splitlines()}
        commands = [arguments for name, arguments in self.instructions if name == "RUN" and "apt-get install" in arguments]
        self.assertLessEqual(needed, installed_by(commands[0]))

    def test_installs_packages_that_the_build_makes(self):
        made = set(re.findall(r"wreath_package\(([a-z0-9-]+)", read("cmake/wreath_packages.cmake")))
        self.assertEqual(len(made), 4)
        named = set(re.findall(r"/packages/([a-z0-9-]+)_", read("packaging/Containerfile")))
        self.assertTrue(named and named <= made, named)


class SpackRecipe(unittest.TestCase):
    def setUp(self):
        tree = ast.parse(read("packaging/spack/package.py"))
        self.imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
        (self.recipe,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        self.calls = [node for node in ast.walk(self.recipe) if isinstance(node, ast.Call)]

    def arguments(self, function):
        """Returns the texts that each call of the function is given."""
        named = [call for call in self.calls if getattr(call.func, "id", getattr(call.func, "attr", "")) == function]
        return [[argument.value for argument in call.args if isinstance(argument, ast.Constant)] for call in named]

    def test_is_a_package_that_cmake_builds(self):
        self.assertEqual(self.recipe.name, "Wreath")
        self.assertEqual([base.id for base in self.recipe.bases], ["CMakePackage"])

    def test_imports_every_name_that_it_uses(self):
        imported = {name.name for node in self.imports for name in node.names}
        own = {argument.arg for node in ast.walk(self.recipe) if isinstance(node, ast.arguments) for argument in node.args}
        for node in ast.walk(self.recipe):
            if isinstance(node, ast.Name):
                self.assertIn(node.id, imported | own | OF_SPACK)

    def test_has_the_version_of_the_project(self):
        self.assertEqual(self.arguments("version"), [[project_version()]])

    def test_sets_options_that_exist_by_variants_that_it_has(self):
        variants = {names[0] for names in self.arguments("variant")}
        for option, variant in self.arguments("define_from_variant"):
            self.assertIn(option, cmake_options())
            self.assertIn(variant, variants)
        for option, *_ in self.arguments("define"):
            self.assertIn(option, cmake_options() | {"CMAKE_UNITY_BUILD"})

    def test_depends_on_all_that_cmake_looks_for(self):
        text = read("cmake/wreath_dependencies.cmake")
        wanted = set(re.findall(r"find_package\((\w+)", text)) - IN_ANY
        wanted |= set(re.findall(r"pkg_check_modules\(\w+ (?:REQUIRED|QUIET) (?:IMPORTED_TARGET )?(\w+)\)", text))
        self.assertEqual(wanted, set(IN_SPACK))
        needed = {names[0].split("@")[0] for names in self.arguments("depends_on")}
        self.assertLessEqual({IN_SPACK[name] for name in wanted}, needed)
        minimum = re.search(r"cmake_minimum_required\(VERSION ([0-9.]+)\)", read("CMakeLists.txt")).group(1)
        self.assertIn([f"cmake@{minimum}:"], self.arguments("depends_on"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
