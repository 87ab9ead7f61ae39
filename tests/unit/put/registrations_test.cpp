// Tests when an adapter's registrations of the caller's memory begin and end.
#include "src/put/registrations.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <thread>

#include "src/base/region.hpp"
#include "src/base/release_watcher.hpp"
#include "tests/support/in_child.hpp"
#include "wreath/memory.hpp"

namespace wreath::put_tests {
namespace {

constexpr std::size_t kBytes = 64 * 1024;

// Counts registrations; it can neither send nor receive.
class CountingAdapter final : public Adapter {
 public:
  std::string describe() const override { return "counted port 1"; }
  PutLimits limits() const override { return {}; }
  Result<std::uint64_t> register_memory(std::span<std::byte> memory, bool remote) override {
    ++asked;
    if (refuses || (remote && refuses_peers)) return Error{ErrorCode::System, "RLIMIT_MEMLOCK is 64K"};
    remotes += remote ? 1 : 0;
    registered[++last] = memory;
    return last;
  }
  RemoteMemory name(std::uint64_t registration) const override {
    return {reinterpret_cast<std::uintptr_t>(registered.at(registration).data()), 100 + registration};
  }
  void deregister_memory(std::uint64_t registration) override {
    // The memory is still there: its first byte can be read.
    first_byte = registered.at(registration)[0];
    registered.erase(registration);
  }
  Result<std::unique_ptr<Channel>> make_channel(std::uint32_t) override { return Error{ErrorCode::Unavailable, ""}; }
  Result<std::size_t> poll(std::span<PutEvent>) override { return std::size_t{0}; }
  int descriptor() const override { return -1; }
  bool arm() override { return true; }
  std::optional<std::string> trouble() override { return std::nullopt; }

  bool refuses = false;
  bool refuses_peers = false;
  int asked = 0;
  int remotes = 0;
  std::uint64_t last = 0;
  std::byte first_byte{0};
  std::map<std::uint64_t, std::span<std::byte>> registered;
};

TEST(Registrations, RegisterEachRegionOnce) {
  CountingAdapter adapter;
  Registrations registrations(adapter);
  const Memory one = allocate(kBytes).value();
  const Memory two = allocate(kBytes).value();
  for (int time = 0; time < 3; ++time) {
    for (const Memory* memory : {&one, &two}) {
      const auto whole = registrations.find(memory->data(), kBytes);
      const auto part = registrations.find(memory->data() + 100, kBytes - 100);
      ASSERT_TRUE(whole && part && whole->remote && part->remote);
      EXPECT_EQ(part->registration, whole->registration);
      EXPECT_EQ(whole->remote->address, reinterpret_cast<std::uintptr_t>(memory->data()));
      EXPECT_EQ(part->remote->address, whole->remote->address + 100);
      EXPECT_EQ(part->remote->key, 100 + whole->registration);
    }
  }
  EXPECT_EQ(adapter.asked, 2);
  EXPECT_EQ(adapter.remotes, 2) << "peers may put there";
  EXPECT_EQ(registrations.count(), 2u);
}

// Memory that may only be read cannot be written by peers.
TEST(Registrations, AreForReadingAloneWhereTheAdapterRefusesPeers) {
  CountingAdapter adapter;
  adapter.refuses_peers = true;
  Registrations registrations(adapter);
  const Memory memory = allocate(kBytes).value();
  const auto found = registrations.find(memory.data(), kBytes);
  ASSERT_TRUE(found);
  EXPECT_NE(found->registration, 0U);
  EXPECT_FALSE(found->remote);
}

TEST(Registrations, TakeNoOrdinaryMemory) {
  CountingAdapter adapter;
  Registrations registrations(adapter);
  const std::vector<std::byte> ordinary(kBytes);
  EXPECT_FALSE(registrations.find(ordinary.data(), ordinary.size()));
  const Memory memory = allocate(kBytes).value();
  EXPECT_FALSE(registrations.find(memory.data() + 1, kBytes));
  EXPECT_TRUE(registrations.find(memory.data(), kBytes));
  EXPECT_FALSE(registrations.find(memory.data() + 1, kBytes));
  EXPECT_FALSE(registrations.find(ordinary.data(), 1));
  EXPECT_EQ(adapter.asked, 1);
}

TEST(Registrations, EndBeforeTheMemoryIsFreed) {
  CountingAdapter adapter;
  Registrations registrations(adapter);
  std::optional<Memory> memory = allocate(kBytes).value();
  memory->data()[0] = std::byte{42};
  EXPECT_TRUE(registrations.find(memory->data(), kBytes));
  // Any thread frees.
  std::thread([&] { memory.reset(); }).join();
  EXPECT_EQ(adapter.registered.size(), 0u);
  EXPECT_EQ(adapter.first_byte, std::byte{42});
  EXPECT_EQ(registrations.count(), 0u);
}

TEST(Registrations, AreNotTakenForThoseOfNewMemoryAtTheAddress) {
  CountingAdapter adapter;
  Registrations registrations(adapter);
  constexpr int kTimes = 10;
  for (int time = 1; time <= kTimes; ++time) {
    const Memory memory = allocate(kBytes).value();
    EXPECT_EQ(registrations.find(memory.data(), kBytes)->registration, static_cast<std::uint64_t>(time));
  }
  EXPECT_EQ(adapter.asked, kTimes);
}

TEST(Registrations, LastWhileACallInFlightUsesTheMemory) {
  CountingAdapter adapter;
  Registrations registrations(adapter);
  std::optional<Memory> memory = allocate(kBytes).value();
  memory->data()[0] = std::byte{42};
  EXPECT_TRUE(registrations.find(memory->data(), kBytes));
  {
    const RegionUse use(find_containing(memory->data(), 1));
    memory.reset();
    EXPECT_EQ(adapter.registered.size(), 1u);
  }
  EXPECT_EQ(adapter.registered.size(), 0u);
  EXPECT_EQ(adapter.first_byte, std::byte{42});
}

TEST(Registrations, EndBeforeRegisteredMemoryIsGivenBack) {
  CountingAdapter adapter;
  Registrations registrations(adapter);
  const std::unique_ptr<void, decltype(&std::free)> pages(std::aligned_alloc(4096, kBytes), &std::free);
  auto* const data = static_cast<std::byte*>(pages.get());
  data[0] = std::byte{42};
  for (const bool in_use : {false, true}) {
    std::optional<Registration> registration = register_memory(data, kBytes).value();
    EXPECT_TRUE(registrations.find(data, kBytes));
    {
      const std::optional<RegionUse> use = in_use ? std::optional<RegionUse>(find_containing(data, 1)) : std::nullopt;
      registration.reset();
      EXPECT_EQ(adapter.registered.size(), in_use ? 1u : 0u);
    }
    EXPECT_EQ(adapter.registered.size(), 0u);
    EXPECT_EQ(data[0], std::byte{42});
  }
}

TEST(Registrations, TellOfARefusalOnce) {
  CountingAdapter adapter;
  adapter.refuses = true;
  Registrations registrations(adapter);
  const Memory one = allocate(kBytes).value();
  const Memory two = allocate(kBytes).value();
  testing::internal::CaptureStderr();
  for (const Memory* memory : {&one, &two, &one, &two}) EXPECT_FALSE(registrations.find(memory->data(), kBytes));
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(adapter.asked, 4) << "once with peers, and once without";
  EXPECT_THAT(told, testing::HasSubstr("counted port 1: 64K of memory cannot be registered"));
  EXPECT_EQ(told.find("cannot be registered"), told.rfind("cannot be registered"));
  EXPECT_EQ(registrations.count(), 0u);
}

// Another thread of the parent may have held their locks at the fork.
TEST(ReleaseWatchers, OfAParentAreNotCalledInItsChild) {
  struct Counting final : ReleaseWatcher {
    void before_release(const std::byte* /*begin*/) override { ++calls; }
    int calls = 0;
  } watcher;
  add_release_watcher(watcher);
  const auto release = [&] {
    { const Memory own = allocate(kBytes).value(); }
    return watcher.calls;
  };
  EXPECT_EQ(test::in_child(release), 0);
  EXPECT_EQ(release(), 1);
  remove_release_watcher(watcher);
}

TEST(Registrations, EndWithTheirOwner) {
  CountingAdapter adapter;
  const Memory memory = allocate(kBytes).value();
  {
    Registrations registrations(adapter);
    EXPECT_TRUE(registrations.find(memory.data(), kBytes));
  }
  EXPECT_EQ(adapter.registered.size(), 0u);
}

}  // namespace
}  // namespace wreath::put_tests
