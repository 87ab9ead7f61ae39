// Gives tests adapters of the verbs transport over the stand-in for libibverbs, and pairs of channels between them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/fake_verbs.hpp"
#include "transports/verbs/adapter.hpp"

namespace wreath::test {

inline VerbsSettings settings_for(const std::string& adapters) {
  VerbsSettings settings;
  settings.adapters = adapters;
  settings.timeout = 14;
  return settings;
}

// One end of a channel, with memory that the other may write. What poll() gave is kept.
struct VerbsEnd {
  explicit VerbsEnd(const VerbsSettings& settings, int ranks = 2)
      : adapter(VerbsAdapter::open(settings, 0, ranks).value()), memory(1 << 20) {
    registration = adapter->register_memory(memory, true).value();
    name = adapter->name(registration);
    channel = adapter->make_channel(64).value();
  }
  ~VerbsEnd() {
    channel.reset();
    adapter->deregister_memory(registration);
  }
  VerbsEnd(const VerbsEnd&) = delete;
  VerbsEnd& operator=(const VerbsEnd&) = delete;

  // Returns a put of this end's bytes to the same place of the other end's memory.
  Put put_to(const VerbsEnd& other, std::size_t at, std::uint32_t bytes) const {
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

  std::unique_ptr<VerbsAdapter> adapter;
  std::vector<std::byte> memory;
  std::uint64_t registration = 0;
  RemoteMemory name;
  std::unique_ptr<Channel> channel;
  std::vector<std::uint64_t> ended;
  std::vector<std::uint32_t> told;
  std::vector<PutEvent> lost;
};

inline Status connect(VerbsEnd& a, VerbsEnd& b) {
  WREATH_TRY(a.channel->connect(b.channel->address()));
  return b.channel->connect(a.channel->address());
}

inline bool stop(VerbsEnd& end) {
  return static_cast<bool>(end.wait([&] { return end.channel->stop(); }));
}

// Each test has a network of its own, and leaves nothing open.
class VerbsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fake_) << "the stand-in for libibverbs is not first in LD_LIBRARY_PATH: run it by ctest";
    use({});
  }
  void TearDown() override { EXPECT_EQ(fake_.counters().alive, 0u); }
  void use(const FakeNetwork& network) { ASSERT_TRUE(fake_.configure(&network)); }
  void behave(const FakeBehaviour& behaviour) { fake_.behave(&behaviour); }

  const FakeVerbs fake_ = FakeVerbs::find();
};

}  // namespace wreath::test
