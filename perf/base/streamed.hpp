// The places of a measurement's buffers, and calls in a stream where a device has the buffers.
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
  Pinned,      // of the host; a CUDA device reaches it
  HostDevice,  // of the device made of host threads
};

// Returns "host", "shared", "device", "pinned" or "host-device".
std::string_view name(MemoryPlace place);
std::optional<MemoryPlace> parse_memory_place(std::string_view text);
// Returns whether calls on memory of this place run in streams.
bool streams(MemoryPlace place);
// The note beside results of ranks that share the only GPU.
inline constexpr std::string_view kOneGpu = "one GPU: the peer path is exercised, NVLink bandwidth is not";

// Returns whether there is a CUDA device.
bool has_gpu();
// Sets variables that CUDA reads when it starts, where they are not set. There is then a hardware queue for each stream
// of many ranks, so that no kernel waits behind one that waits for it. Kernels are loaded before any of them runs. Call
// it before CUDA is first used, and before there are threads.
void set_cuda_environment();
// Returns the device of rank `rank`; ranks take CUDA's devices in turn. Null: the place has no device. Unavailable
// without CUDA names the place that needs none.
Result<Device*> device_of(MemoryPlace place, int rank);

// Returns CommunicatorOptions::device of rank `rank`, or a list for all ranks where `rank` is -1. Empty: no device.
std::string device_names(MemoryPlace place, int rank);

// Makes the calls of `under` in a stream. They return at once.
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

// Returns the nanoseconds that the stream spends on `work`, which adds to the stream after its present work. It waits
// for the stream.
Result<std::int64_t> time_on(Stream& stream, const std::function<Status()>& work);
// Returns the nanoseconds of `launches` launches of a graph of `work`, after one launch that is not timed. Calls `meet`
// before the first launch, when the graph is made. A device may let the creation of a graph wait for kernels, and those
// kernels wait for peers.
Result<std::int64_t> time_graph(Stream& stream, int launches, const std::function<Status()>& work,
                                const std::function<Status()>& meet);

}  // namespace wreath::perf
