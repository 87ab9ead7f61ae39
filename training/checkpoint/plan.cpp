// This file makes plans from the descriptions that all ranks send of their pieces.
#include "training/checkpoint/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/planted_fault.hpp"
#include "training/checkpoint/header_text.hpp"

namespace wreath::training {

namespace {

// The description of a piece, without its values, for other ranks.
struct Outline {
  Parameter parameter;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  int rank = 0;
};

nlohmann::json ranges_json(std::span<const Range> ranges) {
  nlohmann::json json = nlohmann::json::array();
  for (const Range& range : ranges) json.push_back({range.begin, range.count});
  return json;
}

std::string describe(std::span<const Piece> pieces) {
  nlohmann::json json = nlohmann::json::array();
  for (const Piece& piece : pieces) {
    const Parameter& parameter = *piece.parameter;
    json.push_back({parameter.name, parameter.shape, parameter.sharded_axis, ranges_json(parameter.ranges), piece.begin,
                    piece.value.size()});
  }
  return json.dump();
}

std::vector<Outline> outlines_of(const std::string& text, int rank) {
  std::vector<Outline> outlines;
  for (const nlohmann::json& item : nlohmann::json::parse(text)) {
    Outline outline;
    outline.parameter.name = item.at(0);
    outline.parameter.shape = item.at(1).get<std::vector<std::int64_t>>();
    outline.parameter.sharded_axis = item.at(2);
    for (const nlohmann::json& range : item.at(3)) outline.parameter.ranges.push_back({range.at(0), range.at(1)});
    outline.begin = item.at(4);
    outline.count = item.at(5);
    outline.rank = rank;
    outlines.push_back(std::move(outline));
  }
  return outlines;
}

bool same_ranges(const Parameter& a, const Parameter& b) {
  return a.sharded_axis == b.sharded_axis && std::equal(a.ranges.begin(), a.ranges.end(), b.ranges.begin(),
                                                        b.ranges.end(), [](const Range& first, const Range& second) {
                                                          return first.begin == second.begin &&
                                                                 first.count == second.count;
                                                        });
}

// Returns whether two outlines share no element, as far as it is known without listing runs.
bool surely_apart(const Outline& a, const Outline& b) {
  if (a.parameter.sharded_axis != b.parameter.sharded_axis || a.parameter.sharded_axis < 0) {
    return a.parameter.sharded_axis < 0 && b.parameter.sharded_axis < 0 &&
           (a.begin + a.count <= b.begin || b.begin + b.count <= a.begin);
  }
  if (same_ranges(a.parameter, b.parameter)) return a.begin + a.count <= b.begin || b.begin + b.count <= a.begin;
  for (const Range& first : a.parameter.ranges) {
    for (const Range& second : b.parameter.ranges) {
      if (first.begin < second.begin + second.count && second.begin < first.begin + first.count) return false;
    }
  }
  return true;
}

// Returns the runs of the outline, by place in the whole parameter. Runs that continue each other are one.
std::vector<Run> runs_of(const Outline& outline) {
  std::vector<Run> runs;
  for_each_run(outline.parameter, [&](const Run& run) {
    const std::int64_t begin = std::max(run.local, outline.begin);
    const std::int64_t end = std::min(run.local + run.count, outline.begin + outline.count);
    if (begin >= end) return;
    runs.push_back({begin - outline.begin, run.global + begin - (planted_fault(20) ? begin : run.local), end - begin});
  });
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.global < b.global; });
  std::vector<Run> joined;
  for (const Run& run : runs) {
    const bool goes_on = !joined.empty() && joined.back().global + joined.back().count == run.global &&
                         joined.back().local + joined.back().count == run.local;
    goes_on ? static_cast<void>(joined.back().count += run.count) : joined.push_back(run);
  }
  return joined;
}

// Returns `runs` without the elements that `others` hold; both are by place.
std::vector<Run> without(const std::vector<Run>& runs, const std::vector<Run>& others) {
  std::vector<Run> left;
  auto other = others.begin();
  for (Run run : runs) {
    while (other != others.end() && other->global + other->count <= run.global) ++other;
    for (auto next = other; next != others.end() && next->global < run.global + run.count; ++next) {
      if (next->global > run.global) left.push_back({run.local, run.global, next->global - run.global});
      const std::int64_t gone = std::min(next->global + next->count - run.global, run.count);
      run = {run.local + gone, run.global + gone, run.count - gone};
    }
    if (run.count > 0) left.push_back(run);
  }
  return left;
}

std::int64_t count_of(const std::vector<Run>& runs) {
  std::int64_t count = 0;
  for (const Run& run : runs) count += run.count;
  return count;
}

Error wrong_parameter(const std::string& name, const std::string& what) {
  return {ErrorCode::InvalidArgument, fmt::format("checkpoint: parameter {}: {}", in_quotes(name), what)};
}

Status check_piece(const Piece& piece) {
  if (piece.parameter == nullptr) return Error{ErrorCode::InvalidArgument, "checkpoint: a piece has no parameter"};
  const Parameter& parameter = *piece.parameter;
  if (parameter.sharded_axis >= static_cast<int>(parameter.shape.size())) {
    return wrong_parameter(parameter.name, fmt::format("it has no axis {}", parameter.sharded_axis));
  }
  if (!bytes_of(TensorType::F32, parameter.shape)) return wrong_parameter(parameter.name, "its shape is impossible");
  for (const Range& range : parameter.ranges) {
    if (range.begin < 0 || range.count < 0) return wrong_parameter(parameter.name, "it holds a negative range");
  }
  const auto count = static_cast<std::int64_t>(piece.value.size());
  if (piece.begin < 0 || count > parameter.local_count() - piece.begin) {
    return wrong_parameter(parameter.name, fmt::format("a piece of {} elements from {} on, of {} held", count,
                                                       piece.begin, parameter.local_count()));
  }
  return {};
}

using Outlines = std::map<std::string, std::vector<Outline>>;  // by tensor

// Returns the outlines of all ranks.
Result<Outlines> exchange(Agreement& ranks, std::span<const Piece> pieces) {
  std::string text;
  const Status described = guarded([&]() -> Status {
    for (const Piece& piece : pieces) WREATH_TRY(check_piece(piece));
    text = describe(pieces);
    return {};
  });
  WREATH_TRY(ranks.agree(described));
  const Result<std::vector<std::string>> texts = ranks.gather(text);
  if (!texts) return texts.error();
  Outlines outlines;
  for (std::size_t rank = 0; rank < texts->size(); ++rank) {
    for (Outline& outline : outlines_of((*texts)[rank], static_cast<int>(rank))) {
      std::vector<Outline>& alike = outlines[outline.parameter.name];
      if (!alike.empty() && alike.front().parameter.shape != outline.parameter.shape) {
        return Error{ErrorCode::Mismatch,
                     fmt::format("checkpoint: parameter {} has shape [{}] on rank {}, [{}] on rank {}",
                                 in_quotes(outline.parameter.name), fmt::join(alike.front().parameter.shape, ", "),
                                 alike.front().rank, fmt::join(outline.parameter.shape, ", "), rank)};
      }
      alike.push_back(std::move(outline));
    }
  }
  return outlines;
}

// Returns the plan of the pieces' own runs.
ShardPlan held_by(const Outlines& outlines, std::span<const Piece> pieces) {
  ShardPlan plan;
  std::map<std::string, std::size_t> index;
  for (const auto& [name, alike] : outlines) {
    index[name] = plan.tensors.size();
    plan.tensors.push_back({name, alike.front().parameter.shape});
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Outline outline{*pieces[i].parameter, pieces[i].begin, static_cast<std::int64_t>(pieces[i].value.size()), 0};
    plan.held.push_back({i, index.at(outline.parameter.name), runs_of(outline)});
    plan.count += count_of(plan.held.back().runs);
  }
  return plan;
}

// Returns whether `other`, and not rank `rank`, writes the elements of tensor `tensor` that both hold.
bool goes_first(int other, int rank, std::size_t tensor, int ranks) {
  const auto place = [&](int r) { return (static_cast<std::size_t>(r) + tensor) % static_cast<std::size_t>(ranks); };
  return place(other) < place(rank);
}

Status check_coverage(Agreement& ranks, const ShardPlan& plan) {
  std::vector<std::int64_t> written(plan.tensors.size());
  for (const PieceRuns& piece : plan.held) written[piece.tensor] += count_of(piece.runs);
  WREATH_TRY(ranks.sum(written));
  for (std::size_t i = 0; i < written.size(); ++i) {
    Parameter whole;
    whole.shape = plan.tensors[i].shape;
    const std::int64_t missing = whole.count() - written[i];
    if (missing > 0) {
      return wrong_parameter(plan.tensors[i].name,
                             fmt::format("no rank holds {} of its {} elements", missing, whole.count()));
    }
    if (missing < 0) return wrong_parameter(plan.tensors[i].name, "two pieces of a rank hold the same elements");
  }
  return {};
}

}  // namespace

Result<ShardPlan> plan_load(Agreement& ranks, std::span<const Piece> pieces) {
  const Result<Outlines> outlines = exchange(ranks, pieces);
  if (!outlines) return outlines.error();
  return held_by(*outlines, pieces);
}

Result<ShardPlan> plan_save(Agreement& ranks, std::span<const Piece> pieces) {
  const Result<Outlines> outlines = exchange(ranks, pieces);
  if (!outlines) return outlines.error();
  ShardPlan plan = held_by(*outlines, pieces);
  plan.count = 0;
  for (PieceRuns& held : plan.held) {
    const Piece& piece = pieces[held.piece];
    const Outline mine{*piece.parameter, piece.begin, static_cast<std::int64_t>(piece.value.size()), ranks.rank()};
    for (const Outline& other : outlines->at(mine.parameter.name)) {
      const bool first = goes_first(other.rank, mine.rank, held.tensor, ranks.ranks());
      if (first && !held.runs.empty() && !surely_apart(mine, other)) held.runs = without(held.runs, runs_of(other));
    }
    plan.count += count_of(held.runs);
  }
  WREATH_TRY(check_coverage(ranks, plan));
  return plan;
}

}  // namespace wreath::training
