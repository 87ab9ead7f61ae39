// Tests that ranks meet through an id, through the environment and in one process, and the errors they get when they
// cannot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include <thread>

#include "src/base/socket.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/bootstrap/frame.hpp"
#include "src/bootstrap/meeting.hpp"
#include "tests/unit/bootstrap/helpers.hpp"

namespace wreath {
namespace {

using ::testing::HasSubstr;
// Expects that every pair of ranks can exchange its numbers over `fd_of(rank, peer)`.
template <typename FdOf>
void expect_linked(int ranks, FdOf fd_of) {
  const Deadline deadline = Deadline::after_ms(5000);
  for (int rank = 0; rank < ranks; ++rank) {
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer == rank) continue;
      const std::array text{static_cast<std::byte>(rank), static_cast<std::byte>(peer)};
      ASSERT_TRUE(send_all(fd_of(rank, peer), text, deadline));
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer == rank) continue;
      std::array<std::byte, 2> text{};
      for (std::size_t got = 0; got < text.size();) {
        ASSERT_TRUE(wait_for(fd_of(rank, peer), POLLIN, deadline));
        const std::ptrdiff_t more = try_recv(fd_of(rank, peer), std::span(text).subspan(got));
        ASSERT_GT(more, 0);
        got += static_cast<std::size_t>(more);
      }
      EXPECT_EQ(text[0], static_cast<std::byte>(peer));
      EXPECT_EQ(text[1], static_cast<std::byte>(rank));
    }
  }
}

void expect_members(Results& results) {
  const auto ranks = static_cast<int>(results.size());
  for (const auto& result : results) ASSERT_TRUE(result) << result.error().message;
  for (int rank = 0; rank < ranks; ++rank) {
    const Membership& one = *results[static_cast<std::size_t>(rank)];
    EXPECT_EQ(one.rank, rank);
    EXPECT_EQ(one.ranks, ranks);
    EXPECT_EQ(one.communicator, results[0]->communicator);
    EXPECT_EQ(one.settings, results[0]->settings);
    EXPECT_EQ(one.members.size(), results.size());
    EXPECT_FALSE(one.control[static_cast<std::size_t>(rank)]);
  }
  expect_linked(ranks, [&](int rank, int peer) {
    return results[static_cast<std::size_t>(rank)]->control[static_cast<std::size_t>(peer)].get();
  });
}

TEST(JoinLocal, LinksEveryPair) {
  auto all = join_local(5, "text");
  ASSERT_TRUE(all) << all.error().message;
  expect_linked(5, [&](int rank, int peer) {
    return (*all)[static_cast<std::size_t>(rank)].control[static_cast<std::size_t>(peer)].get();
  });
  EXPECT_EQ((*all)[3].settings, "text");
  EXPECT_NE((*all)[0].communicator, 0U);
}

TEST(JoinLocal, OpensStreams) {
  auto all = join_local(2, "");
  ASSERT_TRUE(all);
  auto low = (*all)[0].open_stream(1, Deadline::after_ms(1000), -1, 0);
  auto high = (*all)[1].open_stream(0, Deadline::after_ms(1000), -1, 0);
  ASSERT_TRUE(low && high);
  expect_linked(2, [&](int rank, int) { return rank == 0 ? low->get() : high->get(); });
  EXPECT_FALSE((*all)[0].open_stream(2, Deadline::after_ms(1), -1, 0));
}

TEST(JoinLocal, RefusesABadNumberOfRanks) {
  for (const int ranks : {0, -1, 100'000}) {
    auto all = join_local(ranks, "");
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().code, ErrorCode::InvalidArgument);
  }
}

TEST(Join, BringsEightRanksTogetherOverUnixSockets) {
  const DescriptorCount before;
  {
    auto id = UniqueId::create();
    ASSERT_TRUE(id) << id.error().message;
    auto results = join_all(8, [&](int rank) { return join(*id, request(rank, 8)); });
    expect_members(results);
    for (const Connection& connection : results[3]->control) {
      if (connection) {
        EXPECT_TRUE(local_address(connection.get()).is_unix());
      }
    }
    EXPECT_EQ(results[5]->settings, "settings of rank 0");
  }
  EXPECT_TRUE(before.settles());
}

// Binds the calling thread to one of the cores that it may use.
void use_only(int place) {
  const CoreSet all = allowed_cores();
  cpu_set_t only;
  CPU_ZERO(&only);
  for (std::size_t core = 0; core < all.size() * 8 && CPU_COUNT(&only) == 0; ++core) {
    if ((all[core / 8] >> core % 8 & 1) != 0 && place-- == 0) CPU_SET(core, &only);
  }
  EXPECT_EQ(::sched_setaffinity(0, sizeof only, &only), 0);
}

// Launchers such as mpirun and srun bind each rank to cores of its own.
TEST(Join, CountsTheCoresThatTheRanksOfAHostHaveTogether) {
  if (count_cores(allowed_cores()) < 2) GTEST_SKIP() << "two ranks need two cores: run it on more";
  for (const int cores : {1, 2}) {
    auto id = UniqueId::create();
    ASSERT_TRUE(id) << id.error().message;
    auto results = join_all(3, [&](int rank) {
      use_only(rank % cores);
      return join(*id, request(rank, 3));
    });
    expect_members(results);
    for (const Member& member : results[2]->members) EXPECT_EQ(member.host_cores, cores);
  }
}

TEST(Join, OpensStreamsOverLoopback) {
  const DescriptorCount before;
  {
    auto id = UniqueId::create();
    ASSERT_TRUE(id);
    constexpr int kRanks = 6;
    std::vector<std::vector<Fd>> streams(kRanks);
    auto results = join_all(kRanks, [&](int rank) {
      BootstrapRequest wish = request(rank, kRanks);
      wish.need_streams = true;
      auto member = join(*id, wish);
      for (int peer = 0; member && peer < kRanks; ++peer) {
        auto& mine = streams[static_cast<std::size_t>(rank)];
        if (peer == rank) {
          mine.emplace_back();
          continue;
        }
        auto fd = member->open_stream(peer, Deadline::after_ms(10'000), -1, 0);
        if (!fd) return Result<Membership>(fd.error());
        mine.push_back(std::move(*fd));
      }
      return member;
    });
    expect_members(results);
    expect_linked(kRanks, [&](int rank, int peer) {
      return streams[static_cast<std::size_t>(rank)][static_cast<std::size_t>(peer)].get();
    });
    EXPECT_TRUE(local_address(streams[0][1].get()).is_loopback());
  }
  EXPECT_TRUE(before.settles());
}

TEST(Join, RefusesStreamsThatWereNotAskedFor) {
  auto id = UniqueId::create();
  ASSERT_TRUE(id);
  auto results = join_all(2, [&](int rank) { return join(*id, request(rank, 2)); });
  expect_members(results);
  auto fd = results[0]->open_stream(1, Deadline::after_ms(100), -1, 0);
  ASSERT_FALSE(fd);
  EXPECT_EQ(fd.error().code, ErrorCode::InvalidUsage);
}

TEST(Join, BringsEightRanksTogetherOverTcp) {
  const DescriptorCount before;
  {
    const MeetingPlace place = open_meeting();
    auto results = join_all(8, [&](int rank) {
      MeetingPlace mine = place;
      // The ranks see four hosts with two ranks each.
      mine.host = static_cast<std::uint64_t>(rank / 2);
      return meet(mine, request(rank, 8));
    });
    expect_members(results);
    EXPECT_TRUE(local_address(results[2]->control[3].get()).is_unix());
    EXPECT_EQ(local_address(results[2]->control[4].get()).ip_text(), "127.0.0.1");
  }
  EXPECT_TRUE(before.settles());
}

TEST(Join, SaysThatAnIdIsUsedUp) {
  auto id = UniqueId::create();
  ASSERT_TRUE(id);
  auto results = join_all(2, [&](int rank) { return join(*id, request(rank, 2)); });
  expect_members(results);
  auto late = join(*id, request(0, 2));
  ASSERT_FALSE(late);
  EXPECT_THAT(late.error().message, HasSubstr("its meeting is over"));
}

TEST(UniqueIds, SurviveTextAndNothingElse) {
  auto id = UniqueId::create();
  ASSERT_TRUE(id);
  const std::string text = id->to_string();
  EXPECT_EQ(text.size(), 256U);
  EXPECT_EQ(UniqueId::parse(text).value().bytes, id->bytes);
  EXPECT_FALSE(UniqueId::parse(text.substr(1)));
  std::string wrong = text;
  wrong[7] = 'x';
  EXPECT_THAT(UniqueId::parse(wrong).error().message, HasSubstr("character 7"));
  wrong = text;
  wrong[40] = wrong[40] == '0' ? '1' : '0';
  EXPECT_THAT(join(*UniqueId::parse(wrong), request(0, 1)).error().message, HasSubstr("damaged"));
  EXPECT_THAT(join(UniqueId{}, request(0, 1)).error().message, HasSubstr("empty"));
  EXPECT_TRUE(join(*id, request(0, 1)));
}

TEST(UniqueIds, TakeAnAddressOfThisHostOnly) {
  for (const char* address : {"192.0.2.1", "localhost", "1.2.3.4.5"}) {
    auto id = UniqueId::create(address);
    ASSERT_FALSE(id);
    EXPECT_THAT(id.error().message, HasSubstr(address));
  }
  auto id = UniqueId::create("127.0.0.1");
  ASSERT_TRUE(id) << id.error().message;
  auto results = join_all(2, [&](int rank) { return join(*id, request(rank, 2)); });
  expect_members(results);
}

}  // namespace
}  // namespace wreath
