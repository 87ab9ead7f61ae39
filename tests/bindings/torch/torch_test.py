"""Runs PyTorch's own tests of torch.distributed, from its wheel, on the backend wreath: those that it runs on Gloo.

This is not part of `./run test`, because it takes 2 to 20 minutes. Ranks are forked, one test after the other.
The program prints a line a test, and a summary with the reasons of those that did not pass.
Exit code 0: all passed, except for the known ones that are written down below.
"""

import argparse
import collections
import os
import re
import sys
import tempfile
import time
import unittest

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--backend", default="wreath", help="gloo: what torch itself makes of them")
parser.add_argument("--ranks", default="3")
parser.add_argument("--only", default="", help="tests whose names match this expression")
parser.add_argument("--seconds", default="60", help="after which a test has failed")
options = parser.parse_args()

# The module below reads these variables while it is imported: its tables know Gloo.
os.environ.update(BACKEND="gloo", WORLD_SIZE=options.ranks, DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=options.seconds)
os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp(prefix="wreath-torch-tests-"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
from torch.testing._internal.distributed import distributed_test  # noqa: E402

import wreath_torch  # noqa: E402, F401

original = distributed_test.dist.init_process_group
distributed_test.dist.init_process_group = lambda *args, **kwargs: original(*args, **{**kwargs, "backend": options.backend})

# The reasons for which a test may fail: the sentence by which it fails, and what the backend lacks or only Gloo has.
KNOWN = {
    "a receive names the rank that sends": "receives from any source",
    "dense tensors only": "sparse tensors",
    "there is no (BAND|BOR|BXOR) for tensors of": "bitwise operators of integers",
    "only implemented for GLOO|only GLOO supports": "monitored_barrier, which torch keeps for Gloo",
    "'(custom|wreath)' != '(gloo|wreath)'": "asks whether the backend is called gloo",
    r"has not entered the call within .* does not match|does not match .*has not entered the call": "asks for Gloo's words for a timeout",
}


class TestOnTheBackend(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


class Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.lines = collections.defaultdict(list)

    def startTest(self, test):
        super().startTest(test)
        self.begin = time.monotonic()

    def tell(self, kind, test, words=""):
        self.lines[kind].append((test._testMethodName, words))
        print(f"{kind:8} {time.monotonic() - self.begin:6.1f} s  {test._testMethodName}  {words}", flush=True)

    def addSuccess(self, test):
        self.tell("passed", test)

    def addSkip(self, test, reason):
        self.tell("skipped", test, reason)

    def addFailure(self, test, error):
        text = self._exc_info_to_string(error, test)
        known = next((why for words, why in KNOWN.items() if re.search(words, text)), None)
        sentences = [line for line in text.splitlines() if re.match(r"\S*(Error|Exception|error)\b.*", line)]
        self.tell("known" if known else "failed", test, known or " | ".join(sentences[:3]) or text[-300:])

    addError = addFailure


def main():
    names = [name for name in unittest.TestLoader().getTestCaseNames(TestOnTheBackend) if re.search(options.only, name)]
    result = Result()
    begin = time.monotonic()
    for name in names:
        TestOnTheBackend(name).run(result)
    for kind in ("skipped", "known", "failed"):
        print(f"\n{kind}:")
        for words, count in collections.Counter(words for _, words in result.lines[kind]).most_common():
            print(f"  {count:4}  {words}")
    counts = ", ".join(f"{len(result.lines[kind])} {kind}" for kind in ("passed", "skipped", "known", "failed"))
    print(f"\ntorch {torch.__version__}, backend {options.backend}, {options.ranks} ranks: {counts} in {time.monotonic() - begin:.0f} s")
    return 1 if result.lines["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
