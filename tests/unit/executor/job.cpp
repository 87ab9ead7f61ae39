// Makes the memory of one call, and what the call must put there.
#include "tests/unit/executor/job.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "kernels/arithmetic.hpp"
#include "src/schedule/meaning.hpp"

namespace wreath {
namespace {

constexpr std::byte kUntouched{0xEE};

template <typename T>
void store(std::byte* target, std::size_t index, double value) {
  const T element = narrow<T>(static_cast<Accumulator<T>>(value));
  std::memcpy(target + index * sizeof(T), &element, sizeof(T));
}

using Store = void (*)(std::byte* target, std::size_t index, double value);

Store store_of(DataType dtype) {
  return for_dtype(dtype, []<typename T>(T) -> Store { return store<T>; });
}

std::vector<std::uint64_t> starts_of(const std::vector<std::uint64_t>& counts) {
  std::vector<std::uint64_t> starts;
  std::uint64_t next = 0;
  for (const std::uint64_t count : counts) {
    starts.push_back(next);
    next += count;
  }
  return starts;
}

}  // namespace

Job::Job(const Algorithm& algorithm, const Problem& problem, const Lowered& program, const JobShape& shape,
         std::mt19937_64& random)
    : problem_(problem),
      shape_(shape),
      parts_(program.parts),
      element_bytes_(size_of(shape.dtype)),
      ranks_(static_cast<std::size_t>(problem.ranks)) {
  shape_.in_place = shape.in_place && has_in_place(problem.collective);
  cut(program, algorithm.traits);
  for (Rank rank = 0; rank < problem.ranks; ++rank) {
    give(ranks_[static_cast<std::size_t>(rank)], rank, algorithm.order != Order::Canonical, random);
  }
}

void Job::cut(const Lowered& program, unsigned traits) {
  const bool multiplied = reduces(problem_.collective) && shape_.op == ReduceOp::PremultipliedSum;
  const Cut cut{.parts = parts_,
                .data_lanes = program.data_lanes,
                .tile_bytes = shape_.tile_bytes,
                .partial_messages = (traits & kPartialMessages) != 0 || multiplied,
                .several_parts = (traits & kSeveralParts) != 0};
  const auto n = ranks_.size();
  for (std::size_t rank = 0; rank < n; ++rank) {
    OneRank& own = ranks_[rank];
    CallShape call{.collective = problem_.collective,
                   .ranks = problem_.ranks,
                   .me = static_cast<Rank>(rank),
                   .count = shape_.count,
                   .element_bytes = static_cast<std::uint32_t>(element_bytes_),
                   .accumulator_bytes = static_cast<std::uint32_t>(size_of(accumulator_of(shape_.dtype)))};
    if (!shape_.block_counts.empty()) {
      const bool square = problem_.collective == Collective::AllToAll;
      for (std::size_t peer = 0; peer < n; ++peer) {
        own.tables[0].push_back(shape_.block_counts[square ? rank * n + peer : peer]);
        own.tables[2].push_back(shape_.block_counts[square ? peer * n + rank : peer]);
      }
      own.tables[1] = starts_of(own.tables[0]);
      own.tables[3] = starts_of(own.tables[2]);
      call.input = {own.tables[0].data(), own.tables[1].data()};
      call.output = {own.tables[2].data(), own.tables[3].data()};
    }
    own.geometry = make_geometry(call, cut);
  }
}

std::uint64_t Job::elements(Buffer buffer, Rank rank) const {
  const Geometry& geometry = ranks_[static_cast<std::size_t>(rank)].geometry;
  const PartTable& table = buffer == Buffer::Input ? geometry.input : geometry.output;
  switch (holding(problem_, buffer, rank)) {
    case Holding::None: return 0;
    case Holding::OwnPart: return table.part(static_cast<std::uint32_t>(rank)).count;
    case Holding::AllParts: break;
  }
  std::uint64_t all = 0;
  for (std::uint32_t part = 0; part < parts_; ++part) all += table.part(part).count;
  return all;
}

void Job::give(OneRank& own, Rank rank, bool whole_numbers, std::mt19937_64& random) {
  own.given.resize(elements(Buffer::Input, rank) * element_bytes_);
  const Store store = store_of(shape_.dtype);
  const bool scales = !whole_numbers && size_of(shape_.dtype) >= 4 && is_floating(shape_.dtype);
  for (std::size_t i = 0; i < own.given.size() / element_bytes_; ++i) {
    // Sums of these values are exact in float.
    const auto value = static_cast<double>(random() % 100);
    store(own.given.data(), i, scales ? std::ldexp(value, static_cast<int>(random() % 30) - 15) : value);
  }
  Bytes& output = own.memory[static_cast<int>(Buffer::Output)];
  Bytes& input = own.memory[static_cast<int>(Buffer::Input)];
  input = own.given;
  output.assign(elements(Buffer::Output, rank) * element_bytes_, kUntouched);
  own.input = input.data();
  own.output = output.data();
  if (!shape_.in_place || input.empty() || output.empty()) return;
  const auto me = static_cast<std::uint32_t>(rank);
  // In place, the one block of Input is a part of the larger Output.
  if (output.size() > input.size()) {
    own.input = output.data() + own.geometry.output.part(me).first * element_bytes_;
    std::memcpy(own.input, own.given.data(), own.given.size());
    input.clear();
  } else {
    const std::uint64_t first = input.size() > output.size() ? own.geometry.input.part(me).first : 0;
    own.output = input.data() + first * element_bytes_;
    output.clear();
  }
}

Arithmetic Job::arithmetic_of(Rank rank) const {
  if (!reduces(problem_.collective)) return {};
  Reduction reduction(shape_.op);
  if (shape_.op == ReduceOp::PremultipliedSum) reduction = Reduction::premultiplied_sum(std::int64_t{rank} + 1);
  return arithmetic(shape_.dtype, reduction, problem_.ranks);
}

std::vector<RankCall> Job::calls() {
  std::vector<RankCall> calls;
  for (OneRank& own : ranks_) {
    calls.push_back({state_of(own.geometry, own.input, own.output), arithmetic_of(static_cast<Rank>(calls.size()))});
  }
  return calls;
}

const std::byte* Job::given_part(Rank rank, std::uint32_t part) const {
  const OneRank& own = ranks_[static_cast<std::size_t>(rank)];
  return own.given.data() + own.geometry.input.part(part).first * element_bytes_;
}

// Returns the sum by the reference kernel: it widens every input, multiplies it by the factor of its own rank, and
// combines all as partials.
Job::Bytes Job::sum_of_part(std::uint32_t part, std::uint64_t elements) const {
  std::vector<Bytes> partials;
  std::vector<const std::byte*> sources;
  for (Rank rank = 0; rank < problem_.ranks; ++rank) {
    Bytes& partial = partials.emplace_back((elements + 1) * size_of(accumulator_of(shape_.dtype)));
    const std::byte* given = given_part(rank, part);
    combine_reference(arithmetic_of(rank), partial.data(), Form::Partial, &given, 1, {}, elements);
    sources.push_back(partial.data());
  }
  Bytes sum(elements * element_bytes_);
  combine_reference(arithmetic_of(0), sum.data(), Form::Data, sources.data(), problem_.ranks, {Form::Partial},
                    elements);
  return sum;
}

Job::Bytes Job::expected_part(Rank rank, std::uint32_t part) const {
  const std::uint64_t count = ranks_[static_cast<std::size_t>(rank)].geometry.output.part(part).count;
  const Owed owes = owed(problem_, rank, part);
  if (count == 0) return {};
  if (owes.sum) return sum_of_part(part, count);
  const std::byte* given = given_part(owes.rank, owes.part);
  return {given, given + count * element_bytes_};
}

std::string Job::wrong(Rank rank, std::uint32_t part) const {
  const OneRank& own = ranks_[static_cast<std::size_t>(rank)];
  const Bytes expected = expected_part(rank, part);
  const std::byte* found = own.output + own.geometry.output.part(part).first * element_bytes_;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (found[i] != expected[i]) return fmt::format("rank {} part {} differs from byte {} on", rank, part, i);
  }
  return {};
}

std::string Job::wrong(Rank rank) const {
  const OneRank& own = ranks_[static_cast<std::size_t>(rank)];
  const Holding held = holding(problem_, Buffer::Output, rank);
  for (std::uint32_t part = 0; part < parts_; ++part) {
    const bool has =
        held == Holding::AllParts || (held == Holding::OwnPart && part == static_cast<std::uint32_t>(rank));
    if (std::string fault = has ? wrong(rank, part) : ""; !fault.empty()) return fault;
  }
  if (!shape_.in_place && own.memory[0] != own.given) return fmt::format("rank {}: Input was written", rank);
  return {};
}

std::string Job::wrong() const {
  for (Rank rank = 0; rank < problem_.ranks; ++rank) {
    if (std::string fault = wrong(rank); !fault.empty()) return fault;
  }
  return {};
}

}  // namespace wreath
