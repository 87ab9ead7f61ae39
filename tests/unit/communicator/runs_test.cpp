// Tests a run around another run, and the operations of blocking calls.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <thread>

#include "src/device/runs/staged_run.hpp"
#include "src/engine/operation.hpp"
#include "src/engine/run.hpp"
#include "tests/support/local_ranks.hpp"
#include "wreath/device.hpp"

namespace wreath {
namespace {

// Writes twice the value of each input byte to the output, which may be the same memory.
class FakeRun final : public Run {
 public:
  Result<Started> start() override { return ++starts_ < 2 ? Started::Later : Started::Now; }
  Advance advance() override {
    const Call& call = operation().call;
    for (std::size_t i = 0; i < call.count; ++i)
      call.output[i] = static_cast<std::byte>(2 * static_cast<int>(call.input[i]));
    return Advance::Done;
  }
  RunFault fault() const override { return {}; }
  std::optional<Rank> waiting_for() const override { return 3; }
  std::vector<Question> questions() const override { return {{3, Subject::Call, 1}}; }
  WireBytes moved() const override { return {5, 7}; }
  int starts() const { return starts_; }

 private:
  int starts_ = 0;
};

// The inner run works on the host's memory: it would end with a signal in memory of the host device.
TEST(StagedRun, LetsAnotherRunWorkOnCopies) {
  constexpr std::size_t kBytes = 64;
  auto memory = host_device().allocate(2 * kBytes);
  ASSERT_TRUE(memory) << memory.error().message;
  std::array<std::byte, kBytes> data{};
  for (std::size_t i = 0; i < kBytes; ++i) data[i] = static_cast<std::byte>(i);
  ASSERT_TRUE(host_device().copy(memory->data(), data.data(), kBytes));
  Operation operation;
  Call call;
  call.dtype = DataType::Uint8;
  call.count = kBytes;
  call.input = memory->data();
  call.output = memory->data() + kBytes;
  operation.reset(call);
  FakeRun inner;
  inner.set(operation);
  StagedRun run({2, 0});
  run.set(operation, inner);
  ASSERT_EQ(*run.start(), Started::Later);
  ASSERT_EQ(*run.start(), Started::Now);
  EXPECT_EQ(inner.starts(), 2);
  EXPECT_EQ(run.waiting_for(), 3);
  EXPECT_EQ(run.questions().size(), 1U);
  EXPECT_EQ(run.moved().loaded, 7U);
  ASSERT_EQ(run.advance(), Advance::Done);
  std::array<std::byte, kBytes> got{};
  ASSERT_TRUE(host_device().copy(got.data(), memory->data() + kBytes, kBytes));
  for (std::size_t i = 0; i < kBytes; ++i) EXPECT_EQ(static_cast<int>(got[i]), static_cast<int>(2 * i)) << i;
  EXPECT_TRUE(run.stop());
  EXPECT_TRUE(run.end());
}

// A blocking call keeps nothing of the one before it: after a small all_reduce, a message that comes late runs as a
// message.
TEST(Runs, TakeAMessageThatComesLateAfterASmallCall) {
  CommunicatorOptions options;
  options.transports = {"shm"};
  test::LocalRanks all(2, options);
  all.run([](Communicator& communicator) {
    for (int round = 0; round < 3; ++round) {
      int sum = 1;
      ASSERT_TRUE(communicator.all_reduce(&sum, &sum, 1, DataType::Int32));
      ASSERT_EQ(sum, 2);
      int message = round;
      if (communicator.rank() == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        ASSERT_TRUE(communicator.send(&message, 1, DataType::Int32, 1));
      } else {
        message = -1;
        const Status received = communicator.recv(&message, 1, DataType::Int32, 0);
        ASSERT_TRUE(received) << received.error().message;
        EXPECT_EQ(message, round);
      }
    }
  });
}

}  // namespace
}  // namespace wreath
