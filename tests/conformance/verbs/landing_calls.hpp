// The calls of which nothing is copied where memory is registered at both ends.
#pragma once

#include <algorithm>
#include <functional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "tests/support/local_ranks.hpp"

namespace wreath::test {

inline constexpr std::size_t kMebibyte = 1 << 20;

struct Buffers {
  std::span<std::int32_t> input;
  std::span<std::int32_t> output;
};

// Each rank has `count` elements, or as many for each rank.
struct LandingCall {
  friend void PrintTo(const LandingCall& call, std::ostream* out) { *out << call.name; }
  std::string name;
  std::function<Status(Communicator&, const Buffers&, std::size_t count)> make;
  // Returns the first element of output block `block`.
  std::function<std::int32_t(Rank me, Rank block, int ranks)> expected;
  bool one_block = false;  // of output
};

inline Rank behind(Communicator& communicator) {
  return (communicator.rank() + communicator.ranks() - 1) % communicator.ranks();
}

inline Status send_around(Communicator& communicator, const Buffers& buffers, std::size_t count) {
  Group group;
  WREATH_TRY(communicator.send(buffers.input.data(), count, DataType::Int32,
                               (communicator.rank() + 1) % communicator.ranks()));
  WREATH_TRY(communicator.recv(buffers.output.data(), count, DataType::Int32, behind(communicator)));
  return group.run();
}

inline std::vector<LandingCall> calls_that_land() {
  constexpr auto kType = DataType::Int32;
  return {
      {"sendrecv", send_around, [](Rank me, Rank, int ranks) { return 1000 * ((me + ranks - 1) % ranks); }, true},
      {"all_gather",
       [](Communicator& communicator, const Buffers& buffers, std::size_t count) {
         return communicator.all_gather(buffers.input.data(), buffers.output.data(), count, kType);
       },
       [](Rank, Rank block, int) { return 1000 * block; }},
      {"all_gather_in_place",
       [](Communicator& communicator, const Buffers& buffers, std::size_t count) {
         std::int32_t* const own = buffers.output.data() + static_cast<std::size_t>(communicator.rank()) * count;
         std::copy_n(buffers.input.data(), count, own);
         return communicator.all_gather(own, buffers.output.data(), count, kType);
       },
       [](Rank, Rank block, int) { return 1000 * block; }},
      {"broadcast",
       [](Communicator& communicator, const Buffers& buffers, std::size_t count) {
         return communicator.broadcast(buffers.input.data(), buffers.output.data(), count, kType, 1);
       },
       [](Rank, Rank, int) { return 1000; }, true},
      {"all_to_all",
       [](Communicator& communicator, const Buffers& buffers, std::size_t count) {
         return communicator.all_to_all(buffers.input.data(), buffers.output.data(), count, kType);
       },
       [](Rank me, Rank block, int) { return 1000 * block + me; }},
      {"gather",
       [](Communicator& communicator, const Buffers& buffers, std::size_t count) {
         return communicator.gather(buffers.input.data(), buffers.output.data(), count, kType, 0);
       },
       [](Rank, Rank block, int) { return 1000 * block; }},
      {"scatter",
       [](Communicator& communicator, const Buffers& buffers, std::size_t count) {
         return communicator.scatter(buffers.input.data(), buffers.output.data(), count, kType, 0);
       },
       [](Rank me, Rank, int) { return me; }, true},
  };
}

}  // namespace wreath::test
