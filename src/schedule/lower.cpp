// The passes: check, fuse neighbours, mark dead targets, repeat for each data lane as 32-byte steps.
#include "src/schedule/lower.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string>

namespace wreath {
namespace {

constexpr std::size_t kMaximumIndex = std::numeric_limits<std::uint16_t>::max();

// A step before it is encoded: one line, or two that were fused.
struct Draft {
  StepOp op{};
  Chunk source{};
  Chunk target{};
  std::vector<Rank> from;
  std::uint16_t from_lane = 0;
  std::vector<Rank> to;
  bool staged = false;
  bool dead = false;
};
using DraftLane = std::vector<Draft>;

bool reads_source(Word word) { return word != Word::Recv; }
bool writes_target(Word word) { return word != Word::Send; }
bool receives(Word word) { return word == Word::Recv || word == Word::RecvReduce || word == Word::LoadReduce; }

class Checker {
 public:
  Checker(const Schedule& schedule, Rank me) : schedule_(schedule), me_(me) {}

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
    if (reads_source(line.word) && line.source.part >= schedule_.parts()) {
      return fmt::format("source part {} of a schedule of {} parts", line.source.part, schedule_.parts());
    }
    if (writes_target(line.word) && line.target.part >= schedule_.parts()) {
      return fmt::format("target part {} of a schedule of {} parts", line.target.part, schedule_.parts());
    }
    if (writes_target(line.word) && line.target.buffer == Buffer::Input) return "writes to Input";
    if (receives(line.word) && line.from_lane >= schedule_.lanes().size()) {
      return fmt::format("receives from lane {}, but the schedule has {} lanes", line.from_lane,
                         schedule_.lanes().size());
    }
    return fault_of_peers(line);
  }

  std::string fault_of_peers(const Line& line) const {
    const bool local = line.word == Word::Copy || line.word == Word::Reduce;
    if (line.peers.empty() != local) return "names no peer";
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

  // One staging slot serves all readers of a send to several: the lane's FIFOs must advance alike.
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
    std::vector<std::vector<FifoEnd>> seen;  // by lane
    for (const Lane& lane : schedule_.lanes()) {
      std::vector<FifoEnd> ends;
      for (std::size_t i = 0; i < lane.lines().size(); ++i) {
        const Line& line = lane.lines()[i];
        if (!receives(line.word)) continue;
        for (const Rank peer : line.peers) {
          const FifoEnd end{peer, line.from_lane};
          for (const std::vector<FifoEnd>& other : seen) {
            if (std::binary_search(other.begin(), other.end(), end, before)) {
              return at(lane, i, fmt::format("messages of rank {} lane {} are received by two lanes", peer, end.lane));
            }
          }
          ends.push_back(end);
        }
      }
      std::sort(ends.begin(), ends.end(), before);
      seen.push_back(std::move(ends));
    }
    return {};
  }
  static bool before(const FifoEnd& a, const FifoEnd& b) {
    return a.peer != b.peer ? a.peer < b.peer : a.lane < b.lane;
  }

  const Schedule& schedule_;
  Rank me_;
};

Draft draft_of(const Line& line) {
  constexpr StepOp kOps[] = {StepOp::Send,       StepOp::Recv, StepOp::RecvReduce,
                             StepOp::LoadReduce, StepOp::Copy, StepOp::Reduce};
  Draft draft{};
  draft.op = kOps[static_cast<std::size_t>(line.word)];
  draft.source = line.source;
  draft.target = line.target;
  (line.word == Word::Send ? draft.to : draft.from) = line.peers;
  draft.from_lane = line.from_lane;
  draft.staged = line.staged;
  return draft;
}

// The fused kind of a receiving step followed by a send of its target; nothing for other kinds.
std::optional<StepOp> fused_with_send(StepOp op) {
  switch (op) {
    case StepOp::Recv: return StepOp::RecvSend;
    case StepOp::RecvReduce: return StepOp::RecvReduceSend;
    case StepOp::LoadReduce: return StepOp::LoadReduceSend;
    default: return std::nullopt;
  }
}

DraftLane fuse(const Lane& lane) {
  DraftLane drafts;
  for (const Line& line : lane.lines()) {
    if (line.word == Word::Send && !drafts.empty() && drafts.back().target == line.source) {
      if (const std::optional<StepOp> fused = fused_with_send(drafts.back().op)) {
        drafts.back().op = *fused;
        drafts.back().to = line.peers;
        drafts.back().staged = line.staged;
        continue;
      }
    }
    drafts.push_back(draft_of(line));
  }
  return drafts;
}

// Input and Output may be the same memory.
bool may_alias(Chunk a, Chunk b) {
  return a.part == b.part && (a.buffer == Buffer::Scratch) == (b.buffer == Buffer::Scratch);
}

bool reads(const Draft& draft, Chunk chunk) {
  const bool source = reads_source(draft.op) && may_alias(draft.source, chunk);
  return source || (draft.op == StepOp::Reduce && may_alias(draft.target, chunk));
}

bool overwrites(const Draft& draft, Chunk chunk) { return draft.op != StepOp::Send && draft.target == chunk; }

bool is_dead(const std::vector<DraftLane>& lanes, std::size_t lane, std::size_t index) {
  const Chunk chunk = lanes[lane][index].target;
  for (std::size_t other = 0; other < lanes.size(); ++other) {
    if (other == lane) continue;
    for (const Draft& draft : lanes[other]) {
      if (reads(draft, chunk) || (has_send(draft.op) && has_first_part(draft.op) && may_alias(draft.target, chunk))) {
        return false;
      }
    }
  }
  for (std::size_t later = index + 1; later < lanes[lane].size(); ++later) {
    if (reads(lanes[lane][later], chunk)) return false;
    if (overwrites(lanes[lane][later], chunk)) return true;
  }
  return chunk.buffer == Buffer::Scratch;
}

void mark_dead_targets(std::vector<DraftLane>& lanes) {
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    for (std::size_t i = 0; i < lanes[lane].size(); ++i) {
      Draft& draft = lanes[lane][i];
      draft.dead = has_first_part(draft.op) && has_send(draft.op) && is_dead(lanes, lane, i);
    }
  }
}

// Encodes drafts, once per data lane.
class Emitter {
 public:
  Emitter(const Schedule& schedule, Rank me, int data_lanes) : me_(me) {
    lowered_.parts = schedule.parts();
    lowered_.scratch_parts = schedule.scratch_parts();
    lowered_.data_lanes = static_cast<std::uint16_t>(data_lanes);
  }

  void emit(const std::vector<DraftLane>& strands) {
    for (std::uint16_t data_lane = 0; data_lane < lowered_.data_lanes; ++data_lane) {
      const std::size_t base = data_lane * strands.size();
      for (std::size_t strand = 0; strand < strands.size(); ++strand) {
        lowered_.lanes.push_back({.first_step = static_cast<std::uint32_t>(lowered_.steps.size()),
                                  .step_count = static_cast<std::uint32_t>(strands[strand].size()),
                                  .number = static_cast<std::uint16_t>(base + strand),
                                  .data_lane = data_lane});
        for (const Draft& draft : strands[strand]) emit(draft, base, base + strand);
      }
    }
  }

  Result<Lowered> finish() {
    if (lowered_.sources.size() > kMaximumIndex || lowered_.targets.size() > kMaximumIndex) {
      return Error{ErrorCode::InvalidArgument,
                   fmt::format("rank {}: the schedule names {} messages in and {} out, more than {}", me_,
                               lowered_.sources.size(), lowered_.targets.size(), kMaximumIndex),
                   me_};
    }
    return std::move(lowered_);
  }

 private:
  void emit(const Draft& draft, std::size_t base, std::size_t own) {
    Step step{};
    step.op = draft.op;
    step.flags = static_cast<std::uint8_t>((draft.staged ? kStaged : 0) | (draft.dead ? kTargetDead : 0));
    step.source_buffer = draft.source.buffer;
    step.target_buffer = draft.target.buffer;
    step.source_part = draft.source.part;
    step.target_part = draft.target.part;
    step.in_first = place(lowered_.sources, draft.from, static_cast<std::uint16_t>(base + draft.from_lane));
    step.in_count = static_cast<std::uint16_t>(draft.from.size());
    step.out_first = place(lowered_.targets, draft.to, static_cast<std::uint16_t>(own));
    step.out_count = static_cast<std::uint16_t>(draft.to.size());
    if (first_part(draft.op) == StepOp::LoadReduce) {
      const auto above = std::lower_bound(draft.from.begin(), draft.from.end(), me_);
      step.own_place = static_cast<std::uint16_t>(above - draft.from.begin());
    }
    lowered_.steps.push_back(step);
  }

  // Where this run of ends stands in the table; an equal run is used again.
  static std::uint16_t place(std::vector<FifoEnd>& table, std::span<const Rank> peers, std::uint16_t lane) {
    if (peers.empty()) return 0;
    std::vector<FifoEnd> run;
    for (const Rank peer : peers) run.push_back({peer, lane});
    const auto found = std::search(table.begin(), table.end(), run.begin(), run.end());
    const auto index = static_cast<std::uint16_t>(found - table.begin());
    if (found == table.end()) table.insert(table.end(), run.begin(), run.end());
    return index;
  }

  Lowered lowered_;
  Rank me_;
};

}  // namespace

Result<Lowered> lower(const Schedule& schedule, Rank me, int data_lanes) {
  if (data_lanes < 1 || static_cast<std::size_t>(data_lanes) * schedule.lanes().size() > kMaximumIndex) {
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("data lanes: {} of {} lanes each", data_lanes, schedule.lanes().size())};
  }
  WREATH_TRY(Checker(schedule, me).run());
  std::vector<DraftLane> strands;
  for (const Lane& lane : schedule.lanes()) strands.push_back(fuse(lane));
  mark_dead_targets(strands);
  Emitter emitter(schedule, me, data_lanes);
  emitter.emit(strands);
  return emitter.finish();
}

}  // namespace wreath
