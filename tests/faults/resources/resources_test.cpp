// A rank lacks descriptors, shared memory or address space. Every rank gets an error, and none hangs.
#include "tests/support/resources.hpp"

#include <sys/resource.h>
#include <sys/syscall.h>

#include "tests/support/processes.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath::testing_support {
namespace {

void limit(int resource, rlim_t value) {
  const rlimit both{value, value};
  ::setrlimit(static_cast<__rlimit_resource_t>(resource), &both);
}

rlim_t mapped_bytes() {
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

// Makes rank `poor` lack `what`, of which it has `spare` more than it uses now.
WREATH_ROLE(poor) {
  const UniqueId id = child.id();
  std::vector<float> small(8, 1);
  std::vector<float> large(1 << 19, 1);
  if (child.rank() == child.number("poor")) {
    const std::int64_t spare = child.number("spare");
    if (child.text("what") == "descriptors") leave_descriptors(static_cast<int>(spare));
    if (child.text("what") == "memory") limit(RLIMIT_AS, mapped_bytes() + static_cast<rlim_t>(spare));
    if (child.text("what") == "memfd") test::refuse_system_call(SYS_memfd_create);
    if (child.text("what") == "reading") test::refuse_system_call(SYS_process_vm_readv);
  }
  Result<Communicator> communicator = Communicator::create(id, child.rank(), child.ranks(), child.options());
  if (!communicator) return child.failed(communicator.error());
  child.report("transport " + communicator->transport_to((child.rank() + 1) % child.ranks()));
  for (int i = 0; i < 10; ++i) {
    if (const Status status = communicator->all_reduce(std::span<float>(small)); !status)
      return child.failed(status.error());
  }
  for (int i = 0; i < 3; ++i) {
    if (const Status status = communicator->all_reduce(std::span<float>(large)); !status)
      return child.failed(status.error());
  }
  return 0;
}

struct Lack {
  std::string transport;
  std::string what;
  std::int64_t spare;
};

// Returns whether the job succeeded. Otherwise each rank must have said why.
bool survives(const Lack& lack, int poor) {
  SCOPED_TRACE(lack.transport + " " + lack.what + " " + std::to_string(lack.spare) + ", rank " + std::to_string(poor));
  const std::set<std::string> before = left_on_host();
  Job job("poor", 3,
          {{"transport", lack.transport},
           {"what", lack.what},
           {"spare", std::to_string(lack.spare)},
           {"poor", std::to_string(poor)},
           {"bootstrap_ms", "3000"}});
  EXPECT_TRUE(job.share_id()) << job.logs();
  int succeeded = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const auto ended = job[rank].join(10'000 * kSlower);
    EXPECT_TRUE(ended.has_value()) << "rank " << rank << " hangs\n" << job.logs();
    if (ended == 0) ++succeeded;
    if (ended == 0 || !ended) continue;
    EXPECT_LT(*ended, 99) << "rank " << rank << " was not told but killed\n" << job.logs();
    EXPECT_TRUE(job[rank].failure().has_value()) << job.logs();
    if (job[rank].failure()) {
      EXPECT_GT(job[rank].failure()->message.size(), 10u);
      const Failure failure = *job[rank].failure();
      const bool others = failure.code == ErrorCode::System && failure.failed_rank != poor && failure.failed_rank >= 0;
      EXPECT_FALSE(others) << "rank " << rank << " blames " << failure.failed_rank << "\n" << job.logs();
      if (rank == poor) std::cerr << lack.spare << ": " << job[rank].failure()->message << "\n";
    }
  }
  EXPECT_TRUE(succeeded == 0 || succeeded == 3) << "only some ranks know\n" << job.logs();
  EXPECT_TRUE(nothing_left_since(before));
  return succeeded == 3;
}

TEST(Resources, WithoutDescriptorsIsAnErrorOnEveryRank) {
  if (kSanitized) GTEST_SKIP() << "UBSan needs descriptors to look at memory: run it in the preset dev";
  for (const std::string transport : {"shm", "tcp"}) {
    bool survived = false;
    for (std::int64_t spare = 0; spare < 60 && !survived && !HasFailure(); spare += rounds(4, 1)) {
      survived = survives({transport, "descriptors", spare}, static_cast<int>(spare / 4 % 3));
    }
    EXPECT_TRUE(survived) << "60 descriptors are enough for three ranks";
  }
}

// Runs `body` in a child that may hold so many descriptors, and returns its result.
int with_descriptors(rlim_t most, const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    limit(RLIMIT_NOFILE, most);
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// Returns whether the object is made, or the error is the cause itself. An error that follows from another rank's error
// does not count.
template <typename Made>
bool made_or_told(const Made& made) {
  if (made) return true;
  const bool told = made.error().code == ErrorCode::System;
  if (!told) std::cerr << made.error().message << "\n";
  return told;
}

TEST(Resources, WithoutDescriptorsRanksThatAreThreadsTellTheCause) {
  if (kSanitized) GTEST_SKIP() << "UBSan needs descriptors to look at memory: run it in the preset dev";
  for (rlim_t most = 16; most < 72; most += 2) {
    EXPECT_EQ(0, with_descriptors(most, [] { return made_or_told(Communicator::create_local(4)) ? 0 : 1; })) << most;
  }
}

TEST(Resources, WithoutSharedMemoryIsAnErrorOnEveryRank) {
  for (int poor = 0; poor < 3; ++poor) EXPECT_FALSE(survives({"shm", "memfd", 0}, poor));
}

// Ranks that finish first leave while the others still tell them what they took.
TEST(Resources, WithoutSharedMemoryEveryWireServes) {
  for (const char* const provider : {"tcp", ""}) {
    const std::vector<std::pair<std::string, std::string>> variables{{"WREATH_OFI_PROVIDER", provider}};
    const test::Environment environment(variables);
    for (int poor = 0; poor < 3; ++poor) EXPECT_TRUE(survives({"", "memfd", 0}, poor)) << "provider " << provider;
  }
}

// A rank that may not read its peers' memory gets its messages through slots. The other ranks are not affected.
TEST(Resources, WithoutTheRightToReadPeersSlotsServe) {
  constexpr int kPoor = 1;
  Job job("poor", 3, {{"transport", "shm"}, {"what", "reading"}, {"poor", std::to_string(kPoor)}},
          {{"WREATH_SINGLE_COPY_BYTES", "1"}});
  ASSERT_TRUE(job.share_id()) << job.logs();
  std::string to_next[3];
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(job[rank].wait_for("transport ", 10'000 * kSlower)) << job.logs();
    to_next[rank] = job[rank].lines().back();
  }
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(job[rank].join(10'000 * kSlower), 0) << job.logs();
  EXPECT_EQ(to_next[kPoor - 1], "transport shm (single copy: refused: Operation not permitted)");
  if (to_next[2] != "transport shm, single copy")
    GTEST_SKIP() << "nobody may read a peer's memory here, by yama or seccomp; run it as root outside of them: "
                 << to_next[2];
  EXPECT_EQ(to_next[kPoor], "transport shm, single copy");
}

TEST(Resources, WithoutAddressSpaceIsAnErrorOnEveryRank) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs the address space: run it in the preset dev";
  for (const std::string transport : {"shm", "tcp"}) {
    for (std::int64_t mib = 9; mib < 64 && !HasFailure(); mib += rounds(11, 3)) {
      survives({transport, "memory", mib << 20}, static_cast<int>(mib % 3));
    }
  }
}

}  // namespace
}  // namespace wreath::testing_support
