// This file sums the needs of ranks by host.
#include "examples/train_gpt/run/host_memory.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "src/base/available_memory.hpp"

namespace wreath::gpt {

namespace {

struct Host {
  int ranks = 0;
  MemoryNeed need;
  // The memory available to the rank whose limits are the narrowest.
  std::uint64_t available = std::numeric_limits<std::uint64_t>::max();
};

std::string own_host() {
  std::array<char, 256> name{};
  static_cast<void>(::gethostname(name.data(), name.size() - 1));
  return name[0] == 0 ? "this" : name.data();
}

std::string size_text(std::uint64_t bytes) {
  constexpr double kGibibyte = 1 << 30;
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / kGibibyte);
}

}  // namespace

Status check_hosts(training::Agreement& ranks, const MemoryNeed& mine) {
  const Result<std::vector<std::string>> told =
      ranks.gather(fmt::format("{} {} {} {}", own_host(), mine.model_state, mine.activations, available_memory()));
  if (!told) return told.error();
  std::map<std::string, Host> hosts;
  for (const std::string& text : *told) {
    std::istringstream words(text);
    std::string name;
    MemoryNeed need;
    std::uint64_t available = 0;
    words >> name >> need.model_state >> need.activations >> available;
    Host& host = hosts[name];
    ++host.ranks;
    host.need.model_state += need.model_state;
    host.need.activations += need.activations;
    host.available = std::min(host.available, available);
  }
  for (const auto& [name, host] : hosts) {
    if (host.need.all() <= host.available) continue;
    return Error{
        ErrorCode::System,
        fmt::format("host {}: its {} at least {} of memory ({} for the model's state, {} for activations), of "
                    "which {} are available: a smaller --batch, more --micro-batches, --recompute or --zero take less",
                    name, host.ranks == 1 ? "rank needs" : fmt::format("{} ranks need", host.ranks),
                    size_text(host.need.all()), size_text(host.need.model_state), size_text(host.need.activations),
                    size_text(host.available))};
  }
  return {};
}

}  // namespace wreath::gpt
