// The checks find buffers of a call that are null, beyond memory, or over each other.
#include "src/communicator/check_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "src/base/invalid_argument.hpp"
#include "src/device/call_memory.hpp"
#include "src/schedule/geometry.hpp"

namespace wreath {
namespace {

struct Range {
  std::uintptr_t first;
  std::uintptr_t end;

  bool empty() const { return first == end; }
  bool meets(const Range& other) const { return !empty() && !other.empty() && first < other.end && other.first < end; }
};

// An Extent has the blocks of one buffer of a call, at their addresses. A vector is one block, too.
class Extent {
 public:
  Extent(const Call& call, Buffer buffer, Place place)
      : input_(buffer == Buffer::Input),
        one_(!moves_blocks(call.collective) || holds_one_block(call.collective, buffer)),
        own_(one_ ? 0 : static_cast<std::size_t>(place.me)),
        blocks_(one_ ? 1 : static_cast<std::size_t>(place.ranks)),
        count_(call.count),
        element_bytes_(size_of(call.dtype)),
        base_(input_ ? reinterpret_cast<std::uintptr_t>(call.input) : reinterpret_cast<std::uintptr_t>(call.output)) {
    if (!call.varying()) return;
    const Blocks& own_table = input_ ? call.input_blocks : call.output_blocks;
    const Blocks& other_table = input_ ? call.output_blocks : call.input_blocks;
    if (one_) {
      count_ = (own_table.counts.empty() ? other_table : own_table).counts[static_cast<std::size_t>(place.me)];
    } else {
      table_ = &own_table;
    }
  }

  std::string_view name() const { return input_ ? "input" : "output"; }
  std::size_t blocks() const { return blocks_; }
  std::size_t own() const { return own_; }

  // Returns block `i` as addresses. An empty block has no place in memory.
  Range block(std::size_t i) const {
    if (table_ == nullptr) return range(i * count_, count_);
    if (!table_->displacements.empty()) return range(table_->displacements[i], table_->counts[i]);
    std::size_t first = 0;
    for (std::size_t before = 0; before < i; ++before) first += table_->counts[before];
    return range(first, table_->counts[i]);
  }
  Range hull() const {
    if (table_ == nullptr) return range(0, blocks_ * count_);
    Range all{0, 0};
    std::size_t packed = 0;
    for (std::size_t i = 0; i < blocks_; ++i) {
      const std::size_t first = table_->displacements.empty() ? packed : table_->displacements[i];
      packed += table_->counts[i];
      const Range one = range(first, table_->counts[i]);
      if (one.empty()) continue;
      all = all.empty() ? one : Range{std::min(all.first, one.first), std::max(all.end, one.end)};
    }
    return all;
  }

  Status check_size() const {
    const std::size_t most = SIZE_MAX / 2 / element_bytes_;
    if (table_ == nullptr) {
      if (count_ <= most / blocks_) return {};
      return invalid_argument(
          fmt::format("count = {}: {} blocks of it, with {} bytes an element, are more than memory holds", count_,
                      blocks_, element_bytes_));
    }
    std::size_t end = 0;
    for (std::size_t i = 0; i < blocks_; ++i) {
      const std::size_t first = table_->displacements.empty() ? end : table_->displacements[i];
      if (first > most || table_->counts[i] > most - first) {
        return invalid_argument(
            fmt::format("{}: block {} of {} elements from {}, of {} bytes each, is more than memory holds", name(), i,
                        table_->counts[i], first, element_bytes_));
      }
      end = first + table_->counts[i];
    }
    return {};
  }

  Status check_null() const {
    const Range all = hull();
    if (base_ != 0 || all.empty()) return {};
    if (table_ == nullptr) return invalid_argument(fmt::format("{} = null with count = {}", name(), count_));
    const auto& counts = table_->counts;
    std::size_t full = 0;
    while (counts[full] == 0) ++full;
    return invalid_argument(fmt::format("{} = null with counts[{}] = {}", name(), full, counts[full]));
  }

  Status check_inside() const {
    const Range all = hull();
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    const CallBuffer buffer{name(), reinterpret_cast<const void*>(all.first)};
    return all.empty() ? Status() : wreath::check_inside(buffer, all.end - all.first);
  }

  // Checks that blocks do not overlap where the call writes them.
  Status check_apart() const {
    if (table_ == nullptr || table_->displacements.empty()) return {};
    std::size_t end = 0;
    bool rising = true;
    for (std::size_t i = 0; i < blocks_ && rising; ++i) {
      if (table_->counts[i] == 0) continue;
      rising = table_->displacements[i] >= end;
      end = table_->displacements[i] + table_->counts[i];
    }
    return rising ? Status() : check_apart_sorted();
  }

 private:
  Range range(std::size_t first, std::size_t count) const {
    const std::uintptr_t start = base_ + first * element_bytes_;
    return {start, start + count * element_bytes_};
  }

  Status check_apart_sorted() const {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < blocks_; ++i) {
      if (table_->counts[i] > 0) order.push_back(i);
    }
    const auto& first = table_->displacements;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return first[a] < first[b]; });
    for (std::size_t i = 1; i < order.size(); ++i) {
      const std::size_t a = order[i - 1];
      if (first[a] + table_->counts[a] > first[order[i]]) {
        return invalid_argument(fmt::format("output: block {} (from {}, {} elements) overlaps block {} (from {})", a,
                                            first[a], table_->counts[a], order[i], first[order[i]]));
      }
    }
    return {};
  }

  bool input_;
  bool one_;
  std::size_t own_;
  std::size_t blocks_;
  std::size_t count_;
  std::size_t element_bytes_;
  std::uintptr_t base_;
  const Blocks* table_ = nullptr;
};

// Describes how a call is made in place.
std::string_view in_place_form(Collective collective, bool varying) {
  if (collective == Collective::AllToAll) return "it has no in-place form";
  if (!moves_blocks(collective)) return "in place is input == output";
  if (holds_one_block(collective, Buffer::Input)) {
    return varying ? "in place is input == output + displacements[rank]" : "in place is input == output + rank * count";
  }
  return varying ? "in place is output == input + displacements[rank]" : "in place is output == input + rank * count";
}

// Says whether any block of one buffer meets one of the other. In place, the rank's own blocks may meet.
bool blocks_meet(const Extent& input, const Extent& output, bool in_place) {
  for (std::size_t i = 0; i < input.blocks(); ++i) {
    const Range read = input.block(i);
    for (std::size_t o = 0; o < output.blocks(); ++o) {
      if (in_place && i == input.own() && o == output.own()) continue;
      if (read.meets(output.block(o))) return true;
    }
  }
  return false;
}

Status check_overlap(const Call& call, const Extent& input, const Extent& output) {
  const Range read = input.hull();
  const Range written = output.hull();
  if (!read.meets(written)) return {};
  const bool in_place =
      call.collective != Collective::AllToAll && input.block(input.own()).first == output.block(output.own()).first;
  const bool apart = call.varying() ? !blocks_meet(input, output, in_place) : in_place;
  if (apart) return {};
  const std::uintptr_t distance = read.first > written.first ? read.first - written.first : written.first - read.first;
  return invalid_argument(fmt::format("output overlaps input, {} bytes apart with {} and {} bytes; {}", distance,
                                      written.end - written.first, read.end - read.first,
                                      in_place_form(call.collective, call.varying())));
}

Status check_table(std::string_view label, const Blocks& blocks, Place place) {
  const auto ranks = static_cast<std::size_t>(place.ranks);
  if (blocks.counts.size() != ranks) {
    return invalid_argument(fmt::format("{}.counts has {} entries for {} ranks", label, blocks.counts.size(), ranks));
  }
  if (!blocks.displacements.empty() && blocks.displacements.size() != ranks) {
    return invalid_argument(
        fmt::format("{}.displacements has {} entries for {} ranks", label, blocks.displacements.size(), ranks));
  }
  return {};
}

Error extra_table(const Call& call, Buffer buffer, std::string_view reason) {
  const bool input = buffer == Buffer::Input;
  return invalid_argument(fmt::format("{}_blocks.counts has {} entries, but {}", input ? "input" : "output",
                                      (input ? call.input_blocks : call.output_blocks).counts.size(), reason));
}

// Checks that the tables of a v-form are there, and no others.
Status check_tables(const Call& call, Place place) {
  const bool input_given = !call.input_blocks.counts.empty();
  const bool output_given = !call.output_blocks.counts.empty();
  if (name(call.collective, true) == name(call.collective)) {
    return extra_table(call, input_given ? Buffer::Input : Buffer::Output,
                       fmt::format("{} has no counts by rank", name(call.collective)));
  }
  const bool of_input = !holds_one_block(call.collective, Buffer::Input);
  const bool of_output = !holds_one_block(call.collective, Buffer::Output);
  const bool both = of_input && of_output;
  if (of_input) WREATH_TRY(check_table(both ? "sent" : "blocks", call.input_blocks, place));
  if (of_output) WREATH_TRY(check_table(both ? "received" : "blocks", call.output_blocks, place));
  const std::string form(name(call.collective, true));
  if (!of_input && input_given) return extra_table(call, Buffer::Input, "the input of " + form + " is one block");
  if (!of_output && output_given) return extra_table(call, Buffer::Output, "the output of " + form + " is one block");
  const auto me = static_cast<std::size_t>(place.me);
  if (both && call.input_blocks.counts[me] != call.output_blocks.counts[me]) {
    return invalid_argument(fmt::format("sent.counts[{0}] = {1}, received.counts[{0}] = {2}: both are this rank's own",
                                        me, call.input_blocks.counts[me], call.output_blocks.counts[me]));
  }
  return {};
}

// Checks the values of enums, and the root.
Status check_words(const Call& call, Place place) {
  if (call.collective >= Collective::Exchange) {
    return invalid_argument(fmt::format("collective = {} is not one to call by", static_cast<int>(call.collective)));
  }
  if (static_cast<std::size_t>(call.dtype) >= all_dtypes().size()) {
    return invalid_argument(fmt::format("dtype = {}: there are {}", static_cast<int>(call.dtype), all_dtypes().size()));
  }
  if (static_cast<std::size_t>(call.reduction.op) >= all_ops().size()) {
    return invalid_argument(
        fmt::format("op = {}: there are {}", static_cast<int>(call.reduction.op), all_ops().size()));
  }
  if (call.root < 0 || call.root >= place.ranks) {
    return invalid_argument(fmt::format("root = {}: there are {} ranks", call.root, place.ranks));
  }
  return {};
}

// Accepts most calls at little cost: two vectors that are apart or the same, with a length that fits any element. Where
// it returns false, the caller checks the call in full.
bool plainly_right(const Call& call, bool varying) {
  constexpr std::size_t kFewElements = std::size_t{1} << 32;
  if (varying || call.count > kFewElements || call.input == nullptr || call.output == nullptr) return false;
  const auto input = reinterpret_cast<std::uintptr_t>(call.input);
  const auto output = reinterpret_cast<std::uintptr_t>(call.output);
  const std::uintptr_t distance = input > output ? input - output : output - input;
  return !moves_blocks(call.collective) && (distance == 0 || distance >= call.count * size_of(call.dtype));
}

}  // namespace

Status check_call(const Call& call, bool varying, Place place) {
  WREATH_TRY(check_words(call, place));
  WREATH_TRY(check_call_memory({"input", call.input}, {"output", call.output}, call.stream));
  const bool on_host = device_of(call.input) == nullptr && device_of(call.output) == nullptr;
  if (on_host && plainly_right(call, varying)) return {};
  if (varying) WREATH_TRY(check_tables(call, place));
  const Extent input(call, Buffer::Input, place);
  const Extent output(call, Buffer::Output, place);
  const bool reads = uses_input(call.collective, call.root, place.me);
  const bool writes = uses_output(call.collective, call.root, place.me);
  // Ranks beside the root check sizes, too, so that all ranks find a wrong count.
  WREATH_TRY(input.check_size());
  WREATH_TRY(output.check_size());
  if (reads) WREATH_TRY(input.check_null());
  if (writes) WREATH_TRY(output.check_null());
  if (reads && !on_host) WREATH_TRY(input.check_inside());
  if (writes && !on_host) WREATH_TRY(output.check_inside());
  if (writes) WREATH_TRY(output.check_apart());
  return reads && writes ? check_overlap(call, input, output) : Status();
}

Call normalized(const Call& call) {
  if (call.collective > Collective::Exchange) return call;
  Call plain = call;
  if (!reduces(call.collective)) plain.reduction = {};
  if (!has_root(call.collective)) plain.root = 0;
  if (call.collective != Collective::Barrier) return plain;
  plain.dtype = DataType::Uint8;
  plain.reduction = ReduceOp::Max;
  plain.input = nullptr;
  plain.output = nullptr;
  plain.count = 1;
  plain.input_blocks = plain.output_blocks = {};
  return plain;
}

}  // namespace wreath
