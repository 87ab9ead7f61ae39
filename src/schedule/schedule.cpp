// The builder keeps what an algorithm says as lines in lanes.
#include "wreath/schedule.hpp"

#include <algorithm>
#include <utility>

namespace wreath {
namespace {

std::vector<Rank> ascending(std::vector<Rank> peers) {
  std::sort(peers.begin(), peers.end());
  return peers;
}

std::uint16_t lane_or(int from_lane, std::uint16_t own) {
  return from_lane == -1 ? own : static_cast<std::uint16_t>(from_lane);
}

Line receiving(Word word, std::vector<Rank> from, Incoming incoming, std::uint16_t own_lane) {
  return {.word = word,
          .peers = ascending(std::move(from)),
          .from_lane = lane_or(incoming.lane, own_lane),
          .form = incoming.form};
}

}  // namespace

void Lane::send(Rank to, Chunks source) { send_all({to}, std::move(source)); }

void Lane::send_all(std::vector<Rank> to, Chunks source) {
  lines_.push_back({.word = Word::Send, .peers = ascending(std::move(to)), .source = std::move(source)});
}

void Lane::send_all_staged(std::vector<Rank> to, Chunks source) {
  send_all(std::move(to), std::move(source));
  lines_.back().staged = true;
}

void Lane::recv(Rank from, Chunks target, Incoming incoming) {
  lines_.push_back(receiving(Word::Recv, {from}, incoming, number_));
  lines_.back().target = std::move(target);
}

void Lane::recv_reduce(Rank from, Chunks source, Chunks target, Incoming incoming) {
  lines_.push_back(receiving(Word::RecvReduce, {from}, incoming, number_));
  lines_.back().source = std::move(source);
  lines_.back().target = std::move(target);
}

void Lane::load_reduce(std::vector<Rank> from, Chunk source, Chunk target, Incoming incoming) {
  lines_.push_back(receiving(Word::LoadReduce, std::move(from), incoming, number_));
  lines_.back().source = source;
  lines_.back().target = target;
}

void Lane::copy(Chunks source, Chunks target) {
  lines_.push_back({.word = Word::Copy, .peers = {}, .source = std::move(source), .target = std::move(target)});
}

void Lane::reduce(Chunks source, Chunks target) {
  lines_.push_back({.word = Word::Reduce, .peers = {}, .source = std::move(source), .target = std::move(target)});
}

Lane& Schedule::lane(int number) {
  const auto wanted = static_cast<std::size_t>(std::max(number, 0));
  while (lanes_.size() <= wanted) lanes_.push_back(Lane(static_cast<std::uint16_t>(lanes_.size())));
  return lanes_[wanted];
}

std::uint32_t Schedule::slots(Buffer buffer) const {
  std::uint32_t slots = 0;
  for (const Lane& lane : lanes_) {
    for (const Line& line : lane.lines()) {
      for (const Chunks* chunks : {&line.source, &line.target}) {
        for (const Chunk chunk : *chunks) {
          if (chunk.buffer == buffer && is_lanes_own(buffer)) slots = std::max(slots, chunk.slot + 1);
        }
      }
    }
  }
  return slots;
}

}  // namespace wreath
