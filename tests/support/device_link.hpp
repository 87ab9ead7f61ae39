// Two ranks whose adapters read and write memory of devices by themselves. A device sees what they have written once
// that was flushed, and the double of a device here sees nothing before.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "src/base/clock.hpp"
#include "src/base/dma_buf.hpp"
#include "src/base/memfd.hpp"
#include "src/fifo/access.hpp"
#include "src/put/link.hpp"

namespace wreath::test {

inline constexpr std::uint32_t kDeviceBytes = 256 * 1024;  // two rails share a message

inline FifoShape device_shape(bool checked = false) {
  return {.lanes = 1, .slot_count = 4, .slot_bytes = kDeviceBytes, .first_sequence = 0, .epoch = 1, .checked = checked};
}

// A device with one allocation.
class DeviceDouble final : public DmaBufDevice {
 public:
  // `flush` makes writes of adapters reach the memory.
  explicit DeviceDouble(std::function<void()> flush)
      : flush_(std::move(flush)), memory_(make_memfd("device", kOffset + kDeviceBytes, "the test's").value()) {
    void* const mapped = ::mmap(nullptr, kDeviceBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), kOffset);
    if (mapped == MAP_FAILED) std::abort();
    data_ = static_cast<std::byte*>(mapped);
  }
  ~DeviceDouble() override { ::munmap(data_, kDeviceBytes); }
  DeviceDouble(const DeviceDouble&) = delete;
  DeviceDouble& operator=(const DeviceDouble&) = delete;

  Result<DmaBuf> dma_buf(const std::byte* /*begin*/) override {
    return DmaBuf{Fd::of_process(::dup(memory_.get())), kOffset, kDeviceBytes};
  }
  Status flush_adapter_writes() override {
    ++flushes;
    if (!can_flush) return Error{ErrorCode::Unavailable, "the double cannot flush"};
    if (!leaves_out) flush_();
    return {};
  }
  DeviceRange range() { return {this, 7, data_, data_, kDeviceBytes}; }
  std::byte* data() const { return data_; }
  void fill(int first) {
    for (std::uint32_t i = 0; i < kDeviceBytes; ++i) {
      data_[i] = static_cast<std::byte>(first + static_cast<int>(i / 7));
    }
  }

  int flushes = 0;
  bool can_flush = true;
  bool leaves_out = false;

 private:
  static constexpr std::uint32_t kOffset = 64 * 1024;  // of the allocation, in its descriptor
  const std::function<void()> flush_;
  Fd memory_;
  std::byte* data_ = nullptr;
};

// One rank with its link to the other one.
struct DeviceEnd {
  DeviceEnd(Result<std::vector<std::unique_ptr<Adapter>>> adapters, Rank peer, const FifoShape& shape)
      : port(PutPort::make(std::move(adapters)).value()),
        link(PutLink::make(peer, port, shape, {.waiting = {20'000, 20'000 * kNsPerMs}}).value()) {}
  std::shared_ptr<PutPort> port;
  std::unique_ptr<PutLink> link;
};

struct DeviceLink {
  explicit DeviceLink(const std::function<void()>& flush) : from(flush), to(flush) {}

  void link(std::unique_ptr<DeviceEnd> one, std::unique_ptr<DeviceEnd> other) {
    a = std::move(one);
    b = std::move(other);
    ASSERT_TRUE(a->link->connect(b->link->offer()));
    ASSERT_TRUE(b->link->connect(a->link->offer()));
    ASSERT_TRUE(a->link->prepare(0));
  }
  // Lets the memory of both devices in, which differs.
  void let_in() {
    ASSERT_TRUE(a->link->let_in(from.range()));
    ASSERT_TRUE(b->link->let_in(to.range()));
    from.fill(1);
    to.fill(100);
  }
  // Publishes a message of rank 0 that lies at `data`.
  void send(const std::byte* data) const {
    SendFifo& fifo = a->link->send_fifo(0);
    ASSERT_TRUE(has_credit(fifo));
    SlotHeader& slot = next_slot(fifo);
    slot.epoch = 1;
    slot.signature = 3;
    slot.bytes = kDeviceBytes;
    slot.flags = kSlotLands;
    slot.region = kLocalAddress;
    slot.offset = reinterpret_cast<std::uintptr_t>(data);
    publish(fifo);
  }
  // Lets both ends go on. Returns the text of an error.
  std::string step() const {
    for (const auto& [own, other] : {std::pair(a.get(), b.get()), std::pair(b.get(), a.get())}) {
      const auto moved = own->link->progress(true);
      if (!moved) return moved.error().message;
      while (auto word = own->link->take_word()) {
        if (const Status taken = other->link->on_word(*std::move(word)); !taken) return taken.error().message;
      }
    }
    return "";
  }
  // Goes on until `done`, or an end fails. Returns the error's text.
  template <typename Done>
  std::string go_on(const Done& done) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return "nothing within 20 s";
      if (std::string error = step(); !error.empty()) return error;
    }
    return "";
  }
  // Goes on until rank 1 has the message.
  std::string receive() const {
    return go_on([this] { return peek(b->link->recv_fifo(0)) != nullptr; });
  }
  // Returns where the message is that rank 1 has.
  const std::byte* received() const {
    RecvFifo& fifo = b->link->recv_fifo(0);
    return locate(fifo, *peek(fifo)).data;
  }
  // Sends the memory of one device to that of the other, where rank 1 wants it. Returns the error's text.
  std::string send_and_receive() const {
    RecvFifo& fifo = b->link->recv_fifo(0);
    fifo.posted = fifo.next;
    post_ahead(fifo, to.data(), kDeviceBytes);
    send(from.data());
    return receive();
  }

  // Returns whether the device of rank 1 has the message, and sees it.
  bool has_landed() const {
    return received() == to.data() && std::equal(to.data(), to.data() + kDeviceBytes, from.data());
  }

  DeviceDouble from;
  DeviceDouble to;
  std::unique_ptr<DeviceEnd> a;
  std::unique_ptr<DeviceEnd> b;
};

}  // namespace wreath::test
