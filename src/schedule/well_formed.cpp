// Checks single lines, and lines that share a FIFO.
#include "src/schedule/well_formed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "src/schedule/show.hpp"

namespace wreath {
namespace {

constexpr std::uint32_t kMaximumSlots = std::numeric_limits<std::uint16_t>::max();

class LineChecker {
 public:
  LineChecker(const Schedule& schedule, Rank me) : schedule_(schedule), me_(me) {}

  Status run() {
    if (schedule_.parts() == 0) return Error{ErrorCode::InvalidArgument, "the schedule has no parts"};
    for (const Lane& lane : schedule_.lanes()) {
      for (std::size_t i = 0; i < lane.lines().size(); ++i) {
        if (std::string fault = fault_of(lane.lines()[i]); !fault.empty()) return at(lane, i, fault);
      }
      WREATH_TRY(check_send_sets(lane));
    }
    return check_receivers();
  }

 private:
  Error at(const Lane& lane, std::size_t line, std::string_view fault) const {
    return {ErrorCode::InvalidArgument,
            fmt::format("rank {}: schedule lane {} line {}: {}", me_, lane.number(), line, fault), me_};
  }

  std::string fault_of(const Line& line) const {
    std::string fault = fault_of_chunks("source", line.source, reads_source(line.word));
    if (fault.empty()) fault = fault_of_chunks("target", line.target, writes_target(line.word));
    if (fault.empty()) fault = fault_of_peers(line);
    if (fault.empty()) fault = fault_of_counts(line);
    if (fault.empty() && writes_target(line.word)) fault = fault_of_target(line);
    return fault;
  }

  std::string fault_of_chunks(std::string_view which, const Chunks& chunks, bool wanted) const {
    if (chunks.empty() == wanted) return wanted ? fmt::format("has no {}", which) : fmt::format("has a {}", which);
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const Chunk chunk = chunks[i];
      if (chunk.part >= schedule_.parts()) {
        return fmt::format("{} part {} of a schedule of {} parts", which, chunk.part, schedule_.parts());
      }
      if (chunk.buffer != chunks[0].buffer) {
        return fmt::format("{} chunks lie in {} and {}", which, name(chunks[0].buffer), name(chunk.buffer));
      }
      if (!is_lanes_own(chunk.buffer) && chunk.slot != 0) {
        return fmt::format("{} names slot {} of {}, which has none", which, chunk.slot, name(chunk.buffer));
      }
      if (chunk.slot >= kMaximumSlots)
        return fmt::format("{} slot {}: the limit is {}", which, chunk.slot, kMaximumSlots);
      if (is_lanes_own(chunk.buffer) && chunk.slot != chunks[0].slot + i) {
        return fmt::format("{} slots are not neighbours: {} after {}", which, chunk.slot, chunks[i - 1].slot);
      }
    }
    return {};
  }

  static std::string fault_of_counts(const Line& line) {
    if (line.word == Word::LoadReduce && (line.source.size() != 1 || line.target.size() != 1)) {
      return fmt::format("load_reduce works on one chunk, not {} and {}", line.source.size(), line.target.size());
    }
    if (reads_source(line.word) && writes_target(line.word) && line.source.size() != line.target.size()) {
      return fmt::format("has {} source and {} target chunks", line.source.size(), line.target.size());
    }
    return {};
  }

  // Checks a target. Inputs are the caller's, sums have their places, and a finished sum is not an operand.
  static std::string fault_of_target(const Line& line) {
    const Buffer target = line.target[0].buffer;
    const bool partial_in = receives(line.word) && line.form == Form::Partial;
    const bool from_partial = reads_source(line.word) && line.source[0].buffer == Buffer::Partial;
    if (target == Buffer::Input) return "writes to Input";
    if (line.word == Word::Reduce && target != Buffer::Partial) {
      return fmt::format("adds to {}: only Partial holds unfinished sums", name(target));
    }
    if (reduces(line.word) && line.source[0].buffer == Buffer::Output) return "reduces Output, whose sums are finished";
    if (target == Buffer::Scratch && (reduces(line.word) || partial_in || from_partial)) {
      return "puts a sum into Scratch: unfinished sums belong in Partial";
    }
    if (target == Buffer::Partial && line.word == Word::Recv && !partial_in) {
      return "receives a message of data into Partial";
    }
    return {};
  }

  std::string fault_of_peers(const Line& line) const {
    const bool local = line.word == Word::Copy || line.word == Word::Reduce;
    if (line.peers.empty() != local) return "names no peer";
    if (receives(line.word) && line.from_lane >= schedule_.lanes().size()) {
      return fmt::format("receives from lane {}, but the schedule has {} lanes", line.from_lane,
                         schedule_.lanes().size());
    }
    if (line.word == Word::LoadReduce && line.peers.size() > kMaximumFanIn) {
      return fmt::format("loads from {} peers, the limit is {}", line.peers.size(), kMaximumFanIn);
    }
    for (std::size_t i = 0; i < line.peers.size(); ++i) {
      if (line.peers[i] < 0) return fmt::format("peer {} is not a rank", line.peers[i]);
      if (line.peers[i] == me_) return "exchanges a message with itself";
      if (i > 0 && line.peers[i] <= line.peers[i - 1]) return "peers repeat or are not in ascending order";
    }
    return {};
  }

  // One staging slot serves all readers of a send to several peers, so the lane's FIFOs must advance alike.
  Status check_send_sets(const Lane& lane) const {
    const std::vector<Rank>* several = nullptr;
    for (const Line& line : lane.lines()) {
      if (line.word == Word::Send && line.peers.size() > 1) several = &line.peers;
    }
    if (several == nullptr) return {};
    for (std::size_t i = 0; i < lane.lines().size(); ++i) {
      const Line& line = lane.lines()[i];
      if (line.word == Word::Send && line.peers != *several) {
        return at(lane, i, "a lane that sends to several peers must send everything to the same peers");
      }
    }
    return {};
  }

  Status check_receivers() const {
    std::map<std::pair<Rank, std::uint16_t>, std::uint16_t> receiver;  // lane, by sender and its lane
    for (const Lane& lane : schedule_.lanes()) {
      for (std::size_t i = 0; i < lane.lines().size(); ++i) {
        const Line& line = lane.lines()[i];
        if (!receives(line.word)) continue;
        for (const Rank peer : line.peers) {
          const auto [seen, first] = receiver.try_emplace({peer, line.from_lane}, lane.number());
          if (first || seen->second == lane.number()) continue;
          return at(lane, i,
                    fmt::format("messages of rank {} lane {} are received by two lanes", peer, line.from_lane));
        }
      }
    }
    return {};
  }

  const Schedule& schedule_;
  Rank me_;
};

}  // namespace

Status check_lines(const Schedule& schedule, Rank me) { return LineChecker(schedule, me).run(); }

}  // namespace wreath
