// Fills the parts of the small model that a rank holds.
#include "tests/training/checkpoint/model.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace wreath::training::test {

namespace {

constexpr std::int64_t kVocabulary = 65;
constexpr std::int64_t kWidth = 6;
constexpr int kBlocks = 2;

Range part(std::int64_t count, int parts, int index) {
  const std::int64_t begin = count * index / parts;
  return {begin, count * (index + 1) / parts - begin};
}

// Returns the ranges of query, key and value, each divided.
std::vector<Range> three_parts(int parts, int index) {
  std::vector<Range> ranges;
  for (int third = 0; third < 3; ++third) {
    Range range = part(kWidth, parts, index);
    range.begin += third * kWidth;
    ranges.push_back(range);
  }
  return ranges;
}

}  // namespace

std::string Division::name() const {
  return "dp" + std::to_string(dp) + (zero ? " (zero)" : "") + " x pp" + std::to_string(pp) + " x tp" +
         std::to_string(tp);
}

float value_of(const std::string& parameter, int array, std::int64_t index, std::int64_t step) {
  const std::int64_t letters = std::accumulate(parameter.begin(), parameter.end(), std::int64_t{0});
  return static_cast<float>((letters + step) * 2048 + array * 512 + index);
}

RankState::RankState(const Division& division, int rank) {
  const int tensor_rank = rank % division.tp;
  const int stage = rank / division.tp % division.pp;
  const int last = division.pp - 1;
  const auto tensor_part = [&](std::int64_t count) { return std::vector{part(count, division.tp, tensor_rank)}; };
  if (stage == 0 || stage == last) {
    // The rows of the last rank are padding in part.
    const std::int64_t rows = (kVocabulary + division.tp - 1) / division.tp;
    add("wte.weight", {kVocabulary, kWidth}, 0, {{tensor_rank * rows, rows}});
  }
  if (stage == 0) add("wpe.weight", {5, kWidth}, -1, {});
  for (int block = 0; block < kBlocks; ++block) {
    if (block * division.pp / kBlocks != stage) continue;
    const std::string name = "h." + std::to_string(block);
    add(name + ".ln_1.weight", {kWidth}, -1, {});
    add(name + ".attn.c_attn.weight", {kWidth, 3 * kWidth}, 1, three_parts(division.tp, tensor_rank));
    add(name + ".attn.c_attn.bias", {3 * kWidth}, 0, three_parts(division.tp, tensor_rank));
    add(name + ".attn.c_proj.weight", {kWidth, kWidth}, 0, tensor_part(kWidth));
    add(name + ".mlp.c_fc.weight", {kWidth, 11}, 1, tensor_part(11));
  }
  if (stage == last) add("ln_f.weight", {kWidth}, -1, {});
  divide_pieces(division, rank / (division.tp * division.pp));
}

void RankState::add(const std::string& name, const std::vector<std::int64_t>& shape, int axis,
                    std::vector<Range> ranges) {
  Parameter parameter;
  parameter.name = name;
  parameter.shape = shape;
  parameter.sharded_axis = axis;
  parameter.ranges = std::move(ranges);
  memory_.emplace_back(static_cast<std::size_t>(parameter.local_count()));
  parameter.value = memory_.back();
  parameters.add(std::move(parameter));
}

void RankState::divide_pieces(const Division& division, int data_rank) {
  const Range mine =
      division.zero ? part(parameters.local_count(), division.dp, data_rank) : Range{0, parameters.local_count()};
  std::int64_t start = 0;
  for (Parameter& parameter : parameters.all()) {
    const std::int64_t begin = std::max<std::int64_t>(mine.begin - start, 0);
    const std::int64_t end = std::min(mine.begin + mine.count - start, parameter.local_count());
    start += parameter.local_count();
    if (begin >= end) continue;
    pieces.push_back({&parameter,
                      begin,
                      parameter.value.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)),
                      {}});
  }
  for (std::vector<float>& moment : moments) moment.resize(static_cast<std::size_t>(mine.count));
}

Shard RankState::shard() { return {pieces, {{"exp_avg", moments[0]}, {"exp_avg_sq", moments[1]}}}; }

std::vector<float> RankState::expected(int array, std::int64_t step) const {
  std::vector<float> all;
  for (const Piece& piece : pieces) {
    std::vector<float> whole(static_cast<std::size_t>(piece.parameter->local_count()));
    for_each_run(*piece.parameter, [&](const Run& run) {
      for (std::int64_t i = 0; i < run.count; ++i) {
        whole[static_cast<std::size_t>(run.local + i)] = value_of(piece.parameter->name, array, run.global + i, step);
      }
    });
    const auto begin = whole.begin() + piece.begin;
    all.insert(all.end(), begin, begin + static_cast<std::ptrdiff_t>(piece.value.size()));
  }
  return all;
}

void RankState::fill(std::int64_t step) {
  const std::vector<float> values = expected(0, step);
  auto next = values.begin();
  for (const Piece& piece : pieces) {
    const auto end = next + static_cast<std::ptrdiff_t>(piece.value.size());
    std::copy(next, end, piece.value.begin());
    next = end;
  }
  for (int i : {0, 1}) moments[i] = expected(i + 1, step);
}

void RankState::spoil() {
  for (const Piece& piece : pieces) std::fill(piece.value.begin(), piece.value.end(), std::nanf(""));
  for (std::vector<float>& moment : moments) std::fill(moment.begin(), moment.end(), std::nanf(""));
}

std::string RankState::difference(std::int64_t step) const {
  std::vector<float> values;
  for (const Piece& piece : pieces) values.insert(values.end(), piece.value.begin(), piece.value.end());
  for (int array = 0; array < 3; ++array) {
    const std::vector<float> wanted = expected(array, step);
    const std::vector<float>& found = array == 0 ? values : moments[array - 1];
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (std::bit_cast<std::uint32_t>(wanted[i]) == std::bit_cast<std::uint32_t>(found[i])) continue;
      return "element " + std::to_string(i) + " of array " + std::to_string(array) + " is " + std::to_string(found[i]) +
             ", not " + std::to_string(wanted[i]);
    }
  }
  return {};
}

}  // namespace wreath::training::test
