// One end of a channel between adapters of src/put, with memory that the other end may write. What poll() gave is kept.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "src/put/adapter.hpp"

namespace wreath::test {

template <typename AdapterType>
struct AdapterEnd {
  explicit AdapterEnd(std::unique_ptr<AdapterType> opened) : adapter(std::move(opened)), memory(1 << 20) {
    channel = adapter->make_channel(64).value();
    registration = adapter->register_memory(memory, true).value();
    name = adapter->name(registration);
  }
  ~AdapterEnd() {
    channel.reset();
    adapter->deregister_memory(registration);
  }
  AdapterEnd(const AdapterEnd&) = delete;
  AdapterEnd& operator=(const AdapterEnd&) = delete;

  // Returns a put of this end's bytes to the same place of the other end's memory.
  Put put_to(const AdapterEnd& other, std::size_t at, std::uint32_t bytes) const {
    Put put;
    put.from = memory.data() + at;
    put.bytes = bytes;
    put.registration = registration;
    put.to = other.name.address + at;
    put.key = other.name.key;
    return put;
  }

  void poll() {
    std::array<PutEvent, 16> events;
    const auto count = adapter->poll(events);
    ASSERT_TRUE(count) << count.error().message;
    for (std::size_t i = 0; i < *count; ++i) {
      const PutEvent& event = events[i];
      if (event.kind == PutEvent::Kind::Ended) ended.push_back(event.number);
      if (event.kind == PutEvent::Kind::Told) told.push_back(event.told);
      if (event.kind == PutEvent::Kind::Lost) lost.push_back(event);
    }
  }
  // Polls until `done`, for 20 s at most.
  ::testing::AssertionResult wait(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return ::testing::AssertionFailure() << "not within 20 s";
      poll();
      std::this_thread::yield();
    }
    return ::testing::AssertionSuccess();
  }

  std::unique_ptr<AdapterType> adapter;
  std::vector<std::byte> memory;
  std::uint64_t registration = 0;
  RemoteMemory name;
  std::unique_ptr<Channel> channel;
  std::vector<std::uint64_t> ended;
  std::vector<std::uint32_t> told;
  std::vector<PutEvent> lost;
};

template <typename AdapterType>
Status connect(AdapterEnd<AdapterType>& a, AdapterEnd<AdapterType>& b) {
  WREATH_TRY(a.channel->connect(b.channel->address()));
  return b.channel->connect(a.channel->address());
}

template <typename AdapterType>
bool stop(AdapterEnd<AdapterType>& end) {
  return static_cast<bool>(end.wait([&] { return end.channel->stop(); }));
}

}  // namespace wreath::test
