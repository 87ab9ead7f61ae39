"""The recipe of Wreath for Spack 1.0 and newer, which builds a folder of its sources: `spack dev-build wreath@0.1.0` there.

It has no address to fetch from: `spack repo create FOLDER NAME` makes spack_repo/NAME in FOLDER, and this file is
packages/wreath/package.py there.
"""

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Wreath(CMakePackage):
    """Collective communication between threads, processes and hosts, over shared memory, TCP and RDMA adapters."""

    license("Apache-2.0")
    version("0.1.0")

    variant("tools", default=True, description="The command wreath, and programs that measure")
    variant("device", default=True, description="Devices: GPUs, and the host device that stands for one")
    variant("verbs", default=True, description="The transport verbs, for InfiniBand and RoCE")
    variant("ofi", default=True, description="The transport ofi, for EFA and others")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("nlohmann-json", type="build")
    depends_on("fmt@9:")
    depends_on("libsodium")
    depends_on("highway")
    depends_on("hwloc")
    depends_on("cli11", type="build", when="+tools")
    depends_on("rdma-core", when="+verbs")
    depends_on("libfabric", when="+ofi")

    conflicts("%gcc@:10", msg="Wreath is C++20")

    def cmake_args(self):
        return [
            self.define("CMAKE_UNITY_BUILD", True),
            self.define("WREATH_TESTS", False),
            self.define("WREATH_CUDA", False),
            self.define_from_variant("WREATH_TOOLS", "tools"),
            self.define_from_variant("WREATH_DEVICE", "device"),
            self.define_from_variant("WREATH_VERBS", "verbs"),
            self.define_from_variant("WREATH_OFI", "ofi"),
        ]
