// Tests which places the host posts for blocks that are ahead of it.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "algorithms/words.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/device/runs/adapter_access.hpp"
#include "src/executor/host.hpp"
#include "src/schedule/lower.hpp"
#include "tests/unit/executor/world.hpp"

namespace wreath::adapter_access {
namespace {

constexpr std::uint32_t kFirst = 0xFFFFFFFE;
constexpr std::uint64_t kTile = 64;
constexpr std::uint64_t kTiles = 12;

// Rank 1 receives tiles from rank 0 and from rank 2 by turns.
class BlockPlaces : public testing::Test {
 protected:
  struct Source {
    RecvFifo fifo;
    Counter consumed;
    std::array<Landing, 4> landings{};
  };

  BlockPlaces() {
    Schedule schedule(3);
    schedule.lane().recv(0, output(0));
    schedule.lane().recv(2, output(2));
    plan_.lowered = lower(schedule, 1, 1).value();
    for (Source& each : sources_) {
      each.consumed.value = kFirst;
      each.fifo.consumed = &each.consumed;
      each.fifo.landing = each.landings.data();
      each.fifo.landings = static_cast<std::uint32_t>(each.landings.size());
      each.fifo.next = kFirst;
      plan_.sources.push_back(&each.fifo);
    }
    OperationState state =
        state_of(make_geometry({.ranks = 3, .count = 3 * kTiles * kTile}, {.parts = 3, .tile_bytes = kTile}), nullptr,
                 got_.data());
    state.lands = true;
    lanes_.start(plan_, state, HostProcessor{{}, copy_kernels()});
    access_.begin(lanes_, plan_, {});
  }
  // Returns the tile whose place is that of a source's message kFirst + number.
  std::size_t tile_of(std::size_t source, std::uint32_t number) const {
    const Landing& posted = sources_[source].landings[(kFirst + number) & 3];
    EXPECT_EQ(posted.sequence, kFirst + number);
    return (static_cast<std::size_t>(posted.target - got_.data()) / kTile) % kTiles;
  }

  std::vector<Membership> memberships_ = join_local(3, "").value();
  std::unique_ptr<Links> links_ =
      Links::create(memberships_[1], {.lanes = 1, .slot_count = 4, .slot_bytes = 4096, .first_sequence = 0, .epoch = 1},
                    CommunicatorOptions(), false)
          .value();
  AdapterAccess access_{*links_};
  std::array<Source, 2> sources_;
  Plan plan_;
  LaneScheduler lanes_;
  std::vector<std::byte> got_ = std::vector<std::byte>(3 * kTiles * kTile);
};

// The counts of two sources are read one after the other, and blocks go on in between. Then the first one looks full,
// and nothing is posted for the second one, whose messages have gone by. The link begins anew there.
TEST_F(BlockPlaces, AreTheirOwnMessagesWhereTheLinkHasForgottenHowFarItIs) {
  access_.post_places();
  for (const std::size_t source : {0U, 1U}) EXPECT_EQ(tile_of(source, 3), 3U);
  RecvFifo& late = sources_[1].fifo;
  sources_[1].consumed.value = kFirst + 6;
  access_.post_places();
  ASSERT_GT(late.posted - late.next, late.landings) << "what PutLandings::name_places() finds";
  late.posted = late.next;
  sources_[0].consumed.value = kFirst + 6;
  access_.post_places();
  for (std::uint32_t number = 6; number < 10; ++number) {
    for (const std::size_t source : {0U, 1U}) EXPECT_EQ(tile_of(source, number), number) << source;
  }
}

}  // namespace
}  // namespace wreath::adapter_access
