// Makes folders that stand for another machine's /sys and /proc.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/surroundings.hpp"

namespace wreath::test {

// Counts the nodes of a package, the cores of a node and the threads of a core.
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
  // Makes a link like the kernel's links between devices and their classes. `target` is a path of the same machine.
  void link(const std::string& path, const std::string& target) const {
    make_parent(path);
    std::filesystem::create_directories(root() + target);
    std::filesystem::create_symlink(root() + target, root() + path);
  }
  void allow(const std::string& list) const { file("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t" + list); }

  // Numbers processors as Linux does on most servers: the first threads of all cores, then the second ones.
  void processors(const Shape& shape) const {
    const int cores = shape.packages * shape.nodes * shape.cores;
    const int all = cores * shape.threads;
    file("/sys/devices/system/cpu/online", all == 1 ? "0" : fmt::format("0-{}", all - 1));
    file("/sys/devices/system/node/online", fmt::format("0-{}", shape.packages * shape.nodes - 1));
    allow(fmt::format("0-{}", all - 1));
    for (int number = 0; number < all; ++number) processor(shape, number, cores);
    for (int node = 0; node < shape.packages * shape.nodes; ++node) {
      const std::string folder = fmt::format("/sys/devices/system/node/node{}", node);
      processor_set(folder + "/cpulist", folder + "/cpumap",
                    everyone(node * shape.cores, shape.cores, shape.threads, cores));
      file(folder + "/meminfo", fmt::format("Node {0} MemTotal: 67108864 kB\nNode {0} MemFree: 33554432 kB", node));
    }
  }

  // Writes both forms of a set of processors.
  void processor_set(const std::string& list_file, const std::string& mask_file, const std::string& list) const {
    file(list_file, list);
    file(mask_file, mask_of(list));
  }

  const std::string& root() const { return folder_.path(); }

 private:
  void make_parent(const std::string& path) const {
    std::filesystem::create_directories(std::filesystem::path(root() + path).parent_path());
  }

  // Returns the mask form of a list such as "0-3,8", which the kernel writes into a second file: "0000010f".
  static std::string mask_of(const std::string& list) {
    std::vector<std::uint32_t> words(1);
    std::istringstream ranges(list);
    for (std::string range; std::getline(ranges, range, ',');) {
      const std::size_t dash = range.find('-');
      const int last = std::stoi(range.substr(dash == std::string::npos ? 0 : dash + 1));
      for (int number = std::stoi(range); number <= last; ++number) {
        const auto word = static_cast<std::size_t>(number / 32);
        if (word >= words.size()) words.resize(word + 1);
        words[word] |= std::uint32_t{1} << (number % 32);
      }
    }
    std::string mask;
    for (auto word = words.rbegin(); word != words.rend(); ++word) {
      mask += fmt::format("{}{:08x}", mask.empty() ? "" : ",", *word);
    }
    return mask;
  }

  // Returns the list of all threads of `count` cores from `first` on.
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
    processor_set(folder + "/topology/thread_siblings_list", folder + "/topology/thread_siblings", siblings);
    const int package_cores = shape.nodes * shape.cores;
    processor_set(folder + "/topology/core_siblings_list", folder + "/topology/core_siblings",
                  everyone(node / shape.nodes * package_cores, package_cores, shape.threads, cores));
    const auto cache = [&](int index, int level, const char* type, const char* size, const std::string& sharers) {
      const std::string own = fmt::format("{}/cache/index{}", folder, index);
      file(own + "/level", fmt::format("{}", level));
      file(own + "/type", type);
      file(own + "/size", size);
      processor_set(own + "/shared_cpu_list", own + "/shared_cpu_map", sharers);
    };
    cache(0, 1, "Data", "48K", siblings);
    cache(1, 1, "Instruction", "32K", siblings);
    cache(2, 2, "Unified", "2048K", siblings);
    cache(3, 3, "Unified", "32768K", everyone(node * shape.cores, shape.cores, shape.threads, cores));
  }

  // Returns a folder in memory, where hundreds of small files are made in a moment. Its name is not one of Wreath's,
  // because tests look there for files that Wreath leaves.
  static Folder in_memory() {
    constexpr const char* kMemory = "/dev/shm";
    return ::access(kMemory, W_OK) == 0 ? Folder(std::string(kMemory) + "/fake-machine-") : Folder();
  }

  Folder folder_ = in_memory();
};

}  // namespace wreath::test
