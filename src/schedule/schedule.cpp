// The builder: what an algorithm says, kept as lines in lanes.
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

}  // namespace

void Lane::send(Rank to, Chunk source) { lines_.push_back({.word = Word::Send, .peers = {to}, .source = source}); }

void Lane::send_all(std::vector<Rank> to, Chunk source) {
  lines_.push_back({.word = Word::Send, .peers = ascending(std::move(to)), .source = source});
}

void Lane::send_all_staged(std::vector<Rank> to, Chunk source) {
  send_all(std::move(to), source);
  lines_.back().staged = true;
}

void Lane::recv(Rank from, Chunk target, int from_lane) {
  lines_.push_back({.word = Word::Recv, .peers = {from}, .from_lane = lane_or(from_lane, number_), .target = target});
}

void Lane::recv_reduce(Rank from, Chunk source, Chunk target, int from_lane) {
  lines_.push_back({.word = Word::RecvReduce,
                    .peers = {from},
                    .from_lane = lane_or(from_lane, number_),
                    .source = source,
                    .target = target});
}

void Lane::load_reduce(std::vector<Rank> from, Chunk source, Chunk target, int from_lane) {
  lines_.push_back({.word = Word::LoadReduce,
                    .peers = ascending(std::move(from)),
                    .from_lane = lane_or(from_lane, number_),
                    .source = source,
                    .target = target});
}

void Lane::copy(Chunk source, Chunk target) {
  lines_.push_back({.word = Word::Copy, .peers = {}, .source = source, .target = target});
}

void Lane::reduce(Chunk source, Chunk target) {
  lines_.push_back({.word = Word::Reduce, .peers = {}, .source = source, .target = target});
}

Lane& Schedule::lane(int number) {
  const auto wanted = static_cast<std::size_t>(std::max(number, 0));
  while (lanes_.size() <= wanted) lanes_.push_back(Lane(static_cast<std::uint16_t>(lanes_.size())));
  return lanes_[wanted];
}

std::uint32_t Schedule::scratch_parts() const {
  std::uint32_t parts = 0;
  for (const Lane& lane : lanes_) {
    for (const Line& line : lane.lines()) {
      for (const Chunk chunk : {line.source, line.target}) {
        if (chunk.buffer == Buffer::Scratch) parts = std::max(parts, chunk.part + 1);
      }
    }
  }
  return parts;
}

}  // namespace wreath
