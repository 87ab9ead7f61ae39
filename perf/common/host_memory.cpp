// Adds up the memory of buffers (see host_memory.hpp).
#include "perf/common/host_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "perf/common/buffers.hpp"
#include "src/base/available_memory.hpp"

namespace wreath::perf {
namespace {

std::string gibibytes(double bytes) { return fmt::format("{:.1f} GiB", std::ldexp(bytes, -30)); }

}  // namespace

Extent extent_of(const std::vector<Case>& cases) {
  Extent extent;
  for (const Case& each : cases) {
    extent.bytes = std::max(extent.bytes, each.bytes);
    extent.element_bytes = std::max(extent.element_bytes, size_of(each.kind.dtype));
  }
  return extent;
}

std::size_t offset_of(const Options& options, const Extent& extent) {
  return options.offset + static_cast<std::size_t>(options.unalign) * extent.element_bytes;
}

BufferNeed need_of(const Options& options, const Extent& extent) {
  const double bytes = static_cast<double>(extent.bytes) + static_cast<double>(offset_of(options, extent));
  return {"size " + format_bytes(extent.bytes), options.memory == MemoryPlace::Device ? 0 : bytes, kBuffersOfARank};
}

HostMemory this_host(int ranks) { return {"", ranks, static_cast<double>(available_memory())}; }

Status check_host_memory(const BufferNeed& need, const HostMemory& host) {
  const double needed = need.bytes * need.buffers * host.ranks;
  if (needed <= host.available_bytes) return {};
  return Error{
      ErrorCode::System,
      fmt::format("{}: {} buffers of each of {} rank{}{} need {} of memory, of which {} are available; ask for "
                  "a smaller size, or for fewer ranks",
                  need.asked, need.buffers, host.ranks, host.ranks == 1 ? "" : "s",
                  host.name.empty() ? "" : " of host " + host.name, gibibytes(needed),
                  gibibytes(host.available_bytes))};
}

}  // namespace wreath::perf
