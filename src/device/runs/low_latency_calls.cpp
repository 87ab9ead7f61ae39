// LowLatencyCalls has memory, order and launches. low_latency.cpp has the part of peers and the engine.
#include "src/device/runs/low_latency_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/memory_order.hpp"
#include "src/device/runs/device_segment_memory.hpp"
#include "src/executor/block/kernels.hpp"
#include "wreath/algorithm.hpp"

namespace wreath {
namespace {

constexpr std::int64_t kEndMs = 1'000;
// The bytes that a rank reads of all others.
constexpr std::size_t kOneShotBytes = std::size_t{32} << 10;

DataType travelling(const Call& call) {
  return call.reduction.op == ReduceOp::PremultipliedSum ? accumulator_of(call.dtype) : call.dtype;
}

}  // namespace

// Events is a pool of events that nobody waits for, for the next calls. Each holder of an event holds the pool.
class LowLatencyCalls::Events : public std::enable_shared_from_this<Events> {
 public:
  explicit Events(LibraryDevice& device) : device_(device) {}
  Result<std::shared_ptr<Event>> take() {
    std::unique_ptr<Event> event;
    {
      const std::lock_guard lock(mutex_);
      if (!spare_.empty()) {
        event = std::move(spare_.back());
        spare_.pop_back();
      }
    }
    if (event == nullptr) {
      auto made = device_.make_event();
      if (!made) return made.error();
      event = *std::move(made);
    }
    return std::shared_ptr<Event>(event.release(), [pool = shared_from_this()](Event* used) {
      const std::lock_guard lock(pool->mutex_);
      pool->spare_.emplace_back(used);
    });
  }

 private:
  LibraryDevice& device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Event>> spare_;
};

// Streams stops kernels behind work that failed. They give up before they read what that work should have written.
class LowLatencyCalls::Streams final : public StreamFailureListener {
 public:
  explicit Streams(std::uint32_t& stop) : stop_(&stop) {}
  void stream_failed(const Error& error) override {
    const std::lock_guard lock(mutex_);
    if (stop_ == nullptr) return;
    if (!failure_) failure_ = error;
    store_release(*stop_, 1U);
  }
  std::optional<Error> failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    stop_ = nullptr;
  }

 private:
  mutable std::mutex mutex_;
  // The pointer is null where the kernels' memory may be gone.
  std::uint32_t* stop_;
  std::optional<Error> failure_;
};

LowLatencyCalls::LowLatencyCalls(LibraryDevice& device, Setup setup)
    : device_(device),
      setup_(std::move(setup)),
      segments_(device_segment_memory(device)),
      memory_(std::make_unique<Memory>()),
      events_(std::make_shared<Events>(device)) {}

Result<std::unique_ptr<LowLatencyCalls>> LowLatencyCalls::create(LibraryDevice& device, Setup setup) {
  std::unique_ptr<LowLatencyCalls> calls(new LowLatencyCalls(device, std::move(setup)));
  calls->threads_ = &device == &host_device() ? kHostBlockThreads : kBlockThreads;
  const auto capacity = device.resident_blocks(run_low_latency_kernel(), calls->threads_);
  if (!capacity) return capacity.error();
  const int blocks = low_latency_blocks(calls->setup_.most_bytes, 1);
  if (!BlockLedger::of(device).reserve(blocks, *capacity)) {
    return Error{ErrorCode::Unavailable,
                 fmt::format("{} runs {} such blocks at once, half of which may be promised, and "
                             "has no {} left of those",
                             device.name(), *capacity, blocks)};
  }
  calls->blocks_ = blocks;
  WREATH_TRY(calls->make_memory());
  return calls;
}

Status LowLatencyCalls::make_memory() {
  const auto ranks = static_cast<std::size_t>(setup_.ranks);
  auto area = segments_->create(kLowLatencyAreaBytes, "the area of small all_reduces");
  if (!area) return area.error();
  auto table = device_.allocate(ranks * sizeof(std::byte*), MemoryUse::Plain);
  if (!table) return table.error();
  auto shared = device_.allocate(sizeof(Shared), MemoryUse::Pinned);
  if (!shared) return shared.error();
  auto copies = device_.allocate(2 * setup_.most_bytes, MemoryUse::Pinned);
  if (!copies) return copies.error();
  auto stream = device_.make_urgent_stream();
  if (!stream) return stream.error();
  memory_->areas.resize(ranks);
  memory_->areas[static_cast<std::size_t>(setup_.rank)] = *std::move(area);
  memory_->table = *std::move(table);
  memory_->shared = *std::move(shared);
  memory_->copies = *std::move(copies);
  memory_->stream = *std::move(stream);
  streams_ = std::make_shared<Streams>(this->shared().stop);
  return {};
}

LowLatencyCalls::~LowLatencyCalls() {
  if (memory_->shared.data() != nullptr) stop();
  if (streams_ != nullptr) streams_->leave();
  const std::shared_ptr<Event> last = std::exchange(last_, nullptr);
  if (last != nullptr && !last->synchronize(kEndMs)) {
    log_warning("{}: a stream has not come to a small all_reduce of a communicator that was destroyed: {} bytes stay",
                device_.name(), kLowLatencyAreaBytes);
    static_cast<void>(memory_.release());
    return;
  }
  BlockLedger::of(device_).yield(blocks_);
}

Result<Offer> LowLatencyCalls::offer(bool other_process) {
  auto offer = segments_->describe(*memory_->areas[static_cast<std::size_t>(setup_.rank)], other_process);
  if (!offer) return offer.error();
  return std::move(**offer);
}

Status LowLatencyCalls::accept(Rank peer, Offer theirs) {
  auto area = segments_->open(std::move(theirs));
  if (!area) return area.error();
  if ((*area)->bytes() != kLowLatencyAreaBytes) {
    return Error{ErrorCode::Mismatch, fmt::format("the area of rank {} has {} bytes, this build's {}", peer,
                                                  (*area)->bytes(), kLowLatencyAreaBytes)};
  }
  memory_->areas[static_cast<std::size_t>(peer)] = *std::move(area);
  return {};
}

Status LowLatencyCalls::prepare() {
  std::vector<std::byte*> addresses;
  for (const auto& area : memory_->areas) addresses.push_back(area->data());
  return device_.copy(memory_->table.data(), addresses.data(), addresses.size() * sizeof(std::byte*));
}

// ---- which calls ----

bool LowLatencyCalls::takes(const Call& call) const {
  if (call.collective != Collective::AllReduce || call.count == 0) return false;
  return call.count <= setup_.most_bytes / size_of(travelling(call));
}

bool LowLatencyCalls::two_shot(std::size_t bytes) const {
  if (!setup_.algorithm.empty()) return setup_.algorithm == "two_shot";
  return setup_.ranks > 2 && bytes * static_cast<std::size_t>(setup_.ranks - 1) > kOneShotBytes;
}

std::string LowLatencyCalls::plan_text(std::size_t bytes) const {
  if (bytes == 0 || bytes > std::min(setup_.most_bytes, kLowLatencyBytes)) return {};
  return fmt::format("{} protocol=LL", two_shot(bytes) ? "two_shot" : "one_shot");
}

// ---- order ----

// Makes a call wait for the one before it. `capture` is the number of the stream's capture, or 0 for none.
Status LowLatencyCalls::order(Stream& stream, std::uint64_t capture) {
  if (capture == 0) return last_ == nullptr ? Status() : stream.wait(*last_);
  const auto before = captured_.find(capture);
  const bool first = before == captured_.end() || before->second.last == nullptr;
  return first ? Status() : stream.wait(*before->second.last);
}

Status LowLatencyCalls::pass(Stream& stream, std::uint64_t capture) {
  auto event = events_->take();
  if (!event) return event.error();
  WREATH_TRY(stream.record(**event));
  (capture == 0 ? last_ : captured_[capture].last) = *std::move(event);
  return {};
}

void LowLatencyCalls::expect_failures(Stream& stream, std::shared_ptr<Event> passed) {
  static_cast<LibraryStream&>(stream).failures().expect(streams_, std::move(passed));
}

Status LowLatencyCalls::before_graph(Stream& stream) {
  const std::lock_guard lock(mutex_);
  expect_failures(stream, nullptr);
  hold_frees();
  launches_graph_ = true;
  return order(stream, 0);
}

void LowLatencyCalls::hold_frees() {
  if (held_ == nullptr) held_ = device_.hold_frees();
}

Status LowLatencyCalls::after_graph(Stream& stream) {
  const std::lock_guard lock(mutex_);
  launches_graph_ = false;
  WREATH_TRY(pass(stream, 0));
  expect_failures(stream, last_);
  return {};
}

// ---- launches ----

Result<std::shared_ptr<Event>> LowLatencyCalls::launch(const Call& call, std::uint32_t signature,
                                                       const MakeGuard& guard) {
  Stream& stream = call.stream == nullptr ? *memory_->stream : *call.stream;
  if (&stream.device() != &device_) {
    return Error{ErrorCode::InvalidArgument, fmt::format("the stream is of {}, small all_reduces run on {}",
                                                         stream.device().name(), device_.name())};
  }
  const LibraryStream* const in_graph = capturing(&stream);
  const std::uint64_t capture = in_graph == nullptr ? 0 : capture_number(*in_graph);
  const std::lock_guard lock(mutex_);
  if (in_graph != nullptr && !captured_.contains(capture)) {
    const std::shared_ptr<GraphGuard> made = guard();
    WREATH_TRY(guard_graph(*in_graph, made));
    std::erase_if(captured_, [](const auto& graph) { return graph.second.guard.expired(); });
    captured_[capture].guard = made;
  }
  if (capture == 0) {
    expect_failures(stream, nullptr);
    hold_frees();
  }
  WREATH_TRY(order(stream, capture));
  WREATH_TRY(add(stream, call, signature));
  WREATH_TRY(pass(stream, capture));
  if (capture != 0) return std::shared_ptr<Event>();
  expect_failures(stream, last_);
  return last_;
}

// Adds one call. Calls use the copies one after the other, like the areas.
Status LowLatencyCalls::add(Stream& stream, const Call& call, std::uint32_t signature) {
  const auto input = place_of(call, call.input, 0);
  if (!input) return input.error();
  const auto output = call.output == call.input ? input : place_of(call, call.output, setup_.most_bytes);
  if (!output) return output.error();
  const std::size_t bytes = call.count * size_of(call.dtype);
  if (input->copied) WREATH_TRY(move(stream, {input->data, call.input, bytes, input->by_host}));
  LowLatencyRun run{};
  run.arithmetic = arithmetic(call.dtype, call.reduction, setup_.ranks);
  run.input = input->data;
  run.output = output->data;
  run.elements = call.count;
  run.own = memory_->areas[static_cast<std::size_t>(setup_.rank)]->data();
  run.areas = reinterpret_cast<const std::byte* const*>(device_.address_in_kernels(memory_->table.data()));
  run.ends = shared().ends;
  run.stop = &shared().stop;
  run.stall_ns = static_cast<std::uint64_t>(setup_.arrival_ms) * 1'000'000;
  run.signature = signature;
  run.rank = static_cast<std::uint32_t>(setup_.rank);
  run.two_shot = two_shot(bytes);
  const int blocks = low_latency_blocks(call.count, size_of(travelling(call)));
  WREATH_TRY(device_.launch(stream, run_low_latency_kernel(), {blocks, threads_, &run, sizeof run}));
  return output->copied ? move(stream, {call.output, output->data, bytes, output->by_host}) : Status();
}

Status LowLatencyCalls::move(Stream& stream, const Move& copy) const {
  if (!copy.by_host) return stream.copy(copy.target, copy.source, copy.bytes);
  return stream.run([copy, &stop = shared().stop] {
    if (load_acquire(stop) == 0) std::memcpy(copy.target, copy.source, copy.bytes);
    return Status();
  });
}

// Returns where kernels reach a buffer. A buffer has a copy where kernels do not reach it, or do not reach whole
// elements of it at once. `at` is the copy's offset in the copies.
Result<LowLatencyCalls::Place> LowLatencyCalls::place_of(const Call& call, const std::byte* data, std::size_t at) {
  const PointerFacts facts = facts_of(data);
  if (facts.kind == MemoryKind::Device && facts.device != &device_) {
    return Error{ErrorCode::InvalidArgument, fmt::format("a buffer is memory of {}, small all_reduces run on {}",
                                                         facts.device->name(), device_.name())};
  }
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % size_of(call.dtype) == 0;
  if (facts.device == &device_ && aligned) {
    return Place{facts.kind == MemoryKind::Device ? device_.address_in_kernels(data) : const_cast<std::byte*>(data)};
  }
  return Place{memory_->copies.data() + at, true, facts.kind != MemoryKind::Device};
}

// ---- ends ----

bool LowLatencyCalls::in_flight() {
  // Frees that were delayed happen after the lock is released.
  std::shared_ptr<const void> held;
  const std::lock_guard lock(mutex_);
  if (last_ != nullptr && !last_->done()) return true;
  if (!launches_graph_) held.swap(held_);
  return false;
}

std::optional<LowLatencyEnd> LowLatencyCalls::failure() const {
  for (const std::uint32_t& end : shared().ends) {
    const std::uint32_t word = load_acquire(end);
    if (word != 0) return low_latency_end(word);
  }
  return std::nullopt;
}

std::optional<Error> LowLatencyCalls::stream_failure() const { return streams_->failure(); }

void LowLatencyCalls::stop() { store_release(shared().stop, 1U); }

}  // namespace wreath
