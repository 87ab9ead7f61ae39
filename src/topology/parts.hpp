// Reads the parts of a machine, each by a function of its own, into the one value. `root` stands for /.
#pragma once

#include <string>

#include "wreath/topology.hpp"

namespace wreath {

// Reads `processors`, `caches` and `allowed`. Without hwloc or /sys every processor is a core of one package.
void read_processors(const std::string& root, Topology& topology);

// Reads the processors and caches that hwloc knows. Returns the reason where it does not know them; empty text is
// success. Changes the environment where `root` is given, so it is for programs with one thread.
std::string read_places(const std::string& root, Topology& topology);

// Reads `nodes`, after the processors. Without /sys there is one node with all the memory.
void read_memory(const std::string& root, Topology& topology);

// Reads `gpus`, and `gpu_links` as far as PCI tells.
void read_gpus(const std::string& root, Topology& topology);

// Fills in what the library `file` knows of NVIDIA's GPUs and of the ways between them. Where there are such GPUs and
// the library cannot be loaded, adds a sentence to `unknown`.
void ask_nvml(const char* file, Topology& topology);

// Reads `interfaces` and `rdma`, without addresses.
void read_networks(const std::string& root, Topology& topology);

// Keeps the `interfaces` that this process's network namespace has, and fills in their addresses. /sys may belong to
// another namespace.
void match_namespace(Topology& topology);

// Reads who and what the machine is, and what is left to this process; called after the processors.
void read_identity(const std::string& root, Topology& topology);

// Returns where the device is that `path` (a folder of /sys, or a link to one) describes.
PciPlace read_place(const std::string& path);

}  // namespace wreath
