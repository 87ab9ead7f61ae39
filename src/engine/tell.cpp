// WREATH_DEBUG=INFO shows this of a communicator: the machine, the links, and each choice with its reason.
#include <fmt/format.h>

#include "src/base/cpu.hpp"
#include "src/base/log.hpp"
#include "src/engine/engine.hpp"
#include "src/executor/handwritten/handwritten.hpp"
#include "wreath/topology.hpp"
#include "wreath/units.hpp"

namespace wreath {

void Engine::tell_start() const {
  if (log_level() < LogLevel::Info) return;
  const Topology topology = read_topology();
  log_info("topology: {}; this process {}", machine_text(topology), process_text(topology));
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer != rank()) log_info("to rank {}: {}", peer, links_->describe(peer));
  }
  const HostRanks host = own_host();
  const IdlePolicy& idle = driver_.idle_policy();
  const bool follows = idle.spin_ns(std::numeric_limits<std::int64_t>::max()) > idle.spin_ns();
  log_info("waits spin {} us{}, then sleep: {} ranks on this host, {} cores for them", idle.spin_ns() / 1000,
           follows ? " or as long as their call has worked" : "", host.ranks, host.cores);
  if (options_.overrides.executor == kHandwrittenExecutor) {
    log_info("algorithms that have a handwritten loop run by it, the others by their steps");
  }
  log_info(
      "slots: {} x {} to each peer and lane, and {} x {} for sends to peers that map them; messages above {} and up to "
      "{} use {} of those that peers map in turn",
      shape_.slot_count, format_bytes(shape_.slot_bytes), shape_.slot_count,
      format_bytes(shape_.mapped_slot_bytes(kExchangeLane)), format_bytes(kStoreBufferBytes),
      format_bytes(kMostRingMessageBytes), format_bytes(shape_.ring_bytes));
}

std::string Engine::plan_text(const Query& query, const Choice& choice) const {
  if (undriven_ != nullptr) {
    std::string own = undriven_->plan_text(query);
    if (!own.empty()) return own;
  }
  const bool by_hand = options_.overrides.executor == kHandwrittenExecutor && choice.algorithm != nullptr &&
                       !choice.small &&
                       handwritten_loop(query.collective, choice.algorithm->name) != HandwrittenLoop::None;
  return describe(choice) + (by_hand ? " executor=handwritten" : "");
}

// Logs each choice once.
void Engine::tell_choice(const Query& query, const Choice& choice) {
  if (log_level() < LogLevel::Info || ranks() == 1) return;
  const std::string text = fmt::format("{} by {}", name(query.collective, query.varying), plan_text(query, choice));
  if (!choices_.is_news(text)) return;
  const LogRank log_rank(rank());
  const std::string bytes = query.bytes == kUnknownBytes ? "blocks that differ" : format_bytes(query.bytes);
  log_info("{}: {}; first for {}", text, why(tuning(), query), bytes);
}

}  // namespace wreath
