// Ranks as threads, with streams of one device.
#include "perf/gpu_perf/bench.hpp"

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

#include "perf/common/streamed.hpp"

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

Result<std::vector<Communicator>> make_ranks(const GpuSetup& setup, int ranks, CommunicatorOptions options) {
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

Result<double> call_ns(const GpuSetup& setup, std::vector<Communicator>& ranks, const CallShape& shape) {
  std::atomic<std::int64_t> slowest = 0;
  const Status done = on_ranks(ranks, [&](Communicator& communicator) -> Status {
    const auto own = OnStream::make(setup, shape.input_bytes, shape.output_bytes);
    if (!own) return own.error();
    const Call call = own->call(shape.collective, DataType::Float32, shape.count);
    const auto calls = [&](int times) -> Status {
      for (int i = 0; i < times; ++i) WREATH_TRY(communicator.start(call));
      return {};
    };
    WREATH_TRY(calls(2));
    WREATH_TRY(own->stream->synchronize());
    WREATH_TRY(communicator.barrier());
    const auto taken = time_on(*own->stream, [&] { return calls(setup.iterations); });
    if (!taken) return taken.error();
    std::int64_t most = slowest;
    while (*taken > most && !slowest.compare_exchange_weak(most, *taken)) {
    }
    return {};
  });
  if (!done) return done.error();
  return static_cast<double>(slowest) / setup.iterations;
}

}  // namespace wreath::perf
