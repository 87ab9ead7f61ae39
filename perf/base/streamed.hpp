// Where the buffers of a measurement are, and calls in a stream where a device has them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "perf/base/member.hpp"
#include "wreath/device.hpp"

namespace wreath::perf {

enum class MemoryPlace : std::uint8_t {
  Host,        // ordinary memory
  Shared,      // of wreath::allocate
  Device,      // of a CUDA device
  Pinned,      // the host's, that a CUDA device reaches
  HostDevice,  // of the device made of host threads
};

// "host", "shared", "device", "pinned", "host-device".
std::string_view name(MemoryPlace place);
std::optional<MemoryPlace> parse_memory_place(std::string_view text);
// Whether calls on it run in streams.
bool streams(MemoryPlace place);
// What stands beside results of ranks that share the only GPU.
inline constexpr std::string_view kOneGpu = "one GPU: the peer path is exercised, NVLink bandwidth is not";

// Whether there is a CUDA device.
bool has_gpu();
// Variables that CUDA reads when it starts, where they are not set: a queue of the hardware for each stream of many
// ranks, so that no kernel waits behind one that waits for it, and kernels that are loaded before any runs. Before
// CUDA is first used, and before there are threads.
void set_cuda_environment();
// The device of rank `rank`: CUDA's in turn. Null: none. Unavailable without CUDA; says what does without.
Result<Device*> device_of(MemoryPlace place, int rank);

// CommunicatorOptions::device of such ranks: of rank `rank`, or where that is -1 a list for all. Empty: none.
std::string device_names(MemoryPlace place, int rank);

// Calls of `under` in a stream: they return at once.
class StreamMember final : public Member {
 public:
  StreamMember(Member& under, Stream& stream) : under_(under), stream_(stream) {}
  int rank() const override { return under_.rank(); }
  int ranks() const override { return under_.ranks(); }
  Status run(const Call& call) override;
  Status exchange(std::span<const Transfer> transfers, DataType dtype) override {
    return under_.start_exchange(transfers, dtype, stream_);
  }
  std::string plan_for(Collective collective, std::size_t bytes) const override {
    return under_.plan_for(collective, bytes);
  }

 private:
  Member& under_;
  Stream& stream_;
};

// Nanoseconds that the stream spends on `work`, which adds to it, after what it holds; waits for it.
Result<std::int64_t> time_on(Stream& stream, const std::function<Status()>& work);
// The same of `launches` launches of a graph of `work`, behind one that is not timed. `meet` is called before the
// first, when the graph is made: a device may make who makes one wait for kernels, and those wait for peers.
Result<std::int64_t> time_graph(Stream& stream, int launches, const std::function<Status()>& work,
                                const std::function<Status()>& meet);

}  // namespace wreath::perf
