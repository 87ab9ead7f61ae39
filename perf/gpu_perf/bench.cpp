// Ranks as threads, with streams of one device.
#include "perf/gpu_perf/bench.hpp"

#include <mutex>
#include <optional>
#include <thread>

namespace wreath::perf {

Result<OnStream> OnStream::make(const GpuSetup& setup, std::size_t input_bytes, std::size_t output_bytes) {
  OnStream made;
  auto stream = setup.device->make_stream();
  if (!stream) return stream.error();
  made.stream = *std::move(stream);
  for (const auto& [memory, bytes] : {std::pair(&made.input, input_bytes), {&made.output, output_bytes}}) {
    auto allocated = setup.device->allocate(bytes, setup.memory);
    if (!allocated) return allocated.error();
    *memory = *std::move(allocated);
  }
  return made;
}

Call OnStream::call(Collective collective, DataType dtype, std::size_t count) const {
  Call call;
  call.collective = collective;
  call.dtype = dtype;
  call.input = input.data();
  call.output = output.data();
  call.count = count;
  call.stream = stream.get();
  return call;
}

Result<std::vector<Communicator>> make_ranks(const GpuSetup& setup, int ranks) {
  CommunicatorOptions options;
  options.device = setup.device->name();
  return Communicator::create_local(ranks, options);
}

Status on_ranks(std::vector<Communicator>& ranks, const RankBody& body) {
  std::mutex mutex;
  std::optional<Error> first;
  {
    std::vector<std::jthread> threads;
    for (Communicator& each : ranks) {
      threads.emplace_back([&] {
        const Status status = body(each);
        if (status) return;
        const std::lock_guard lock(mutex);
        if (!first) first = status.error();
        static_cast<void>(each.abort());
      });
    }
  }
  return first ? Status(*first) : Status();
}

}  // namespace wreath::perf
