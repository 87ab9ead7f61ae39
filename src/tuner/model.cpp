// Holds constants of links and makes predictions.
#include "src/tuner/model.hpp"

#include <algorithm>
#include <cmath>

namespace wreath {
namespace {

constexpr std::uint64_t kSimulatedTiles = 16;  // of each part, that are simulated
constexpr std::uint32_t kSlots = 4;            // Overrides::slot_count

// Holds speeds of calls that stay in the caches, and of calls that leave them.
struct LinkConstants {
  double latency_us;
  double message_us;
  double cached_copy_gb_s, copy_gb_s;
  // These are speeds of sources.
  double cached_reduction_gb_s, reduction_gb_s;
  double cached_bandwidth_gb_s, bandwidth_gb_s;
  // Adds to the latency where ranks share a core: the other one has to run first.
  double crowded_us;
};

// Readers of mapped memory copy or reduce: nothing is on the way.
constexpr double kNoWire = 1e6;
constexpr LinkConstants kMappedLink{.latency_us = 0.35,
                                    .message_us = 0.05,
                                    .cached_copy_gb_s = 22,
                                    .copy_gb_s = 9,
                                    .cached_reduction_gb_s = 24,
                                    .reduction_gb_s = 11.5,
                                    .cached_bandwidth_gb_s = kNoWire,
                                    .bandwidth_gb_s = kNoWire,
                                    .crowded_us = 4};
constexpr LinkConstants kWireLink{.latency_us = 3,
                                  .message_us = 0.8,
                                  .cached_copy_gb_s = 25,
                                  .copy_gb_s = 12,
                                  .cached_reduction_gb_s = 25,
                                  .reduction_gb_s = 16,
                                  .cached_bandwidth_gb_s = 7,
                                  .bandwidth_gb_s = 3.6,
                                  .crowded_us = 12};
constexpr double kCachedBytes = 512 * 1024;
constexpr double kMemoryBytes = 4 * 1024 * 1024;

// Returns a speed between the two, along the logarithm of the size.
double speed(double cached, double memory, std::size_t bytes) {
  const double way =
      std::log2(std::max(1.0, static_cast<double>(bytes)) / kCachedBytes) / std::log2(kMemoryBytes / kCachedBytes);
  return cached * std::pow(memory / cached, std::clamp(way, 0.0, 1.0));
}

Result<double> simulated_us(const Choice& choice, int ranks, std::uint64_t bytes, const FlatModel& model) {
  const Problem problem{choice.algorithm->collective, ranks, 0};
  PlanShape shape{.bytes = bytes, .tile_bytes = choice.tile_bytes, .data_lanes = choice.data_lanes};
  if (bytes < shape.element_bytes * static_cast<std::uint64_t>(ranks)) {
    shape.element_bytes = 1;
    shape.bytes = std::max(bytes, static_cast<std::uint64_t>(ranks));
  }
  VerifyOptions point = point_of(problem, shape);
  point.slots = kSlots;
  const Result<Simulated> simulated = simulate(*choice.algorithm, problem, point, model);
  if (!simulated) return simulated.error();
  return simulated->time_us;
}

}  // namespace

FlatModel link_model(bool mapped, int ranks, int cores, std::size_t bytes) {
  const LinkConstants& link = mapped ? kMappedLink : kWireLink;
  const double share = std::max(1.0, static_cast<double>(ranks) / std::max(1, cores));
  FlatModel model;
  model.staged = true;
  model.one_core = true;
  model.latency_us = link.latency_us + (share > 1 ? link.crowded_us : 0);
  model.message_us = link.message_us * share;
  model.copy_gb_s = speed(link.cached_copy_gb_s, link.copy_gb_s, bytes) / share;
  model.reduction_gb_s = speed(link.cached_reduction_gb_s, link.reduction_gb_s, bytes) / share;
  model.bandwidth_gb_s = speed(link.cached_bandwidth_gb_s, link.bandwidth_gb_s, bytes) / share;
  return model;
}

Result<double> predict_us(const Choice& choice, int ranks, std::size_t bytes, const FlatModel& model) {
  const std::uint64_t most = kSimulatedTiles * choice.tile_bytes * static_cast<std::uint64_t>(std::max(1, ranks)) *
                             static_cast<std::uint64_t>(std::max(1, choice.data_lanes));
  if (bytes <= most) return simulated_us(choice, ranks, bytes, model);
  const Result<double> half = simulated_us(choice, ranks, most / 2, model);
  const Result<double> whole = simulated_us(choice, ranks, most, model);
  if (!half || !whole) return half ? whole.error() : half.error();
  const double us_per_byte = (*whole - *half) / (static_cast<double>(most) - static_cast<double>(most / 2));
  return *whole + us_per_byte * static_cast<double>(bytes - most);
}

}  // namespace wreath
