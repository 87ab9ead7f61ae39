// Messages become tables and lanes here.
#include "src/engine/exchange.hpp"

#include <algorithm>
#include <span>

namespace wreath {
namespace {

std::uintptr_t address(const ExchangeMessage& message) { return reinterpret_cast<std::uintptr_t>(message.data); }

// A Builder appends lanes and steps to a Lowered whose vectors were cleared.
class Builder {
 public:
  Builder(const ExchangeMessages& messages, Lowered& lowered) : messages_(messages), lowered_(lowered) {}

  // Adds a lane of the messages of one direction, which are to or from one peer.
  void add_lane(Direction direction, std::span<const ExchangePlan::Place> places) {
    const bool sends = direction == Direction::Send;
    std::vector<FifoEnd>& ends = sends ? lowered_.targets : lowered_.sources;
    const auto end = static_cast<std::uint16_t>(ends.size());
    ends.push_back({messages_.of(direction)[places.front().part].peer, kExchangeLane});
    begin_lane();
    for (const ExchangePlan::Place& place : places) {
      Step& step = add_step(sends ? StepOp::Send : StepOp::Recv);
      (sends ? step.source_part : step.target_part) = place.part;
      (sends ? step.out_first : step.in_first) = end;
      (sends ? step.out_count : step.in_count) = 1;
    }
  }

  // Adds what the rank sends itself: as many sends as receives.
  void add_copies(std::span<const ExchangePlan::Place> sends, std::span<const ExchangePlan::Place> receives) {
    begin_lane();
    lowered_.lanes.back().local = true;
    for (std::size_t i = 0; i < sends.size(); ++i) {
      Step& step = add_step(StepOp::Copy);
      step.source_part = sends[i].part;
      step.target_part = receives[i].part;
    }
  }

 private:
  void begin_lane() {
    lowered_.lanes.push_back({static_cast<std::uint32_t>(lowered_.steps.size()), 0, kExchangeLane, 0});
  }
  Step& add_step(StepOp op) {
    Step& step = lowered_.steps.emplace_back();
    step.op = op;
    step.source_buffer = op == StepOp::Recv ? Buffer::Output : Buffer::Input;
    step.target_buffer = op == StepOp::Send ? Buffer::Input : Buffer::Output;
    step.chunks = 1;
    // Messages of a call do not overlap where they are received.
    if (op == StepOp::Recv) step.flags = kLands;
    ++lowered_.lanes.back().step_count;
    return step;
  }

  const ExchangeMessages& messages_;
  Lowered& lowered_;
};

// Lists the messages that have elements by round, then direction, then order of the calls.
void put_in_order(const ExchangeMessages& messages, Rank me, int ranks, std::vector<ExchangePlan::Place>& places) {
  places.clear();
  for (const Direction direction : {Direction::Send, Direction::Receive}) {
    const std::vector<ExchangeMessage>& all = messages.of(direction);
    for (std::uint32_t part = 0; part < all.size(); ++part) {
      const Rank distance = direction == Direction::Send ? all[part].peer - me : me - all[part].peer;
      if (all[part].count > 0) places.push_back({(distance + ranks) % ranks, direction, part});
    }
  }
  std::sort(places.begin(), places.end());
}

}  // namespace

void MessageTable::assign(const std::vector<ExchangeMessage>& messages) {
  first = nullptr;
  span = 0;
  for (const ExchangeMessage& message : messages) {
    if (message.count > 0 && (first == nullptr || message.data < first)) first = message.data;
  }
  counts.clear();
  offsets.clear();
  const auto base = reinterpret_cast<std::uintptr_t>(first);
  for (const ExchangeMessage& message : messages) {
    counts.push_back(message.bytes());
    offsets.push_back(message.count > 0 ? address(message) - base : 0);
    span = std::max(span, offsets.back() + counts.back());
  }
}

namespace {

// Lists the messages' peers and marks empty messages. Lanes and steps depend on nothing else.
void list_peers(const ExchangeMessages& messages, std::vector<Rank>& peers) {
  peers.clear();
  for (const Direction direction : {Direction::Send, Direction::Receive}) {
    peers.push_back(-1);
    for (const ExchangeMessage& message : messages.of(direction))
      peers.push_back(message.count > 0 ? message.peer : -2);
  }
}

void plan_lanes(const ExchangeMessages& messages, Rank me, int ranks, ExchangePlan& plan) {
  Lowered& lowered = plan.bound.lowered;
  lowered.steps.clear();
  lowered.lanes.clear();
  lowered.sources.clear();
  lowered.targets.clear();
  lowered.parts = static_cast<std::uint32_t>(std::max(messages.sends.size(), messages.receives.size()));
  lowered.step_major = true;
  put_in_order(messages, me, ranks, plan.places);
  Builder builder(messages, lowered);
  const std::span<const ExchangePlan::Place> places = plan.places;
  for (std::size_t first = 0; first < places.size();) {
    const auto run = [&](std::size_t from) {
      std::size_t end = from;
      while (end < places.size() && places[end].lane() == places[from].lane()) ++end;
      return places.subspan(from, end - from);
    };
    const auto lane = run(first);
    first += lane.size();
    if (lane.front().round > 0) {
      builder.add_lane(lane.front().direction, lane);
    } else {
      const auto receives = run(first);
      builder.add_copies(lane, receives);
      first += receives.size();
    }
  }
}

}  // namespace

bool plan_exchange(const ExchangeMessages& messages, Rank me, int ranks, const ExchangeTiles& tiles,
                   ExchangePlan& plan) {
  list_peers(messages, plan.next_peers);
  const bool again = plan.next_peers == plan.peers;
  if (!again) {
    plan_lanes(messages, me, ranks, plan);
    std::swap(plan.peers, plan.next_peers);
  }
  plan.input.assign(messages.sends);
  plan.output.assign(messages.receives);
  Geometry& geometry = plan.geometry;
  geometry = {};
  geometry.input = plan.input.parts();
  geometry.output = plan.output.parts();
  geometry.tile = tiles.bytes;
  geometry.large_part = tiles.large_message_bytes;
  geometry.large_tile = tiles.large_bytes;
  for (const MessageTable* table : {&plan.input, &plan.output}) {
    for (const std::uint64_t bytes : table->counts) {
      geometry.tiles = std::max(geometry.tiles, static_cast<std::uint32_t>(divide_up(bytes, geometry.tile_of(bytes))));
    }
  }
  return !again;
}

}  // namespace wreath
