// Tests that callers get their memory back after a failure only when no adapter reads or writes it any more.
#include <gmock/gmock.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "src/base/region.hpp"
#include "tests/support/surroundings.hpp"
#include "tests/unit/wires/double.hpp"
#include "wreath/wreath.hpp"

namespace wreath::test {
namespace {

using testing::HasSubstr;

constexpr std::size_t kCount = 1000;

class StoppedWire : public testing::Test {
 protected:
  StoppedWire() {
    reset_adapters();
    communicators_ = Communicator::create_local(2).value();
    memory_.emplace(allocate(kCount * sizeof(float)).value());
    std::ranges::fill(memory_->as<float>(), 1.0f);
    data_ = memory_->as<float>().data();
  }
  // Rank 0 begins a call that rank 1 does not enter.
  void begin() { work_ = communicators_[0].all_reduce_async(data_, data_, kCount, DataType::Float32).value(); }
  // Returns how many milliseconds `body` takes.
  template <typename Body>
  static std::int64_t milliseconds_of(Body body) {
    const std::int64_t begun = now_ns();
    body();
    return (now_ns() - begun) / kNsPerMs;
  }
  // The program frees the memory. Says whether it is still there, with its contents.
  bool stays_when_freed() {
    memory_.reset();
    return is_there();
  }
  bool is_there() const { return Region::find_at(data_) != nullptr && data_[0] == 1.0f && data_[kCount - 1] == 1.0f; }
  void expect_held(const Status& status) const {
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message, HasSubstr("double adapter to rank 1"));
  }

  RecordingsFolder recordings_;
  std::vector<Communicator> communicators_;
  std::optional<Memory> memory_;
  float* data_ = nullptr;
  Work work_;
};

TEST_F(StoppedWire, GivesTheMemoryBackWithTheAbort) {
  begin();
  adapter_of(0).stop_after_ms(300);
  const std::int64_t took_ms = milliseconds_of([&] { EXPECT_TRUE(communicators_[0].abort()); });
  EXPECT_GE(took_ms, 300);
  EXPECT_TRUE(adapter_of(0).stopped());
  EXPECT_TRUE(work_.done());
  EXPECT_EQ(work_.wait().error().code, ErrorCode::Aborted);
  EXPECT_FALSE(stays_when_freed());
}

TEST_F(StoppedWire, HoldsTheMemoryUntilItStops) {
  begin();
  adapter_of(0).stop_after_ms(DoubleAdapter::kNever);
  for (int time = 0; time < 2; ++time) {
    Status aborted;
    const std::int64_t took_ms = milliseconds_of([&] { aborted = communicators_[0].abort(); });
    expect_held(aborted);
    EXPECT_EQ(aborted.error().code, ErrorCode::Timeout);
    EXPECT_GE(took_ms, 1'000);
    EXPECT_LT(took_ms, 3'000);
    EXPECT_FALSE(work_.done());
  }
  EXPECT_TRUE(stays_when_freed());
  adapter_of(0).stop_after_ms(0);
  EXPECT_TRUE(communicators_[0].abort());
  EXPECT_TRUE(work_.done());
  EXPECT_EQ(work_.wait().error().code, ErrorCode::Aborted);
  EXPECT_FALSE(is_there());
}

TEST_F(StoppedWire, IsWaitedForWithoutAnAbort) {
  begin();
  adapter_of(0).stop_after_ms(300);
  EXPECT_TRUE(communicators_[1].abort());
  EXPECT_EQ(work_.wait().error().code, ErrorCode::Aborted);
  EXPECT_TRUE(adapter_of(0).stopped());
  EXPECT_TRUE(work_.done());
}

TEST_F(StoppedWire, EndsAWaitButNotTheCall) {
  begin();
  adapter_of(0).stop_after_ms(DoubleAdapter::kNever);
  EXPECT_TRUE(communicators_[1].abort());
  Status waited;
  EXPECT_LT(milliseconds_of([&] { waited = work_.wait(); }), 5'000);
  expect_held(waited);
  EXPECT_EQ(waited.error().code, ErrorCode::Aborted);
  EXPECT_FALSE(work_.done());
  EXPECT_TRUE(stays_when_freed());
  // Nobody waits, and the adapter stops.
  adapter_of(0).stop_after_ms(0);
  for (int i = 0; i < 10'000 && !work_.done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(work_.done());
  EXPECT_FALSE(is_there());
}

TEST_F(StoppedWire, HoldsTheMemoryOfABlockingCall) {
  adapter_of(0).stop_after_ms(DoubleAdapter::kNever);
  std::jthread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_TRUE(communicators_[1].abort());
  });
  Status called;
  const std::int64_t took_ms =
      milliseconds_of([&] { called = communicators_[0].all_reduce(std::span(data_, kCount)); });
  EXPECT_LT(took_ms, 5'000);
  expect_held(called);
  EXPECT_TRUE(stays_when_freed());
  EXPECT_FALSE(communicators_[0].all_reduce(std::span(data_, kCount)));
  expect_held(communicators_[0].abort());
  EXPECT_TRUE(is_there());
  adapter_of(0).stop_after_ms(0);
  EXPECT_TRUE(communicators_[0].abort());
  EXPECT_FALSE(is_there());
}

TEST_F(StoppedWire, HoldsTheMemoryWhenItsCommunicatorIsDestroyed) {
  begin();
  adapter_of(0).stop_after_ms(DoubleAdapter::kNever);
  EXPECT_TRUE(communicators_[1].abort());
  testing::internal::CaptureStderr();
  EXPECT_LT(milliseconds_of([&] { const Communicator ending = std::move(communicators_[0]); }), 8'000);
  const std::string warned = testing::internal::GetCapturedStderr();
  EXPECT_THAT(warned, HasSubstr("kept until the process ends"));
  EXPECT_THAT(warned, HasSubstr("double adapter to rank 1"));
  EXPECT_FALSE(work_.done());
  EXPECT_TRUE(stays_when_freed());
  // The handle of the call still learns of its end.
  adapter_of(0).stop_after_ms(0);
  EXPECT_EQ(work_.wait().error().code, ErrorCode::Aborted);
  EXPECT_TRUE(work_.done());
  EXPECT_FALSE(is_there());
}

TEST_F(StoppedWire, StopsWithoutACall) {
  EXPECT_TRUE(communicators_[1].abort());
  for (int i = 0; i < 10'000 && !adapter_of(0).stopped(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(adapter_of(0).stopped());
}

TEST_F(StoppedWire, IsDescribedByItsPath) {
  EXPECT_EQ(communicators_[0].transport_to(1), "double over double adapter port 1");
}

}  // namespace
}  // namespace wreath::test
