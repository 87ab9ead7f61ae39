// Prints steps and schedules.
#include "src/schedule/show.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "src/schedule/lower.hpp"
#include "src/schedule/meaning.hpp"
#include "src/schedule/shapes.hpp"
#include "wreath/plan.hpp"

namespace wreath {
namespace {

// Returns "output[3]", "partial[0: 3]" with the slot, or "scratch[1..2: 5, 7]" for several chunks.
std::string chunks(const Lowered& program, const Step& step, Buffer buffer, std::uint32_t part, std::uint16_t slot) {
  std::string parts;
  for (std::uint32_t i = 0; i < step.chunks; ++i) {
    parts += fmt::format("{}{}", i == 0 ? "" : ", ", part_of(program, step, part, i));
  }
  if (!is_lanes_own(buffer)) return fmt::format("{}[{}]", name(buffer), parts);
  const std::string slots =
      step.chunks > 1 ? fmt::format("{}..{}", slot, slot + step.chunks - 1) : std::to_string(slot);
  return fmt::format("{}[{}: {}]", name(buffer), slots, parts);
}

// Returns "1, 2.0, 5..7": ranks, with runs of ranks as a range, and RANK.LANE where the lane is not `own`.
std::string ends(std::span<const FifoEnd> list, std::uint16_t own) {
  std::string text;
  for (std::size_t i = 0; i < list.size();) {
    std::size_t end = i + 1;
    while (end < list.size() && list[end].lane == list[i].lane && list[end].peer == list[end - 1].peer + 1) ++end;
    if (end - i == 2) end = i + 1;
    if (!text.empty()) text += ", ";
    text += std::to_string(list[i].peer);
    if (end - i > 2) text += fmt::format("..{}", list[end - 1].peer);
    if (list[i].lane != own) text += fmt::format(".{}", list[i].lane);
    i = end;
  }
  return text;
}

std::string range_text(const Geometry& geometry, Buffer buffer, std::uint32_t part, std::uint16_t data_lane) {
  const std::uint64_t count = geometry.elements(buffer, part, data_lane);
  if (count == 0) return "no elements";
  const std::uint64_t first = geometry.range(buffer, part, data_lane, 0).first;
  const std::uint64_t tiles = divide_up(count, geometry.tile);
  const std::string in_tiles = tiles == 1 ? "" : fmt::format(" in {} tiles", tiles);
  if (is_lanes_own(buffer)) return fmt::format("{} elements{}", count, in_tiles);
  return fmt::format("elements {}..{}{}", first, first + count - 1, in_tiles);
}

std::string range_text(const Lowered& program, const Geometry& geometry, const Step& step, std::uint16_t data_lane) {
  const bool target = has_first_part(step.op);
  const Buffer buffer = target ? step.target_buffer : step.source_buffer;
  const std::uint32_t first = target ? step.target_part : step.source_part;
  std::string text;
  for (std::uint32_t i = 0; i < step.chunks; ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : "; ",
                        range_text(geometry, buffer, part_of(program, step, first, i), data_lane));
  }
  return text;
}

}  // namespace

std::string_view name(StepOp op) noexcept {
  switch (op) {
    case StepOp::Send: return "send";
    case StepOp::Recv: return "recv";
    case StepOp::RecvReduce: return "recv_reduce";
    case StepOp::LoadReduce: return "load_reduce";
    case StepOp::Copy: return "copy";
    case StepOp::Reduce: return "reduce";
    case StepOp::RecvSend: return "recv_send";
    case StepOp::RecvReduceSend: return "recv_reduce_send";
    case StepOp::LoadReduceSend: return "load_reduce_send";
  }
  return "unknown";
}

std::string_view name(Buffer buffer) noexcept {
  switch (buffer) {
    case Buffer::Input: return "input";
    case Buffer::Output: return "output";
    case Buffer::Scratch: return "scratch";
    case Buffer::Partial: return "partial";
  }
  return "unknown";
}

std::string show(const Lowered& program, const Step& step, std::uint16_t lane) {
  const std::string source = chunks(program, step, step.source_buffer, step.source_part, step.source_slot);
  const std::string target = chunks(program, step, step.target_buffer, step.target_part, step.target_slot);
  const std::string in = ends(std::span(program.sources).subspan(step.in_first, step.in_count), lane);
  const std::string out = ends(std::span(program.targets).subspan(step.out_first, step.out_count), lane);
  std::string text;
  const std::string_view message = (step.flags & kPartialIncoming) != 0 ? "partial message" : "message";
  switch (first_part(step.op)) {
    case StepOp::Send: text = fmt::format("{} to {}", source, out); break;
    case StepOp::Recv: text = fmt::format("{} = {} of {}", target, message, in); break;
    case StepOp::RecvReduce: text = fmt::format("{} = {} + {} of {}", target, source, message, in); break;
    case StepOp::LoadReduce: text = fmt::format("{} = sum of {} and {}s of {}", target, source, message, in); break;
    case StepOp::Copy: text = fmt::format("{} = {}", target, source); break;
    default: text = fmt::format("{} = {} + {}", target, target, source);
  }
  if (has_first_part(step.op) && has_send(step.op)) text += fmt::format("; send to {}", out);
  if ((step.flags & kStaged) != 0) text += "  (staged)";
  if ((step.flags & kTargetDead) != 0) text += "  (target dead)";
  if ((step.flags & kLands) != 0) text += "  (lands)";
  return fmt::format("{:<17} {}", name(step.op), text);
}

std::string show(const Lowered& program, Rank me, const Geometry& geometry) {
  std::vector<std::string> lines;
  std::size_t width = 0;
  for (const LoweredLane& lane : program.lanes) {
    for (std::uint32_t i = 0; i < lane.step_count; ++i) {
      lines.push_back(show(program, program.steps[lane.first_step + i], lane.number));
      width = std::max(width, lines.back().size());
    }
  }
  std::string text;
  std::size_t next = 0;
  for (const LoweredLane& lane : program.lanes) {
    text += fmt::format("rank {} lane {} (share {} of every part), {} steps x {} tiles\n", me, lane.number,
                        lane.data_lane, lane.step_count, geometry.tiles);
    for (std::uint32_t i = 0; i < lane.step_count; ++i) {
      const Step& step = program.steps[lane.first_step + i];
      text += fmt::format("  {:>3}  {:<{}}  {}\n", i, lines[next++], width,
                          range_text(program, geometry, step, lane.data_lane));
    }
  }
  return text;
}

VerifyOptions point_of(const Problem& problem, const PlanShape& shape) {
  VerifyOptions point;
  const std::uint64_t blocks = moves_blocks(problem.collective) ? static_cast<unsigned>(problem.ranks) : 1;
  point.count = shape.element_bytes == 0 ? 0 : shape.bytes / shape.element_bytes / blocks;
  point.element_bytes = shape.element_bytes;
  point.tile_bytes = shape.tile_bytes;
  point.data_lanes = shape.data_lanes;
  return point;
}

Result<std::string> show_plan(const Algorithm& algorithm, const Problem& problem, Rank rank, const PlanShape& shape) {
  const auto invalid = [](std::string message) { return Error{ErrorCode::InvalidArgument, std::move(message)}; };
  if (problem.ranks < 1 || !algorithm.supports(problem)) {
    return invalid(fmt::format("{} does not support {} ranks", algorithm.name, problem.ranks));
  }
  if (rank < 0 || rank >= problem.ranks)
    return invalid(fmt::format("rank {}: there are {} ranks, from 0", rank, problem.ranks));
  if (shape.element_bytes == 0) return invalid("elements of 0 bytes");
  Result<Lowered> program =
      lower(algorithm.build(problem, rank), rank, shape.data_lanes, has_in_place(algorithm.collective));
  if (!program) return program.error();
  const Shapes shapes({algorithm.collective, problem.ranks, algorithm.traits, program->parts, program->data_lanes},
                      point_of(problem, shape));
  return show(*program, rank, shapes[rank]);
}

}  // namespace wreath
