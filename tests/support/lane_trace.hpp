// Compares a trace with the schedule that lanes had to run.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "src/executor/trace.hpp"
#include "src/schedule/geometry.hpp"
#include "src/schedule/lower.hpp"
#include "src/schedule/show.hpp"
#include "src/schedule/step.hpp"

namespace wreath::test {

// Describes one tile of a step.
struct Traced {
  std::uint16_t lane;
  std::uint32_t step;
  std::uint32_t tile;
  StepOp op;
  auto operator<=>(const Traced&) const = default;

  std::string text() const {
    return std::string(name(op)) + " (lane " + std::to_string(lane) + ", step " + std::to_string(step) + ", tile " +
           std::to_string(tile) + ")";
  }
};

// Returns the tiles with elements of one lane's steps, in their order.
inline std::vector<Traced> scheduled(const Lowered& program, const LoweredLane& lane, const Geometry& geometry) {
  std::vector<Traced> all;
  const auto add = [&](std::uint32_t index, std::uint32_t tile) {
    const Step& step = program.steps[lane.first_step + index];
    const bool sent = step.op == StepOp::Send;
    std::uint64_t elements = 0;
    for (std::uint32_t i = 0; i < step.chunks; ++i) {
      const std::uint32_t part = part_of(program, step, sent ? step.source_part : step.target_part, i);
      elements += geometry.range(sent ? step.source_buffer : step.target_buffer, part, lane.data_lane, tile).count;
    }
    if (elements > 0) all.push_back({lane.number, index, tile, step.op});
  };
  const std::uint32_t outer = program.step_major ? lane.step_count : geometry.tiles;
  const std::uint32_t inner = program.step_major ? geometry.tiles : lane.step_count;
  for (std::uint32_t i = 0; i < outer; ++i) {
    for (std::uint32_t j = 0; j < inner; ++j) program.step_major ? add(i, j) : add(j, i);
  }
  return all;
}

// Returns the place where the trace of one call differs from the schedule; empty where it does not. The halves of a
// fused step count once. Lanes of the same number, such as an exchange's, cannot be distinguished, so their order is
// not compared.
inline std::string differs(const StepTrace& trace, const Lowered& program, const Geometry& geometry) {
  std::vector<Traced> wanted;
  bool ordered = true;
  for (const LoweredLane& lane : program.lanes) {
    const std::vector<Traced> steps = scheduled(program, lane, geometry);
    ordered = ordered && (wanted.empty() || wanted.back().lane != lane.number);
    wanted.insert(wanted.end(), steps.begin(), steps.end());
  }
  std::vector<Traced> found;
  for (const StepEvent& event : trace.events()) found.push_back({event.lane, event.step, event.tile, event.op});
  std::stable_sort(found.begin(), found.end(), [](const Traced& a, const Traced& b) { return a.lane < b.lane; });
  if (!ordered) {
    std::sort(found.begin(), found.end());
    std::sort(wanted.begin(), wanted.end());
  } else {
    found.erase(std::unique(found.begin(), found.end()), found.end());
  }
  for (std::size_t i = 0; i < std::max(found.size(), wanted.size()); ++i) {
    if (i < found.size() && i < wanted.size() && found[i] == wanted[i]) continue;
    return (i < found.size() ? found[i].text() : "nothing") + " where the schedule has " +
           (i < wanted.size() ? wanted[i].text() : "nothing");
  }
  return {};
}

}  // namespace wreath::test
