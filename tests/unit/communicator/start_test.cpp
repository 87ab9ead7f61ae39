// Tests what ends the start of a communicator early.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "src/base/socket.hpp"
#include "src/communicator/options.hpp"
#include "src/communicator/rank_communicator.hpp"

namespace wreath {
namespace {

// A rank does not wait for a peer that fails while data connections are made.
TEST(Start, AFailureEndsTheWaitForAStream) {
  CommunicatorOptions options;
  options.transports = {"tcp"};
  auto members = join_local(2, encode_options(options));
  ASSERT_TRUE(members);
  options.timeouts.bootstrap_ms = 200;
  // Rank 1 gives up first.
  (*members)[1].settings = encode_options(options);
  std::atomic<bool> interrupted = false;
  (*members)[0].open_stream = [&](Rank, Deadline deadline, int interrupt, std::size_t) -> Result<Fd> {
    interrupted = wait_for(interrupt, POLLIN, deadline);
    return Error{ErrorCode::NotReady, "interrupted"};
  };
  (*members)[1].open_stream = [](Rank, Deadline, int, std::size_t) -> Result<Fd> {
    return Error{ErrorCode::StartupFailed, "none today"};
  };
  std::thread other([&] { EXPECT_FALSE(RankCommunicator::create(std::move((*members)[1]))); });
  const auto made = RankCommunicator::create(std::move((*members)[0]));
  other.join();
  EXPECT_TRUE(interrupted);
  EXPECT_FALSE(made);
}

TEST(Start, EndsWhenItsDescriptorBecomesReadable) {
  const Fd interrupt(::eventfd(0, EFD_CLOEXEC));
  const UniqueId id = UniqueId::create_for_hosts().value();
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(interrupt.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  });
  const Deadline soon = Deadline::after_ms(5'000);
  EXPECT_FALSE(Communicator::create(id, 0, 2, {}, interrupt.get()));
  EXPECT_FALSE(soon.passed());
  later.join();
}

}  // namespace
}  // namespace wreath
