// The parts of a machine, each read by a function of its own into the one value. `root` stands for /.
#pragma once

#include <string>

#include "wreath/topology.hpp"

namespace wreath {

// `processors`, `caches` and `allowed`. Without hwloc or /sys every processor is a core of one package.
void read_processors(const std::string& root, Topology& topology);

// Their part of it that hwloc knows; why not, where it does not: empty is success. Changes the environment where `root`
// is given, so for programs with one thread.
std::string read_places(const std::string& root, Topology& topology);

// `nodes`, after the processors. Without /sys one node with all the memory.
void read_memory(const std::string& root, Topology& topology);

// `gpus`, and `gpu_links` as far as PCI tells.
void read_gpus(const std::string& root, Topology& topology);

// Fills in what the library `file` knows of NVIDIA's GPUs and of the ways between them; where there are some and it
// cannot be loaded, a sentence in `unknown`.
void ask_nvml(const char* file, Topology& topology);

// `interfaces` and `rdma`, without addresses.
void read_networks(const std::string& root, Topology& topology);

// Leaves those `interfaces` that this process's network namespace has, which /sys may belong to another than, and fills
// their addresses.
void match_namespace(Topology& topology);

// Who and what the machine is, and what is left to this process; after the processors.
void read_identity(const std::string& root, Topology& topology);

// Where the device is that `path` (a folder of /sys, or a link to one) describes.
PciPlace read_place(const std::string& path);

}  // namespace wreath
