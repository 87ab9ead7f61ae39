// Contests of rows and tiles, in turns, with the same calls on all ranks.
#pragma once

#include <chrono>
#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "perf/common/buffers.hpp"
#include "perf/common/collectives.hpp"
#include "wreath/communicator.hpp"
#include "wreath/tuning.hpp"

namespace wreath::perf {

using Seconds = std::chrono::duration<double>;
using SteadyTime = std::chrono::steady_clock::time_point;

// One rank's end of the values that all ranks agree on.
class Agreement {
 public:
  explicit Agreement(Communicator& all) : all_(all) {}
  int rank() const { return all_.rank(); }
  int ranks() const { return all_.ranks(); }
  Status barrier() { return all_.barrier(); }
  // Returns the largest of the ranks' values, on all ranks.
  Result<double> largest(double mine);
  // Creates a communicator of all ranks with these options.
  Result<Communicator> create(const CommunicatorOptions& options);

 private:
  Communicator& all_;
};

// A row of the table of algorithms with a tile; 0: the library's own tile.
struct Entrant {
  std::string algorithm;
  std::size_t tile_bytes = 0;
  auto operator<=>(const Entrant&) const = default;
};

struct Outcome {
  Entrant entrant;
  // The median over rounds of the slowest rank's time.
  double time_us = 0;
};

// The state that all contests of a rank share.
struct Arena {
  Agreement& agreement;
  Buffers& buffers;
  MemoryPlace memory;  // of the buffers
};

// The contest for one collective over one transport.
class Contest {
 public:
  Contest(const Arena& arena, const CollectiveRow& row, std::string transport);

  struct Size {
    Entrant own;  // the choice of the library's rules
    std::vector<Outcome> outcomes;
    bool small = false;  // own is the path of small messages
    // The library's choice took far longer in one of two measurements.
    bool disturbed = false;
  };
  // Measures one size, in the same way on all ranks. `hurried` makes fewer rounds.
  Result<Size> measure(std::size_t bytes, bool hurried);

 private:
  struct Player {
    Communicator communicator;
    bool warm = false;  // has run
  };
  struct Running {
    Entrant entrant;
    Player* player;
    int calls = 1;  // of a round
    std::vector<double> times_us;
  };

  Result<Communicator> create(const Entrant& entrant);
  Result<Player*> player(const Entrant& entrant);
  Status run(std::vector<Running>& all, const Case& work, int rounds);
  Result<Entrant> own_choice(const Case& work);
  Result<std::vector<Entrant>> entrants(const Case& work, const Entrant& own);
  void add_tiles(const Algorithm& row, std::size_t bytes, std::vector<Entrant>& all) const;
  bool hopeless(const Algorithm& row, std::size_t bytes) const;
  bool lost_before(const Entrant& entrant, std::size_t bytes) const;
  Status warm_up(Running& running, const Case& work);
  Result<double> time_us(Running& running, const Case& work, int calls);
  Status run_rounds(std::vector<Running*> all, const Case& work, int rounds);
  Status run_off(Size& size, const Case& work, int rounds);

  Agreement& agreement_;
  Buffers& buffers_;
  MemoryPlace memory_;
  const CollectiveRow& row_;
  std::string transport_;
  // One core for each rank of this host; empty: there are too few, or a device does the work.
  std::vector<int> cores_;
  std::map<Entrant, Player> players_;
  std::vector<Outcome> before_;  // of the size before
};

}  // namespace wreath::perf
