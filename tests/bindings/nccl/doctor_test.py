"""Compares `wreath doctor --nccl` with the loader itself: `doctor_test.py WREATH CC LIBRARY`.

The test makes programs for each rule of the loader. A program must load the file that the command names.
"""

import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

WREATH, CC = sys.argv[1:3]
LIBRARY = str(pathlib.Path(sys.argv[3]).parent.resolve() / "libnccl.so.2")
HERE = pathlib.Path(__file__).resolve().parent
SHIM = str(pathlib.Path(LIBRARY).parent / "libwreath_nccl_audit.so")
VARIABLES = ("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "WREATH_NCCL_LIBRARY", "VLLM_NCCL_SO_PATH", "PYTHONPATH")


def environment(**variables):
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return {**kept, **variables}


def enter_container(root):
    """Makes `root` this process's root in a new mount namespace, as container runtimes do."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_namespace, private, recursive, bind, detach = 0x20000, 1 << 18, 1 << 14, 1 << 12, 2
    pivot_root = {"x86_64": 155, "aarch64": 41}[os.uname().machine]

    def done(result):
        if result != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    done(libc.unshare(new_namespace))
    done(libc.mount(b"none", b"/", None, recursive | private, None))
    done(libc.mount(root, root, None, bind, None))
    os.chdir(root)
    done(libc.syscall(pivot_root, b".", b"."))
    done(libc.umount2(b".", detach))
    os.chdir("/")


class Doctor(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.decoy = self.library("other/libnccl.so.2", "-DDECOY", "-Wl,-soname,libnccl.so.2")

    def compile(self, name, *words):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([CC, "-o", path, *words], check=True)
        return str(path)

    def library(self, name, *words):
        return self.compile(name, "-shared", "-fPIC", HERE / "loader.c", *words)

    def program(self, name, rpath="", tags="enable", linked=None):
        words = [HERE / "loader.c", linked or self.decoy, "-ldl", f"-Wl,--{tags}-new-dtags", "-Wl,--allow-shlib-undefined"]
        return self.compile(name, *words, *([f"-Wl,-rpath,{rpath}"] if rpath else []))

    def ask(self, what, code=0, **variables):
        command = [WREATH, "doctor", "--json", "--nccl", str(what)]
        done = subprocess.run(command, env=environment(**variables), capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stderr, "")
        return json.loads(done.stdout)

    def loads(self, program, rule, file, *name, **variables):
        """Checks the rule and the file that the command names. Then runs the program with the same variables, to
        prove the file."""
        report = self.ask(program, **variables)
        use = report["uses"][0]
        self.assertEqual((use["rule"], use["file"]), (rule, str(file)), report)
        self.assertEqual(use["request"], "opened" if name else "needed")
        ran = subprocess.run([program, *name], env=environment(**variables), capture_output=True, text=True, check=True)
        self.assertEqual(os.path.realpath(ran.stdout.split()[1]), os.path.realpath(file))
        return use

    def test_rpath_comes_before_library_path(self):
        program = self.program("program", "$ORIGIN/other", "disable")
        ours = str(pathlib.Path(LIBRARY).parent)
        use = self.loads(program, "DT_RPATH", self.decoy, LD_LIBRARY_PATH=ours)
        self.assertEqual((use["of"], use["folder"]), (program, str(self.folder / "other")))
        self.assertEqual((use["library"], use["version"]), ("NCCL", "2.99.1"))
        self.assertIn("LD_PRELOAD=", use["instead"])

    def test_library_path_comes_before_runpath(self):
        program = self.program("program", self.folder / "other")
        nowhere = str(self.folder / "nowhere")
        ours = str(pathlib.Path(LIBRARY).parent)
        use = self.loads(program, "LD_LIBRARY_PATH", LIBRARY, LD_LIBRARY_PATH=f"{nowhere}:{ours}")
        self.assertEqual((use["library"], use["version"], use["instead"]), ("Wreath", "2.28.9", ""))
        self.assertEqual([(place["rule"], place["folder"]) for place in use["passed"]], [("LD_LIBRARY_PATH", nowhere)])
        use = self.loads(program, "DT_RUNPATH", self.decoy, LD_LIBRARY_PATH=nowhere)
        self.assertEqual(use["of"], program)

    def test_a_file_that_is_no_library_is_passed(self):
        (self.folder / "text").mkdir()
        # The file is a library of 32 bits.
        (self.folder / "text" / "libnccl.so.2").write_bytes(b"\x7fELF\x01" + bytes(100))
        program = self.program("program", self.folder / "other")
        use = self.loads(program, "DT_RUNPATH", self.decoy, LD_LIBRARY_PATH=str(self.folder / "text"))
        self.assertIn("another kind of machine", use["passed"][0]["why"])

    def test_rpath_is_inherited_and_runpath_is_not(self):
        needs = ["-DBY_NAME", "-Wl,--no-as-needed", self.decoy, "-Wl,-soname,libmiddle.so"]
        middle = self.library("middle/libmiddle.so", *needs)
        folders = f"{self.folder}/middle:{self.folder}/other"
        for tags, code in (("disable", 0), ("enable", 1)):
            words = ["-DBY_NAME", HERE / "loader.c", "-Wl,--no-as-needed", middle, "-ldl", f"-Wl,-rpath,{folders}"]
            program = self.compile("program", *words, f"-Wl,--{tags}-new-dtags", "-Wl,--allow-shlib-undefined")
            use = self.ask(program, code)["uses"][0]
            self.assertEqual(use["asks"], middle)
            self.assertEqual((use["file"], use["of"]), (self.decoy, program) if code == 0 else ("", ""))
            ran = subprocess.run([program, "libm.so.6"], env=environment(), capture_output=True, text=True)
            self.assertEqual("libnccl.so.2: cannot open" in ran.stderr, code == 1, ran.stderr)

    def test_preload_comes_first(self):
        program = self.program("program", self.folder / "other", "disable")
        use = self.loads(program, "LD_PRELOAD", LIBRARY, LD_PRELOAD=f"libm.so.6:{LIBRARY}")
        self.assertEqual(use["folder"], LIBRARY)
        use = self.loads(program, "DT_RPATH", self.decoy, LD_PRELOAD="libm.so.6")

    def test_the_auditor_answers_for_all(self):
        program = self.program("program", self.folder / "other", "disable")
        self.loads(program, "LD_AUDIT", LIBRARY, LD_AUDIT=SHIM)
        self.loads(program, "LD_AUDIT", self.decoy, LD_AUDIT=SHIM, WREATH_NCCL_LIBRARY=self.decoy)
        report = self.ask(program, LD_AUDIT=SHIM, WREATH_NCCL_LIBRARY="/nowhere/libnccl.so.2")
        self.assertEqual(report["uses"][0]["rule"], "DT_RPATH")
        self.assertIn("LD_AUDIT has no effect: /nowhere/libnccl.so.2: No such file", report["notes"][0])

    def test_programs_that_open_it_by_name(self):
        words = ["-DBY_NAME", HERE / "loader.c", "-ldl", f"-Wl,-rpath,{self.folder}/other"]
        program = self.compile("program", *words)
        use = self.loads(program, "DT_RUNPATH", self.decoy, "libnccl.so.2")
        self.assertEqual(use["asks"], program)
        plain = self.compile("plain", *words[:-1])
        use = self.ask(plain)["uses"][0]
        self.assertEqual((use["file"], use["request"]), ("", "opened"))
        self.assertEqual({place["rule"] for place in use["passed"]}, {"/etc/ld.so.cache", "default folder"})

    def process(self, rule, file, program, *arguments, **variables):
        command = [program, *arguments, "wait"]
        running = subprocess.Popen(command, env=environment(**variables), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            self.assertNotEqual(running.stdout.readline(), b"")
            uses = [use for use in self.ask(running.pid)["uses"] if use["file"] == os.path.realpath(file)]
            self.assertEqual([use["rule"] for use in uses], [rule], uses)
            return uses[0]
        finally:
            running.communicate()

    def test_running_processes(self):
        program = self.program("program", self.folder / "other", "disable")
        self.process("DT_RPATH", self.decoy, program, "libnccl.so.2")
        self.process("LD_PRELOAD", LIBRARY, program, "libnccl.so.2", LD_PRELOAD=LIBRARY)
        use = self.process("path", LIBRARY, program, LIBRARY)
        self.assertEqual((use["request"], use["library"]), ("mapped", "Wreath"))
        needs = ["-DBY_NAME", "-Wl,--no-as-needed", self.decoy, f"-Wl,-rpath,{self.folder}/other"]
        plugin = self.library("plugin.so", *needs)
        bare = self.compile("bare", "-DBY_NAME", HERE / "loader.c", "-ldl")
        use = self.process("DT_RUNPATH", self.decoy, bare, plugin)
        self.assertEqual((use["asks"], use["of"]), (plugin, plugin))
        report = self.ask(os.getpid())
        self.assertIn("no libnccl loaded", report["notes"][0])

    def packages(self):
        wheel = self.library("site/nvidia/nccl/lib/libnccl.so.2", "-DDECOY", "-Wl,-soname,libnccl.so.2")
        words = ["-DBY_NAME", "-Wl,--no-as-needed", wheel, "-Wl,--disable-new-dtags"]
        self.library("site/torch/lib/libtorch_cuda.so", *words, "-Wl,-rpath,$ORIGIN/../../nvidia/nccl/lib")
        # CuPy's library names no folder, because cuda-pathfinder has opened NVIDIA's package before.
        self.library("site/cupy_backends/cuda/libs/nccl.any.so", "-DBY_NAME", "-Wl,--no-as-needed", wheel)
        (self.folder / "site" / "vllm").mkdir()
        return str(self.folder / "site")

    def test_python_packages(self):
        site = self.packages()
        report = self.ask(sys.executable, PYTHONPATH=site)
        self.assertEqual(report["kind"], "python")
        uses = {use["by"]: use for use in report["uses"][1:]}
        wheel = os.path.realpath(site + "/nvidia/nccl/lib/libnccl.so.2")
        for package in ("torch", "vllm"):
            self.assertEqual(os.path.realpath(uses[package]["file"]), wheel, uses)
            self.assertEqual(uses[package]["rule"], "DT_RPATH")
        self.assertEqual((uses["cupy"]["file"], uses["cupy"]["of"]), (wheel, "cuda-pathfinder"))
        self.assertTrue(any("nvidia/nccl/lib/libnccl.so.2 is NCCL 2.99.1" in note for note in report["notes"]))
        report = self.ask(sys.executable, PYTHONPATH=site, LD_PRELOAD=LIBRARY)
        self.assertEqual({use["rule"] for use in report["uses"]}, {"LD_PRELOAD"})
        report = self.ask(sys.executable, PYTHONPATH=site, VLLM_NCCL_SO_PATH=LIBRARY)
        uses = {use["by"]: use for use in report["uses"]}
        self.assertEqual((uses["vllm"]["file"], uses["vllm"]["of"]), (LIBRARY, "VLLM_NCCL_SO_PATH"))
        self.assertEqual(uses["torch"]["rule"], "DT_RPATH")

    def test_scripts(self):
        script = self.folder / "serve"
        script.write_text(f"#!{sys.executable}\n")
        script.chmod(0o755)
        self.assertEqual(self.ask(script)["kind"], "python")

    def refused(self, what, words):
        done = subprocess.run([WREATH, "doctor", "--nccl", what], env=environment(), capture_output=True, text=True)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn(words, done.stderr)

    def test_what_cannot_be_looked_at(self):
        shell = self.folder / "shell"
        shell.write_text("#!/bin/sh\n")
        text = self.folder / "text"
        text.write_text("text")
        fake = self.folder / "python-of-no-kind"
        fake.write_text("#!/bin/sh\necho no\n")
        for file in (shell, text, fake):
            file.chmod(0o755)
        self.refused(str(shell), "is a script of /bin/sh")
        self.refused(str(text), "is no program")
        self.refused(str(fake), "does not tell its paths")
        self.refused("no-such-program-anywhere", "no such program")
        self.refused("2147483647", "there is none")
        self.refused("99999999999", "is no process id")

    def test_a_library_alone(self):
        needs = ["-DBY_NAME", "-Wl,--no-as-needed", self.decoy, "-Wl,-rpath,$ORIGIN/other"]
        library = self.library("libneeds.so", *needs)
        report = self.ask(library)
        self.assertEqual(report["kind"], "library")
        use = report["uses"][0]
        self.assertEqual((use["rule"], use["file"], use["request"]), ("DT_RUNPATH", self.decoy, "needed"))

    def test_programs_that_the_loader_has_no_part_in(self):
        source = self.folder / "empty.c"
        source.write_text("int main(void) { return 0; }")
        for kind in ("-static", "-static-pie"):
            report = self.ask(self.compile("alone", kind, source))
            self.assertEqual((report["uses"], report["kind"]), ([], "program"))
            self.assertIn("linked statically", report["notes"][0])
        for loader, words in (("/nowhere/" + self.loader_name(), "No such file"), ("/lib/ld-other.so.1", "of its own")):
            self.refused(self.compile("elsewhere", source, f"-Wl,--dynamic-linker={loader}"), words)
        foreign = bytearray((self.folder / "alone").read_bytes())
        foreign[18:20] = (8).to_bytes(2, "little")  # e_machine: MIPS
        (self.folder / "foreign").write_bytes(foreign)
        (self.folder / "foreign").chmod(0o755)
        self.refused(str(self.folder / "foreign"), "another kind of machine")

    def loader_name(self):
        listed = subprocess.run(["/bin/sh", "-c", "exec cat /proc/self/maps"], capture_output=True, text=True, check=True)
        return next(word for word in listed.stdout.replace("/", " ").split() if word.startswith("ld-linux"))

    def test_no_code_of_what_is_looked_at_runs(self):
        """No constructors and no resolvers of functions run, in needed and in opened libraries."""
        touched = self.folder / "touched"
        source = self.folder / "tells.c"
        source.write_text(f"""
            #include <fcntl.h>
            __attribute__((constructor)) static void construct(void) {{ open("{touched}", O_CREAT | O_WRONLY, 0600); }}
            #ifdef RESOLVER
            static int (*resolve(void))(void) {{ __builtin_trap(); }}
            int chosen(void) __attribute__((ifunc("resolve")));
            int (*pointer)(void) = chosen;
            #endif
        """)
        main = self.folder / "main.c"
        main.write_text("int main(void) { return 0; }")
        words = ["-shared", "-fPIC", source, "-Wl,--no-as-needed", self.decoy, f"-Wl,-rpath,{self.folder}/other,-z,now"]
        for kind in ("CONSTRUCTOR", "RESOLVER"):
            library = self.compile("site/torch/lib/libtorch_cuda.so", f"-D{kind}", *words)
            program = self.compile("program", main, "-Wl,--no-as-needed", library)
            self.assertEqual(self.ask(program, LD_BIND_NOW="1")["uses"][0]["file"], self.decoy)
            self.assertEqual(self.ask(library)["uses"][0]["file"], self.decoy)
            report = self.ask(sys.executable, PYTHONPATH=str(self.folder / "site"))
            self.assertEqual([use["file"] for use in report["uses"] if use["by"] == "torch"], [self.decoy])
            self.assertFalse(touched.exists())
            ran = subprocess.run([program])
            self.assertEqual((touched.exists(), ran.returncode != 0), (kind == "CONSTRUCTOR", kind == "RESOLVER"))
            touched.unlink(missing_ok=True)

    def test_a_process_of_a_container(self):
        if os.geteuid() != 0:
            self.skipTest("makes a mount namespace with another root: run it as root")
        root = self.folder / "root"
        program = self.program("root/program", "/libraries", "disable")
        needed = subprocess.run(["/bin/sh", "-c", f"LD_TRACE_LOADED_OBJECTS=1 {program}"], capture_output=True, text=True)
        for file in [word for word in needed.stdout.split() if word.startswith("/")]:
            (root / file[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(os.path.realpath(file), root / file[1:])
        (root / "libraries").mkdir()
        shutil.copy(self.decoy, root / "libraries" / "libnccl.so.2")
        running = subprocess.Popen(["/program", "libnccl.so.2", "wait"], env={}, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, preexec_fn=lambda: enter_container(os.fsencode(root)))
        try:
            self.assertNotEqual(running.stdout.readline(), b"")
            report = self.ask(running.pid)
            self.assertEqual([(use["rule"], use["of"], use["file"]) for use in report["uses"]],
                             [("DT_RPATH", "/program", "/libraries/libnccl.so.2")], report)
        finally:
            running.communicate()

    def test_text(self):
        program = self.program("program", self.folder / "other", "disable")
        done = subprocess.run([WREATH, "doctor", "--nccl", program], env=environment(), capture_output=True, text=True)
        self.assertEqual(done.returncode, 0)
        self.assertIn(f"loads    {self.decoy}: NVIDIA's NCCL 2.99.1\n", done.stdout)
        self.assertIn(f"because  DT_RPATH of {program} names {self.folder}/other\n", done.stdout)
        self.assertIn(f"instead  LD_PRELOAD={pathlib.Path(LIBRARY).parent}/libnccl.so.2", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
