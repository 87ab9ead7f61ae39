// Links lowered programs. This makes the checks that need no run, and the FIFOs that join the ranks.
#include "src/schedule/machine.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "src/schedule/show.hpp"

namespace wreath {

class Linker {
 public:
  explicit Linker(std::span<const Lowered> programs) : programs_(programs) {}

  Result<Machine> run() {
    if (programs_.empty()) return Error{ErrorCode::InvalidArgument, "no ranks"};
    machine_.ranks_ = static_cast<int>(programs_.size());
    machine_.parts_ = programs_[0].parts;
    machine_.data_lanes_ = programs_[0].data_lanes;
    for (const Lowered& program : programs_) {
      machine_.scratch_slots_ = std::max(machine_.scratch_slots_, program.scratch_slots);
      machine_.partial_slots_ = std::max(machine_.partial_slots_, program.partial_slots);
    }
    for (rank_ = 0; rank_ < machine_.ranks_; ++rank_) {
      WREATH_TRY(add_rank(programs_[static_cast<std::size_t>(rank_)]));
    }
    machine_.first_lane_.push_back(static_cast<std::uint32_t>(machine_.lanes_.size()));
    WREATH_TRY(join());
    return std::move(machine_);
  }

 private:
  // One end of a message as some step names it.
  struct Use {
    FifoEnd source;
    Rank receiver;
    std::uint32_t lane;  // id
    std::uint32_t end;   // index into ends_
    bool produces;
    auto key() const { return std::tuple(source.peer, receiver, source.lane); }
  };

  Error at(std::size_t lane, std::size_t step, std::string_view fault) const {
    return {ErrorCode::Mismatch, fmt::format("rank {} lane {} step {}: {}", rank_, lane, step, fault), rank_};
  }

  Status add_rank(const Lowered& program) {
    if (program.parts != machine_.parts_ || program.data_lanes != machine_.data_lanes_ ||
        program.lanes.size() != programs_[0].lanes.size()) {
      return Error{ErrorCode::Mismatch,
                   fmt::format("rank {} has {} parts and {} lanes in {} data lanes, but rank 0 has {}, {} and {}",
                               rank_, program.parts, program.lanes.size(), program.data_lanes, machine_.parts_,
                               programs_[0].lanes.size(), machine_.data_lanes_),
                   rank_};
    }
    machine_.first_lane_.push_back(static_cast<std::uint32_t>(machine_.lanes_.size()));
    several_first_ = static_cast<std::uint32_t>(machine_.several_.size());
    machine_.several_.insert(machine_.several_.end(), program.several.begin(), program.several.end());
    for (std::size_t index = 0; index < program.lanes.size(); ++index) WREATH_TRY(add_lane(program, index));
    return {};
  }

  Status add_lane(const Lowered& program, std::size_t index) {
    const LoweredLane& lane = program.lanes[index];
    if (lane.number != index || lane.data_lane >= program.data_lanes) {
      return at(index, 0, fmt::format("is numbered {} in data lane {}", lane.number, lane.data_lane));
    }
    if (std::uint64_t{lane.first_step} + lane.step_count > program.steps.size()) {
      return at(index, 0, "its steps lie beyond the table");
    }
    machine_.lanes_.push_back({.rank = rank_,
                               .index = static_cast<std::uint32_t>(index),
                               .first_step = static_cast<std::uint32_t>(machine_.steps_.size()),
                               .step_count = lane.step_count,
                               .data_lane = lane.data_lane});
    for (std::uint32_t i = 0; i < lane.step_count; ++i) {
      const Step& step = program.steps[lane.first_step + i];
      if (std::string fault = fault_of(program, step); !fault.empty()) return at(index, i, fault);
      const std::span<const FifoEnd> sources{program.sources}, targets{program.targets};
      WREATH_TRY(add_step(index, i, step, sources.subspan(step.in_first, step.in_count),
                          targets.subspan(step.out_first, step.out_count)));
    }
    return {};
  }

  static std::string fault_of(const Lowered& program, const Step& step) {
    if (step.op > StepOp::LoadReduceSend) return fmt::format("unknown operation {}", static_cast<int>(step.op));
    if ((step.flags & ~(kStaged | kTargetDead | kPartialIncoming | kLands)) != 0)
      return fmt::format("unknown flags {}", step.flags);
    if (step.source_buffer > Buffer::Partial || step.target_buffer > Buffer::Partial) return "unknown buffer";
    const StepOp first = first_part(step.op);
    const bool one_in = first == StepOp::Recv || first == StepOp::RecvReduce;
    const bool in_fits = one_in ? step.in_count == 1 : (first == StepOp::LoadReduce) == (step.in_count > 0);
    if (!in_fits) return fmt::format("{} with {} messages in", name(step.op), step.in_count);
    if (has_send(step.op) != (step.out_count > 0))
      return fmt::format("{} with {} messages out", name(step.op), step.out_count);
    if (step.in_first + step.in_count > static_cast<int>(program.sources.size()))
      return "its messages in lie beyond the table";
    if (step.out_first + step.out_count > static_cast<int>(program.targets.size())) {
      return "its messages out lie beyond the table";
    }
    if (first == StepOp::LoadReduce && step.own_place > step.in_count) return "its own place is beyond the messages";
    const bool receives = first == StepOp::Recv && step.target_buffer == Buffer::Output && step.chunks == 1;
    if ((step.flags & kLands) != 0 && (!receives || (step.flags & kPartialIncoming) != 0)) {
      return fmt::format("{} lands, and receives no data for one place of Output", name(step.op));
    }
    return fault_of_chunks(program, step);
  }

  static std::string fault_of_chunks(const Lowered& program, const Step& step) {
    const bool fused = has_first_part(step.op) && has_send(step.op);
    const int most = fused || step.op == StepOp::LoadReduce ? 1 : kMaximumMessageParts;
    if (step.chunks < 1 || step.chunks > most) return fmt::format("{} of {} chunks", name(step.op), step.chunks);
    std::string fault;
    if (reads_source(step.op)) {
      fault = fault_of_run(program, step, "source", step.source_buffer, step.source_part, step.source_slot);
    }
    if (fault.empty() && has_first_part(step.op)) {
      if (step.target_buffer == Buffer::Input) return "writes to Input";
      fault = fault_of_run(program, step, "target", step.target_buffer, step.target_part, step.target_slot);
    }
    const Buffer sent = has_first_part(step.op) ? step.target_buffer : step.source_buffer;
    if (fault.empty() && has_send(step.op) && is_lanes_own(sent) && (step.flags & kStaged) == 0) {
      return fmt::format("sends from {} without staging", name(sent));
    }
    return fault;
  }

  static std::string fault_of_run(const Lowered& program, const Step& step, std::string_view which, Buffer buffer,
                                  std::uint32_t first, std::uint32_t slot) {
    if (step.chunks > 1 && std::uint64_t{first} + step.chunks > program.several.size()) {
      return fmt::format("its {} parts lie beyond the table", which);
    }
    for (std::uint32_t i = 0; i < step.chunks; ++i) {
      const std::uint32_t part = part_of(program, step, first, i);
      if (part >= program.parts) return fmt::format("{} part {} of {}", which, part, program.parts);
    }
    const std::uint32_t slots = buffer == Buffer::Scratch ? program.scratch_slots : program.partial_slots;
    if (!is_lanes_own(buffer) || slot + step.chunks <= slots) return {};
    return fmt::format("{} slot {} of {}", which, slot + step.chunks - 1, slots);
  }

  Status add_step(std::size_t lane, std::size_t index, const Step& step, std::span<const FifoEnd> in,
                  std::span<const FifoEnd> out) {
    const auto id = static_cast<std::uint32_t>(machine_.lanes_.size() - 1);
    const auto end = static_cast<std::uint32_t>(uses_.size());
    machine_.steps_.push_back({step, end, static_cast<std::uint32_t>(end + in.size())});
    if (step.chunks > 1) {
      machine_.steps_.back().step.source_part += several_first_;
      machine_.steps_.back().step.target_part += several_first_;
    }
    for (const FifoEnd& source : in) {
      if (std::string fault = fault_of_peer(source.peer); !fault.empty()) return at(lane, index, fault);
      uses_.push_back({source, rank_, id, static_cast<std::uint32_t>(uses_.size()), false});
    }
    for (const FifoEnd& target : out) {
      if (std::string fault = fault_of_peer(target.peer); !fault.empty()) return at(lane, index, fault);
      if (target.lane != lane) return at(lane, index, fmt::format("sends on lane {}, not its own", target.lane));
      uses_.push_back({{rank_, target.lane}, target.peer, id, static_cast<std::uint32_t>(uses_.size()), true});
    }
    return fault_of_ends(lane, index, in, out);
  }

  std::string fault_of_peer(Rank peer) const {
    if (peer == rank_) return "exchanges a message with itself";
    return peer < 0 || peer >= machine_.ranks_ ? fmt::format("peer {} of {} ranks", peer, machine_.ranks_) : "";
  }

  Status fault_of_ends(std::size_t lane, std::size_t index, std::span<const FifoEnd> in,
                       std::span<const FifoEnd> out) const {
    for (const std::span<const FifoEnd> ends : {in, out}) {
      for (std::size_t i = 1; i < ends.size(); ++i) {
        if (ends[i].peer <= ends[i - 1].peer) return at(lane, index, "peers repeat or are not in ascending order");
      }
    }
    return {};
  }

  // Gives every (sender, receiver, sender's lane) a number, and checks that each end has one user.
  Status join() {
    machine_.ends_.resize(uses_.size());
    std::sort(uses_.begin(), uses_.end(), [](const Use& a, const Use& b) { return a.key() < b.key(); });
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      const Use& use = uses_[i];
      if (i == 0 || use.key() != uses_[i - 1].key()) machine_.fifos_.push_back({use.source, use.receiver});
      MachineFifo& fifo = machine_.fifos_.back();
      std::uint32_t& user = use.produces ? fifo.producer : fifo.consumer;
      if (user != kUnlimited && user != use.lane) {
        return Error{ErrorCode::Mismatch,
                     fmt::format("messages of rank {} lane {} to rank {} are {} by two lanes", use.source.peer,
                                 use.source.lane, use.receiver, use.produces ? "sent" : "received")};
      }
      user = use.lane;
      machine_.ends_[use.end] = static_cast<std::uint32_t>(machine_.fifos_.size() - 1);
    }
    return {};
  }

  std::span<const Lowered> programs_;
  Machine machine_;
  Rank rank_ = 0;
  std::uint32_t several_first_ = 0;  // of this rank
  std::vector<Use> uses_;
};

Result<Machine> Machine::link(std::span<const Lowered> programs) { return Linker(programs).run(); }

namespace {

std::uint32_t tiles_of(const Machine& machine, const Geometry& geometry, const Step& step, std::uint16_t data_lane) {
  std::uint64_t most = 0;
  const auto add = [&](Buffer buffer, std::uint32_t first) {
    for (std::uint32_t i = 0; i < step.chunks; ++i) {
      most = std::max(most, geometry.elements(buffer, machine.part(step, first, i), data_lane));
    }
  };
  if (reads_source(step.op)) add(step.source_buffer, step.source_part);
  if (has_first_part(step.op)) add(step.target_buffer, step.target_part);
  return static_cast<std::uint32_t>(divide_up(most, geometry.tile));
}

}  // namespace

Extents extents_of(const Machine& machine, const Shapes& shapes) {
  Extents extents;
  extents.steps.resize(machine.steps());
  for (const MachineLane& lane : machine.lanes()) {
    std::uint32_t most = 0;
    for (std::uint32_t i = lane.first_step; i < lane.first_step + lane.step_count; ++i) {
      extents.steps[i] = tiles_of(machine, shapes[lane.rank], machine.step(i).step, lane.data_lane);
      most = std::max(most, extents.steps[i]);
    }
    extents.lanes.push_back(most);
  }
  return extents;
}

std::string Machine::where(std::uint32_t lane, std::uint32_t step, std::uint32_t tile) const {
  const MachineLane& fixed = lanes_[lane];
  return fmt::format("rank {} lane {} step {} tile {} ({})", fixed.rank, fixed.index, step, tile,
                     name(steps_[fixed.first_step + step].step.op));
}

namespace {
constexpr std::size_t kReported = 6;
}

void StuckReport::add_lane(std::uint32_t lane, std::uint32_t step, std::uint32_t tile, std::uint32_t fifo, int wait) {
  if (lanes_.size() == kReported) {
    ++more_lanes_;
    return;
  }
  std::string text = machine_.where(lane, step, tile);
  if (wait == 0) text += " waits for its turn to be resident";
  if (wait == 1) {
    const FifoEnd& source = machine_.fifos()[fifo].source;
    text += fmt::format(" waits for a message of rank {} lane {}", source.peer, source.lane);
  }
  if (wait == 2) text += fmt::format(" waits for a free slot to rank {}", machine_.fifos()[fifo].receiver);
  lanes_.push_back(std::move(text));
}

void StuckReport::add_fifo(std::uint32_t fifo, std::uint32_t messages) {
  if (fifos_.size() == kReported) {
    ++more_fifos_;
    return;
  }
  const MachineFifo& fixed = machine_.fifos()[fifo];
  fifos_.push_back(fmt::format("{} from rank {} lane {} to rank {}", messages, fixed.source.peer, fixed.source.lane,
                               fixed.receiver));
}

std::string StuckReport::text() const {
  std::string text = fmt::format("{}", fmt::join(lanes_, "; "));
  if (more_lanes_ > 0) text += fmt::format("; and {} more lanes", more_lanes_);
  if (fifos_.empty()) return text;
  if (!text.empty()) text += "; ";
  text += fmt::format("messages nobody took: {}", fmt::join(fifos_, ", "));
  if (more_fifos_ > 0) text += fmt::format(", and on {} more FIFOs", more_fifos_);
  return text;
}

}  // namespace wreath
