// Measures one message from thread to thread through a FIFO: it is copied into a slot, published, and copied out, and
// its slot is freed.
#include <array>
#include <thread>

#include "kernels/kernels.hpp"
#include "perf/limits/machine.hpp"
#include "perf/limits/team.hpp"
#include "perf/micro/buffers.hpp"
#include "src/fifo/access.hpp"

namespace wreath::perf {
namespace {

constexpr std::uint32_t kSlots = 4;
constexpr std::uint32_t kFirst = 1;        // so that zeroed headers hold no message
constexpr std::uint32_t kLast = 1U << 31;  // flag of the message that ends the echo
static_assert((kLast & (kSlotReference | kSlotInline)) == 0, "it says nothing of where the data is");

// Both ends of one FIFO in this process.
class Channel {
 public:
  Channel(std::size_t bytes, CopyKernel fill) : bytes_(bytes), fill_(fill), staging_(kSlots * bytes), memory_(bytes) {
    consumed_.value = kFirst;
    send_.slots = slots_.data();
    send_.consumed = recv_.consumed = &consumed_;
    send_.next = recv_.next = kFirst;
    send_.slot_count = send_.staging_count = recv_.slot_count = kSlots;
    send_.slot_bytes = static_cast<std::uint32_t>(bytes);
    send_.staging = staging_.data();
    recv_.slots = slots_.data();
    recv_.same_process = true;
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  void send(std::uint32_t flags) {
    while (!has_credit(send_)) pause();
    std::byte* slot = stage(send_);
    SlotHeader& header = next_slot(send_);
    header.region = kLocalAddress;
    header.offset = reinterpret_cast<std::uintptr_t>(slot);
    header.flags = flags;
    fill_(slot, memory_.data(), bytes_);
    publish(send_);
  }

  // Receives a message and returns its flags.
  std::uint32_t receive(std::byte* target) {
    const SlotHeader* header = peek(recv_);
    while (header == nullptr) header = peek(recv_);
    const std::uint32_t flags = header->flags;
    copy_kernels().plain(target, locate(recv_, *header).data, bytes_);
    consume(recv_);
    return flags;
  }

 private:
  std::size_t bytes_;
  CopyKernel fill_;
  std::array<SlotHeader, kSlots> slots_{};
  Counter consumed_;
  Pages staging_;
  Pages memory_;
  SendFifo send_;
  RecvFifo recv_;
};

// Measures the time of an iteration, which is a round trip of two hops. bytes_per_second counts the payload of both
// hops.
void run_hops(benchmark::State& state, CopyKernel fill) {
  const std::vector<int> cores = pick_cores(2);
  if (cores.empty()) {
    state.SkipWithError("needs two cores");
    return;
  }
  const auto bytes = static_cast<std::size_t>(state.range(0));
  Channel there(bytes, fill);
  Channel back(bytes, fill);
  std::thread echo([&] {
    const Pin pin(cores[1]);
    const Pages target(bytes);
    std::uint32_t flags = 0;
    while (flags != kLast) {
      flags = there.receive(target.data());
      back.send(flags);
    }
  });
  const Pin pin(cores[0]);
  const Pages target(bytes);
  const auto round_trip = [&](std::uint32_t flags) {
    there.send(flags);
    back.receive(target.data());
  };
  for (auto _ : state) round_trip(0);
  round_trip(kLast);
  echo.join();
  count_bytes(state, 2 * state.range(0));
}

}  // namespace

void register_fifo() {
  struct Row {
    const char* name;
    CopyKernel fill;
  };
  for (const Row& row :
       {Row{"fifo_round_trip/plain", copy_kernels().plain}, Row{"fifo_round_trip/fill", copy_kernels().fill}}) {
    benchmark::RegisterBenchmark(row.name, run_hops, row.fill)
        ->ArgName("bytes")
        ->Arg(8)
        ->Arg(4 << 10)
        ->Arg(64 << 10)
        ->Arg(256 << 10)
        ->UseRealTime();
  }
}

}  // namespace wreath::perf
