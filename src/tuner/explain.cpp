// Explains why a call gets its plan: what is chosen, what else there is, and how long each takes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "src/base/cpu.hpp"
#include "src/tuner/model.hpp"
#include "src/tuner/ring.hpp"
#include "src/tuner/tuner.hpp"
#include "wreath/overrides.hpp"
#include "wreath/tuning.hpp"

namespace wreath {
namespace {

constexpr std::array<std::size_t, 4> kExplainedTiles{16 << 10, 64 << 10, 256 << 10, 512 << 10};

struct Point {
  double bytes;
  double time_us;
};

// Returns the time on the line through the neighbours of `bytes`, both axes by ratio; nothing beyond the points.
std::optional<double> time_at(std::vector<Point> points, std::size_t bytes) {
  const auto at = static_cast<double>(std::max<std::size_t>(1, bytes));
  std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.bytes < b.bytes; });
  const auto after =
      std::lower_bound(points.begin(), points.end(), at, [](const Point& p, double b) { return p.bytes < b; });
  if (after == points.end()) return std::nullopt;
  if (after->bytes == at) return after->time_us;
  if (after == points.begin()) return std::nullopt;
  const Point& before = *std::prev(after);
  const double way = std::log(at / before.bytes) / std::log(after->bytes / before.bytes);
  return before.time_us * std::pow(after->time_us / before.time_us, way);
}

// Returns whether an entry of a tuning is about such calls.
template <typename Entry>
bool about(const Entry& entry, const PlanQuestion& question) {
  return entry.collective == question.collective && entry.ranks == question.ranks && entry.wire == question.wire;
}

// Returns whether two tiles are alike: tiles that a message fits into are one.
bool same_tile(std::size_t a, std::size_t b, std::size_t bytes) {
  const auto whole = [&](std::size_t tile) { return tile == 0 || tile >= bytes; };
  return a == b || (whole(a) && whole(b));
}

std::optional<double> measured_us(const PlanQuestion& question, const Tuning& tuning, const Choice& choice) {
  const std::size_t tile_bytes = choice.small ? 0 : choice.tile_bytes;
  std::vector<Point> points;
  for (const TuningTime& time : tuning.times) {
    if (about(time, question) && time.device == question.device && time.algorithm == choice.algorithm->name &&
        same_tile(time.tile_bytes, tile_bytes, time.bytes)) {
      points.push_back({static_cast<double>(time.bytes), time.time_us});
    }
  }
  return time_at(std::move(points), question.bytes);
}

std::optional<double> limit_us(const PlanQuestion& question, const Tuning& tuning) {
  if (question.device) return std::nullopt;  // limits are the host's
  std::vector<Point> points;
  for (const TuningLimit& limit : tuning.limits) {
    if (about(limit, question)) points.push_back({static_cast<double>(limit.bytes), limit.time_us});
  }
  return time_at(std::move(points), question.bytes);
}

// Returns the ranks of a call and their cores. Ranks that map each other's memory share the cores of this host. Ranks
// that a wire links are on hosts of their own, of which nothing is known: each has a core.
HostRanks host_of(const PlanQuestion& question) {
  return {question.ranks, question.wire.empty() ? usable_cores() : question.ranks};
}

class Explainer {
 public:
  Explainer(const PlanQuestion& question, const Tuning& tuning)
      : question_(question),
        tuning_(tuning),
        model_(link_model(question.wire.empty(), question.ranks, host_of(question).cores, question.bytes)) {}

  PlanCandidate candidate(const Choice& choice) const {
    PlanCandidate candidate;
    candidate.algorithm = choice.algorithm;
    candidate.tile_bytes = choice.tile_bytes;
    candidate.data_lanes = choice.data_lanes;
    candidate.small = choice.small;
    if (const auto us = predict(choice)) candidate.predicted_us = *us;
    candidate.measured_us = measured_us(question_, tuning_, choice);
    return candidate;
  }

  // Returns the row with its best tile: by measurement where there is one, else by prediction.
  PlanCandidate best_tile(const Algorithm& row) const {
    const auto time = [](const PlanCandidate& c) { return c.measured_us.value_or(c.predicted_us.value_or(INFINITY)); };
    std::optional<PlanCandidate> best;
    for (const std::size_t tile : kExplainedTiles) {
      const PlanCandidate next = candidate({.algorithm = &row, .tile_bytes = tile});
      const bool first = !best || (next.measured_us && !best->measured_us);
      const bool comparable = next.measured_us.has_value() == (best && best->measured_us.has_value());
      if (first || (comparable && time(next) < time(*best))) best = next;
    }
    return *best;
  }

 private:
  // Predicts the time by the model, which is of hosts.
  Result<double> predict(const Choice& choice) const {
    if (question_.device) return Error{ErrorCode::Unavailable, "nothing is known of GPUs"};
    if (!question_.predictable) return Error{ErrorCode::Unavailable, "nothing is known of such links"};
    if (question_.ranks > kMostPredictedRanks) {
      return Error{ErrorCode::Unavailable,
                   fmt::format("calls of more than {} ranks are not simulated here", kMostPredictedRanks)};
    }
    return predict_us(choice, question_.ranks, question_.bytes, model_);
  }

  const PlanQuestion& question_;
  const Tuning& tuning_;
  FlatModel model_;
};

Status check(const PlanQuestion& question) {
  if (question.ranks >= 1 && question.collective != Collective::Exchange) return {};
  return Error{ErrorCode::InvalidArgument,
               fmt::format("{} of {} ranks has no plan", name(question.collective), question.ranks)};
}

}  // namespace

Result<PlanExplanation> explain_plan(const PlanQuestion& question, const Tuning* tuning) {
  WREATH_TRY(check(question));
  TunerContext context = plain_context(question.ranks, question.wire, question.reproducible);
  const HostRanks host = host_of(question);
  context.crowded = host.crowded();
  context.gpus = question.device;
  const std::size_t ring = ring_bytes(host, Overrides().slot_count * kLargestTile);
  const bool shared_memory = context.all_mapped() && !question.device;
  const bool ping_pong = shared_memory && fills_ping_pong(cpu_vendor(), host);
  if (ping_pong) context.ping_pong = PairSizes::of(cpu_vendor(), cache_sizes());
  SingleCopy single_copy;
  if (shared_memory) single_copy = SingleCopy::of_machine(cpu_vendor(), {host.crowded(), false, context.ping_pong});
  context.single_copy = single_copy.possible();
  context.small = small_limits(question.ranks, ring, ping_pong);
  const Tuning nothing;
  const Tuning& known = tuning != nullptr ? *tuning : nothing;
  auto measured = MeasuredRules::of(known, question.reproducible);
  if (!measured) return measured.error();
  context.measured = *std::move(measured);
  const Query query{.collective = question.collective, .bytes = question.bytes};
  const Choice choice = choose(context, query);
  if (choice.algorithm == nullptr) return no_row(context, query);
  const Explainer explainer(question, known);
  PlanExplanation explanation;
  if (shared_memory) explanation.ring_bytes = ring;
  explanation.ping_pong = ping_pong;
  const SingleCopyRule copied = single_copy.rule(question.collective);
  explanation.copied_above_bytes = copied.least_bytes > 0 ? copied.least_bytes - 1 : 0;
  explanation.copied_to_bytes = copied.call_bytes;
  explanation.chosen = explainer.candidate(choice);
  explanation.tuned = measured_rule(context, query) != nullptr;
  explanation.limit_us = limit_us(question, known);
  for (const Algorithm& row : algorithms()) {
    if (row.collective != question.collective || &row == choice.algorithm) continue;
    std::string refusal = why_not(context, row, query);
    const bool serves = row.supports({row.collective, question.ranks, 0});
    PlanCandidate other;
    other.algorithm = &row;
    if (serves) other = explainer.best_tile(row);
    other.refusal = std::move(refusal);
    explanation.others.push_back(std::move(other));
  }
  return explanation;
}

}  // namespace wreath
