// Tests that a rank that cannot have what it needs of its own reports this to the others before it ends.
#include <gmock/gmock.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>

#include "tests/support/processes.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/resources.hpp"
#include "tests/support/surroundings.hpp"
#include "wreath/communicator.hpp"
#include "wreath/unique_id.hpp"

namespace wreath {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

CommunicatorOptions shared_memory() {
  CommunicatorOptions options;
  options.transports = {"shm"};
  return options;
}

// Starts rank 0 of 2 here and returns its result. Rank 1 is a child process in which `lack` takes a resource away.
Result<Communicator> start_beside(const std::function<void()>& lack) {
  std::array<int, 2> ids{};
  if (::pipe(ids.data()) != 0) return Error{ErrorCode::System, "no pipe"};
  const pid_t poor = ::fork();
  if (poor == 0) {
    UniqueId id;
    if (::read(ids[0], &id, sizeof id) != static_cast<ssize_t>(sizeof id)) ::_exit(1);
    lack();
    const auto made = Communicator::create(id, 1, 2, shared_memory());
    ::_exit(made ? 0 : 1);
  }
  const UniqueId id = UniqueId::create().value();
  EXPECT_EQ(::write(ids[1], &id, sizeof id), static_cast<ssize_t>(sizeof id));
  auto made = Communicator::create(id, 0, 2, shared_memory());
  ::waitpid(poor, nullptr, 0);
  for (const int end : ids) ::close(end);
  return made;
}

TEST(LonelyStart, OfARankWithoutSharedMemoryIsToldToTheOthers) {
  const auto made = start_beside([] { test::refuse_system_call(SYS_memfd_create); });
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().failed_rank, 1);
  EXPECT_THAT(made.error().message, AllOf(HasSubstr("rank 1"), HasSubstr("memfd_create")));
}

// The start may be at any point when the last descriptor is used up. A rank with none at all could report it to nobody.
TEST(LonelyStart, OfARankWithoutDescriptorsIsToldToTheOthers) {
  if (testing_support::kSanitized)
    GTEST_SKIP() << "UBSan needs descriptors to look at memory: run it in the preset dev";
  bool started = false;
  for (int spare = 1; spare < 60 && !started; ++spare) {
    const auto made = start_beside([spare] { testing_support::leave_descriptors(spare); });
    started = static_cast<bool>(made);
    if (started) break;
    EXPECT_THAT(made.error().message, AllOf(HasSubstr("RLIMIT_NOFILE"), Not(HasSubstr("closed")))) << spare;
  }
  EXPECT_TRUE(started);
}

TEST(LonelyStart, NamesEveryVariableThatCannotBeRead) {
  for (const auto& [name, value] : {std::pair("WREATH_SPIN_US", "-5"), std::pair("WREATH_HOST_CORES", "-3"),
                                    std::pair("WREATH_LANES", "99"), std::pair("WREATH_STALL_TIMEOUT_MS", "x")}) {
    const test::Environment environment{{{name, value}}};
    const auto made = Communicator::create_local(1);
    ASSERT_FALSE(made) << name;
    EXPECT_THAT(made.error().message, HasSubstr(name));
  }
}

}  // namespace
}  // namespace wreath
