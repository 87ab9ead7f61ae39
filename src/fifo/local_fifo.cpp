// Sets up FIFOs in memory of this process, as if every slot had been read one round ago.
#include "src/fifo/local_fifo.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <new>

#include "src/base/memory_order.hpp"

namespace wreath {

namespace {

class Pages final : public RegionOwner {
 public:
  Pages(void* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() override { ::munmap(data_, bytes_); }

 private:
  void* data_;
  std::size_t bytes_;
};

void set_unpublished(SlotHeader* slots, const FifoShape& shape) {
  for (std::uint32_t i = 0; i < shape.slot_count; ++i) {
    const std::uint32_t sequence = shape.first_sequence + i;
    slots[sequence & (shape.slot_count - 1)].sequence = sequence - shape.slot_count;
  }
}

}  // namespace

Status LocalMemory::allocate(std::size_t bytes, std::string_view what) {
  if (region_ != nullptr) return {};
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  bytes = (bytes + page - 1) / page * page;
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return Error{ErrorCode::System, fmt::format("no memory for {} bytes of {}", bytes, what)};
  region_ = Region::hold(random_id(), static_cast<std::byte*>(data), bytes, std::make_unique<Pages>(data, bytes));
  return {};
}

LocalFifos::LocalFifos(const FifoShape& send, const FifoShape& recv)
    : send_slots_(send.slot_count), recv_slots_(recv.slot_count) {
  const std::size_t each = (send_slots_ + recv_slots_) * sizeof(SlotHeader) + 2 * sizeof(Counter);
  if (!memory_.allocate(send.lanes * each, "FIFOs")) throw std::bad_alloc();
  for (std::uint16_t i = 0; i < send.lanes; ++i) {
    set_unpublished(lane(i).send_slots, send);
    set_unpublished(lane(i).recv_slots, recv);
  }
}

LocalFifos::Lane LocalFifos::lane(std::uint16_t number) const {
  static_assert(sizeof(SlotHeader) == sizeof(Counter));  // both are one cache line
  const std::size_t each = send_slots_ + recv_slots_ + 2;
  std::byte* const first = memory_.data() + number * each * sizeof(Counter);
  const auto slots = [&](std::size_t line) { return reinterpret_cast<SlotHeader*>(first) + line; };
  const auto counter = [&](std::size_t line) { return reinterpret_cast<Counter*>(first) + line; };
  return {slots(2), counter(0), slots(2 + send_slots_), counter(1)};
}

SendFifo local_send_fifo(const FifoShape& shape, std::uint16_t lane, SlotHeader* slots, Counter& consumed) {
  consumed.value = shape.first_sequence;
  SendFifo fifo;
  fifo.slots = slots;
  fifo.consumed = &consumed;
  fifo.next = shape.first_sequence;
  fifo.slot_count = fifo.staging_count = shape.slot_count;
  fifo.slot_bytes = shape.slot_bytes;
  fifo.lane = lane;
  fifo.by_reference = true;
  return fifo;
}

void set_staging(SendFifo& fifo, const LocalMemory& staging) {
  fifo.staging = staging.data();
  fifo.staging_region = kLocalAddress;
  fifo.staging_offset = reinterpret_cast<std::uintptr_t>(staging.data());
}

RecvFifo local_recv_fifo(const FifoShape& shape, std::uint16_t lane, const SlotHeader* slots, Counter& consumed) {
  consumed.value = shape.first_sequence;
  RecvFifo fifo;
  fifo.slots = slots;
  fifo.consumed = &consumed;
  fifo.same_process = true;
  fifo.next = shape.first_sequence;
  fifo.slot_count = shape.slot_count;
  fifo.lane = lane;
  return fifo;
}

LocalLane::LocalLane(const LocalFifos& fifos, std::uint16_t number, const FifoShape& outgoing,
                     const FifoShape& incoming)
    : shared(fifos.lane(number)),
      send(local_send_fifo(outgoing, number, shared.send_slots, *shared.send_consumed)),
      recv(local_recv_fifo(incoming, number, shared.recv_slots, *shared.recv_consumed)) {}

Status LocalLane::prepare() {
  WREATH_TRY(send_staging.allocate(std::size_t{send.slot_count} * send.slot_bytes));
  set_staging(send, send_staging);
  return {};
}

void LocalLane::publish(std::uint32_t sequence, const SlotHeader& message, const std::byte* data) const {
  SlotHeader& slot = shared.recv_slots[sequence & (recv.slot_count - 1)];
  slot.epoch = message.epoch;
  slot.lane = message.lane;
  slot.signature = message.signature;
  slot.bytes = message.bytes;
  slot.flags = 0;
  slot.region = kLocalAddress;
  slot.offset = reinterpret_cast<std::uintptr_t>(data);
  store_release(slot.sequence, sequence);
}

}  // namespace wreath
