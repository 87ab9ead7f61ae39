// Communicators are made and destroyed many times. The process's memory, descriptors and threads must not grow.
#include "src/base/socket.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/resources.hpp"

namespace wreath::testing_support {
namespace {

constexpr long kGrowthKib = 3 * 1024;

void use(Communicator& communicator, std::size_t count) {
  std::vector<float> buffer(count, 1);
  communicator.all_reduce(std::span<float>(buffer)).value();
}

// Returns the resources before the first communicator. A sanitizer's own thread comes with the first thread of the
// program.
Resources at_start() {
  std::thread([] {}).join();
  return resources_of();
}

// Returns the resources that are left once threads that end by themselves have ended.
Resources settled(const Resources& expected) {
  eventually(3'000 * kSlower, [&] { return resources_of().same_counts(expected); });
  return resources_of();
}

void make_and_destroy(const std::string& transport, int ranks) {
  CommunicatorOptions options;
  options.transports = {transport};
  auto made = Communicator::create_local(ranks, options).value();
  std::vector<std::thread> threads;
  for (Communicator& communicator : made) {
    threads.emplace_back([&] {
      use(communicator, 100);
      use(communicator, 100'000);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class Life : public ::testing::TestWithParam<std::string> {};

TEST_P(Life, OfManyCommunicatorsInOneProcessLeavesNothing) {
  const Resources start = at_start();
  const int count = rounds(150 / kSlower, 1'000);
  Resources warm;
  for (int i = 0; i < count; ++i) {
    make_and_destroy(GetParam(), 3);
    if (i == count / 3) warm = settled(start);
  }
  const Resources end = settled(start);
  EXPECT_TRUE(end.same_counts(start)) << describe(start) << " -> " << describe(end);
  if (kSanitized) return;
  EXPECT_LE(end.resident_kib, warm.resident_kib + kGrowthKib) << describe(warm) << " -> " << describe(end);
}

INSTANTIATE_TEST_SUITE_P(Over, Life, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& transport) { return transport.param; });

WREATH_ROLE(repeat) {
  const Resources start = at_start();
  Resources warm;
  for (std::int64_t i = 0; i < child.number("rounds"); ++i) {
    auto communicator = child.create();
    if (!communicator) return child.failed(communicator.error());
    use(*communicator, 100);
    if (i % 7 == 3) {  // the first to abort ends the others' calls, too
      std::vector<float> buffer(100'000);
      static_cast<void>(communicator->all_reduce(std::span<float>(buffer)));
      static_cast<void>(communicator->abort());
    } else {
      use(*communicator, 100'000);
    }
    if (i == child.number("rounds") / 3) warm = resources_of();
  }
  const Resources end = settled(start);
  child.report((end.same_counts(start) ? "same " : "other ") + describe(start) + " -> " + describe(end));
  const bool grew = !kSanitized && end.resident_kib > warm.resident_kib + kGrowthKib;
  child.report((grew ? "grew " : "flat ") + describe(warm) + " -> " + describe(end));
  return 0;
}

TEST(Life, OfManyCommunicatorsBetweenProcessesLeavesNothing) {
  for (const std::string transport : {"shm", "tcp"}) {
    const int count = rounds(50 / kSlower, 400);
    const std::set<std::string> before = left_on_host();
    Job job("repeat", 3, {{"transport", transport}, {"rounds", std::to_string(count)}});
    ASSERT_TRUE(job.share_id(count)) << job.logs();
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(job[rank].join(60'000), 0) << job.logs();
      const auto& lines = job[rank].lines();
      ASSERT_GE(lines.size(), 2u) << job.logs();
      EXPECT_TRUE(lines[lines.size() - 2].starts_with("same ")) << lines[lines.size() - 2];
      EXPECT_TRUE(lines.back().starts_with("flat ")) << lines.back();
    }
    EXPECT_TRUE(nothing_left_since(before));
  }
}

// Makes a process that lives until `pipe` has no writer, and whose parent has ended.
void leave_a_process(int (&pipe)[2]) {
  const pid_t parent = ::fork();
  if (parent == 0) {
    if (::fork() != 0) ::_exit(0);
    ::close(pipe[1]);
    char byte = 0;
    static_cast<void>(!::read(pipe[0], &byte, 1));
    ::_exit(0);
  }
  ::waitpid(parent, nullptr, 0);
}

// The tests of this program would see nothing if this did not hold.
TEST(LeftOnHost, AreProcessesWhoseParentEndedAndOpenSockets) {
  const std::set<std::string> before = left_on_host();
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  leave_a_process(pipe);
  EXPECT_EQ(left_on_host().size(), before.size() + 1);
  ::close(pipe[1]);
  ::close(pipe[0]);
  EXPECT_TRUE(nothing_left_since(before));
  {
    const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const SocketAddress name = SocketAddress::abstract_unix("wreath-left-" + std::to_string(::getpid()));
    ASSERT_EQ(::bind(socket.get(), name.get(), name.length()), 0);
    EXPECT_EQ(left_on_host().size(), before.size() + 1);
  }
  EXPECT_EQ(left_on_host(), before);
}

}  // namespace
}  // namespace wreath::testing_support
