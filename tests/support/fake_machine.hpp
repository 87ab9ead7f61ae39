// Folders that stand for another machine's /sys and /proc.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/surroundings.hpp"

namespace wreath::test {

// Of each package, node and core so many parts.
struct Shape {
  int packages = 1;
  int nodes = 1;
  int cores = 1;
  int threads = 1;
};

class FakeMachine {
 public:
  void file(const std::string& path, const std::string& text) const {
    make_parent(path);
    std::ofstream(root() + path) << text << '\n';
  }
  // As the kernel's links between devices and their classes: `target` is a path of the same machine.
  void link(const std::string& path, const std::string& target) const {
    make_parent(path);
    std::filesystem::create_directories(root() + target);
    std::filesystem::create_symlink(root() + target, root() + path);
  }
  void allow(const std::string& list) const { file("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t" + list); }

  // Numbered as Linux does on most servers: the first threads of all cores, then the second ones.
  void processors(const Shape& shape) const {
    const int cores = shape.packages * shape.nodes * shape.cores;
    const int all = cores * shape.threads;
    file("/sys/devices/system/cpu/online", all == 1 ? "0" : fmt::format("0-{}", all - 1));
    file("/sys/devices/system/node/online", fmt::format("0-{}", shape.packages * shape.nodes - 1));
    allow(fmt::format("0-{}", all - 1));
    for (int number = 0; number < all; ++number) processor(shape, number, cores);
    for (int node = 0; node < shape.packages * shape.nodes; ++node) {
      const std::string folder = fmt::format("/sys/devices/system/node/node{}", node);
      file(folder + "/cpulist", everyone(node * shape.cores, shape.cores, shape.threads, cores));
      file(folder + "/meminfo", fmt::format("Node {0} MemTotal: 67108864 kB\nNode {0} MemFree: 33554432 kB", node));
    }
  }

  const std::string& root() const { return folder_.path(); }

 private:
  void make_parent(const std::string& path) const {
    std::filesystem::create_directories(std::filesystem::path(root() + path).parent_path());
  }

  // The threads of `count` cores from `first` on.
  static std::string everyone(int first, int count, int threads, int cores) {
    std::string list;
    for (int thread = 0; thread < threads; ++thread) {
      const int low = first + thread * cores;
      list += fmt::format("{}{}-{}", list.empty() ? "" : ",", low, low + count - 1);
    }
    return list;
  }

  void processor(const Shape& shape, int number, int cores) const {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu{}", number);
    const int core = number % cores;
    const int node = core / shape.cores;
    file(folder + "/topology/physical_package_id", fmt::format("{}", node / shape.nodes));
    file(folder + "/topology/core_id", fmt::format("{}", core));
    const std::string siblings = everyone(core, 1, shape.threads, cores);
    file(folder + "/topology/thread_siblings_list", siblings);
    const auto cache = [&](int index, int level, const char* type, const char* size, const std::string& sharers) {
      const std::string own = fmt::format("{}/cache/index{}", folder, index);
      file(own + "/level", fmt::format("{}", level));
      file(own + "/type", type);
      file(own + "/size", size);
      file(own + "/shared_cpu_list", sharers);
    };
    cache(0, 1, "Data", "48K", siblings);
    cache(1, 1, "Instruction", "32K", siblings);
    cache(2, 2, "Unified", "2048K", siblings);
    cache(3, 3, "Unified", "32768K", everyone(node * shape.cores, shape.cores, shape.threads, cores));
  }

  Folder folder_;
};

}  // namespace wreath::test
