// Reads the machine as this process sees it.
#include "perf/base/machine.hpp"

#include <sched.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <ctime>
#include <fstream>

#include "src/base/printable.hpp"

namespace wreath::perf {

std::string host_name() {
  std::array<char, 256> text{};
  return gethostname(text.data(), text.size() - 1) == 0 ? printable(text.data()) : "unknown";
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) {
      const auto colon = line.find(": ");
      if (colon != std::string::npos) return line.substr(colon + 2);
    }
  }
  return "CPU";
}

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
  }
  return cores;
}

bool pin_thread(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(core), &set);
  return sched_setaffinity(0, sizeof(set), &set) == 0;
}

double clock_cost_ns() {
  constexpr int kLooks = 2000;
  const auto start = std::chrono::steady_clock::now();
  auto last = start;
  for (int i = 0; i < kLooks; ++i) last = std::chrono::steady_clock::now();
  return std::chrono::duration<double, std::nano>(last - start).count() / kLooks;
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return text.data();
}

}  // namespace wreath::perf
