// The passes check, fuse neighbours, cut long messages, mark dead targets and landings, and repeat all for each data
// lane as 32-byte steps.
#include "src/schedule/lower.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "src/schedule/well_formed.hpp"

namespace wreath {
namespace {

constexpr std::size_t kMaximumIndex = std::numeric_limits<std::uint16_t>::max();

// A step before it is encoded: one line, or two lines that were fused.
struct Draft {
  StepOp op{};
  Chunks source;
  Chunks target;
  std::vector<Rank> from;
  std::uint16_t from_lane = 0;
  Form form = Form::Data;
  std::vector<Rank> to;
  bool staged = false;
  bool dead = false;
  bool lands = false;
};
using DraftLane = std::vector<Draft>;

Draft draft_of(const Line& line) {
  constexpr StepOp kOps[] = {StepOp::Send,       StepOp::Recv, StepOp::RecvReduce,
                             StepOp::LoadReduce, StepOp::Copy, StepOp::Reduce};
  Draft draft{};
  draft.op = kOps[static_cast<std::size_t>(line.word)];
  draft.source = line.source;
  draft.target = line.target;
  (line.word == Word::Send ? draft.to : draft.from) = line.peers;
  draft.from_lane = line.from_lane;
  draft.form = line.form;
  draft.staged = line.staged;
  return draft;
}

// Returns the fused kind of a receiving step that a send of its target follows. Other kinds have none.
std::optional<StepOp> fused_with_send(StepOp op) {
  switch (op) {
    case StepOp::Recv: return StepOp::RecvSend;
    case StepOp::RecvReduce: return StepOp::RecvReduceSend;
    case StepOp::LoadReduce: return StepOp::LoadReduceSend;
    default: return std::nullopt;
  }
}

// Fuses lines of one chunk only, because lines of several chunks are rarely sent on whole.
bool can_fuse(const Draft& first, const Line& send) {
  return send.word == Word::Send && first.target.size() == 1 && first.target == send.source;
}

DraftLane fuse(const Lane& lane) {
  DraftLane drafts;
  for (const Line& line : lane.lines()) {
    if (!drafts.empty() && can_fuse(drafts.back(), line)) {
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

Chunks piece(const Chunks& chunks, std::size_t first, std::size_t count) {
  if (chunks.empty()) return {};
  const auto begin = chunks.begin() + static_cast<std::ptrdiff_t>(first);
  return std::vector<Chunk>(begin, begin + static_cast<std::ptrdiff_t>(count));
}

// Returns drafts of at most kMaximumMessageParts chunks.
DraftLane cut(const DraftLane& drafts) {
  DraftLane pieces;
  for (const Draft& draft : drafts) {
    const std::size_t chunks = std::max(draft.source.size(), draft.target.size());
    for (std::size_t first = 0; first < chunks; first += kMaximumMessageParts) {
      const std::size_t count = std::min<std::size_t>(chunks - first, kMaximumMessageParts);
      pieces.push_back(draft);
      pieces.back().source = piece(draft.source, first, count);
      pieces.back().target = piece(draft.target, first, count);
    }
  }
  return pieces;
}

// Stages these sends, because Scratch and Partial are gone, or written anew, before a peer may have read them.
void stage_sends_of_own(DraftLane& drafts) {
  for (Draft& draft : drafts) {
    if (!has_send(draft.op)) continue;
    const Chunks& sent = has_first_part(draft.op) ? draft.target : draft.source;
    draft.staged = draft.staged || is_lanes_own(sent[0].buffer);
  }
}

// Returns whether two chunks of one lane may be the same memory. Input and Output may be.
bool may_alias(Chunk a, Chunk b) {
  if (is_lanes_own(a.buffer) || is_lanes_own(b.buffer)) return a.buffer == b.buffer && a.slot == b.slot;
  return a.part == b.part;
}

bool any_alias(const Chunks& chunks, Chunk chunk) {
  return std::any_of(chunks.begin(), chunks.end(), [&](Chunk other) { return may_alias(other, chunk); });
}

bool reads(const Draft& draft, Chunk chunk) {
  return any_alias(draft.source, chunk) || (draft.op == StepOp::Reduce && any_alias(draft.target, chunk));
}

bool overwrites(const Draft& draft, Chunk chunk) {
  return std::find(draft.target.begin(), draft.target.end(), chunk) != draft.target.end();
}

bool another_lane_reads(const std::vector<DraftLane>& lanes, std::size_t lane, Chunk chunk) {
  for (std::size_t other = 0; other < lanes.size(); ++other) {
    if (other == lane) continue;
    for (const Draft& draft : lanes[other]) {
      if (reads(draft, chunk)) return true;
      if (has_send(draft.op) && has_first_part(draft.op) && any_alias(draft.target, chunk)) return true;
    }
  }
  return false;
}

bool is_dead(const std::vector<DraftLane>& lanes, std::size_t lane, std::size_t index) {
  const Chunk chunk = lanes[lane][index].target[0];
  const bool own = is_lanes_own(chunk.buffer);
  if (!own && another_lane_reads(lanes, lane, chunk)) return false;
  for (std::size_t later = index + 1; later < lanes[lane].size(); ++later) {
    if (reads(lanes[lane][later], chunk)) return false;
    if (overwrites(lanes[lane][later], chunk)) return true;
  }
  return own;
}

void mark_dead_targets(std::vector<DraftLane>& lanes) {
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    for (std::size_t i = 0; i < lanes[lane].size(); ++i) {
      Draft& draft = lanes[lane][i];
      draft.dead = has_first_part(draft.op) && has_send(draft.op) && is_dead(lanes, lane, i);
    }
  }
}

// The draft that touches a part of Output first, by lane and index, or memory that may be the same.
struct FirstTouch {
  std::size_t lane = SIZE_MAX;
  std::size_t index = 0;
  bool by_others = false;  // other lanes touch it, too
};

std::vector<FirstTouch> first_touches(const std::vector<DraftLane>& lanes, std::uint32_t parts, bool in_place) {
  std::vector<FirstTouch> touches(parts);
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    for (std::size_t i = 0; i < lanes[lane].size(); ++i) {
      for (const Chunks* chunks : {&lanes[lane][i].source, &lanes[lane][i].target}) {
        for (const Chunk chunk : *chunks) {
          if (chunk.buffer != Buffer::Output && !(in_place && chunk.buffer == Buffer::Input)) continue;
          FirstTouch& first = touches[chunk.part];
          if (first.lane == SIZE_MAX) first = {lane, i};
          first.by_others = first.by_others || first.lane != lane;
        }
      }
    }
  }
  return touches;
}

// Marks receives into places of Output that no draft touches before them. Lanes are not in order, so none of another
// lane may.
void mark_landings(std::vector<DraftLane>& lanes, std::uint32_t parts, bool in_place) {
  const std::vector<FirstTouch> touches = first_touches(lanes, parts, in_place);
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    for (std::size_t i = 0; i < lanes[lane].size(); ++i) {
      Draft& draft = lanes[lane][i];
      const bool receives = draft.op == StepOp::Recv || draft.op == StepOp::RecvSend;
      if (!receives || draft.form != Form::Data || draft.target.size() != 1) continue;
      if (draft.target[0].buffer != Buffer::Output) continue;
      const FirstTouch& first = touches[draft.target[0].part];
      draft.lands = first.lane == lane && first.index == i && !first.by_others;
    }
  }
}

bool is_local(const DraftLane& lane) {
  return std::all_of(lane.begin(), lane.end(), [](const Draft& each) { return each.from.empty() && each.to.empty(); });
}

// Encodes drafts, once per data lane.
class Emitter {
 public:
  Emitter(const Schedule& schedule, Rank me, int data_lanes) : me_(me) {
    lowered_.parts = schedule.parts();
    lowered_.scratch_slots = schedule.slots(Buffer::Scratch);
    lowered_.partial_slots = schedule.slots(Buffer::Partial);
    lowered_.data_lanes = static_cast<std::uint16_t>(data_lanes);
  }

  void emit(const std::vector<DraftLane>& strands) {
    for (std::uint16_t data_lane = 0; data_lane < lowered_.data_lanes; ++data_lane) {
      const std::size_t base = data_lane * strands.size();
      for (std::size_t strand = 0; strand < strands.size(); ++strand) {
        lowered_.lanes.push_back({.first_step = static_cast<std::uint32_t>(lowered_.steps.size()),
                                  .step_count = static_cast<std::uint32_t>(strands[strand].size()),
                                  .number = static_cast<std::uint16_t>(base + strand),
                                  .data_lane = data_lane,
                                  .local = is_local(strands[strand])});
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
    step.flags =
        static_cast<std::uint8_t>((draft.staged ? kStaged : 0) | (draft.dead ? kTargetDead : 0) |
                                  (draft.form == Form::Partial ? kPartialIncoming : 0) | (draft.lands ? kLands : 0));
    step.chunks = static_cast<std::uint16_t>(std::max(draft.source.size(), draft.target.size()));
    if (!draft.source.empty()) {
      step.source_buffer = draft.source[0].buffer;
      step.source_slot = static_cast<std::uint16_t>(draft.source[0].slot);
      step.source_part = place_parts(draft.source);
    }
    if (!draft.target.empty()) {
      step.target_buffer = draft.target[0].buffer;
      step.target_slot = static_cast<std::uint16_t>(draft.target[0].slot);
      step.target_part = place_parts(draft.target);
    }
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

  // Returns one chunk's part. For several chunks, returns the place where their parts start in the table. An equal run
  // is used again.
  std::uint32_t place_parts(const Chunks& chunks) {
    if (chunks.size() == 1) return chunks[0].part;
    std::vector<std::uint32_t> run;
    for (const Chunk chunk : chunks) run.push_back(chunk.part);
    std::vector<std::uint32_t>& table = lowered_.several;
    const auto found = std::search(table.begin(), table.end(), run.begin(), run.end());
    const auto index = static_cast<std::uint32_t>(found - table.begin());
    if (found == table.end()) table.insert(table.end(), run.begin(), run.end());
    return index;
  }

  // Returns the place of this run of ends in the table. An equal run is used again.
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

Result<Lowered> lower(const Schedule& schedule, Rank me, int data_lanes, bool in_place) {
  if (data_lanes < 1 || static_cast<std::size_t>(data_lanes) * schedule.lanes().size() > kMaximumIndex) {
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("data lanes: {} of {} lanes each", data_lanes, schedule.lanes().size())};
  }
  WREATH_TRY(check_lines(schedule, me));
  std::vector<DraftLane> strands;
  for (const Lane& lane : schedule.lanes()) strands.push_back(cut(fuse(lane)));
  for (DraftLane& strand : strands) stage_sends_of_own(strand);
  mark_dead_targets(strands);
  mark_landings(strands, schedule.parts(), in_place);
  Emitter emitter(schedule, me, data_lanes);
  emitter.emit(strands);
  return emitter.finish();
}

}  // namespace wreath
