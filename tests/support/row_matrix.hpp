// Tests every row of the registry over every transport, with a pairwise choice of all other factors. With
// WREATH_TEST_LONG=1 it tests the whole product. Under a sanitizer rows are a factor like the others, always by choice.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/collective_matrix.hpp"
#include "tests/support/pairwise.hpp"
#include "tests/support/processes.hpp"

namespace wreath::test {

// Says how many ranks a communicator has, and how its options cut calls; 0 means the default.
struct Shape {
  int ranks = 1;
  std::size_t tile_bytes = 0;
  int lanes = 0;
  std::uint32_t slots = 0;
  std::uint32_t first_sequence = 0;
  std::size_t single_copy_bytes = 0;  // where the way has none

  std::string text() const {
    return lanes == 0 ? "" : fmt::format(", lanes {} tile {} slots {}", lanes, tile_bytes, slots);
  }
  CommunicatorOptions options(const Way& way) const {
    CommunicatorOptions options = options_of(way);
    options.overrides.tile_bytes = tile_bytes;
    options.overrides.lanes = lanes;
    if (slots > 0) options.overrides.slot_count = slots;
    options.debug.first_sequence = first_sequence;
    if (options.overrides.single_copy_bytes == 0) options.overrides.single_copy_bytes = single_copy_bytes;
    return options;
  }
};

// Returns shapes of the `usual` numbers of ranks, or of 1 to `most` with WREATH_TEST_LONG=1.
inline std::vector<Shape> shapes_of_ranks(std::vector<int> usual, const Shape& like = {}, std::size_t most = 17) {
  if (testing_support::takes_every_case()) {
    usual.resize(most);
    std::iota(usual.begin(), usual.end(), 1);
  }
  std::vector<Shape> shapes(usual.size(), like);
  for (std::size_t i = 0; i < usual.size(); ++i) shapes[i].ranks = usual[i];
  return shapes;
}

// Sets the count of a case, or the counts of its blocks.
using Amount = std::function<void(CollectiveCase& work)>;

// Returns an amount of `count` elements, and `each` more for each rank.
inline Amount elements(std::ptrdiff_t count, std::ptrdiff_t each = 0) {
  return [=](CollectiveCase& work) { work.count = static_cast<std::size_t>(count + each * work.ranks); };
}

struct RowMatrix {
  std::vector<Shape> shapes;
  std::vector<Amount> amounts;
  unsigned traits = 0;  // that a row must have
  // In the whole product so many of the first amounts have all types and operators. The others have few types, and
  // the operator Sum.
  std::size_t amounts_of_all_types = 0;
  std::span<const DataType> dtypes = all_dtypes();
  std::span<const ReduceOp> ops = all_ops();  // rows that do not combine use the first
  Device* device = nullptr;                   // the same as in Surroundings
};

// Lists the factors of the cases of some rows.
class RowFactors {
 public:
  enum Factor { kRow, kWay, kShape, kDtype, kOp, kAmount, kRoot, kPlace, kMemory, kOffset };

  RowFactors(const RowMatrix& matrix, std::vector<const Algorithm*> rows) : matrix_(matrix), rows_(std::move(rows)) {
    for (const Way& link : transport_ways()) {
      for (const bool by_hand : {false, true}) ways_.push_back({"", link.transport, link.single_copy_bytes, by_hand});
    }
    int roots = 1;
    for (const Shape& shape : matrix_.shapes) roots = std::max(roots, shape.ranks);
    const auto size = [](const auto& values) { return static_cast<int>(values.size()); };
    factors_.sizes = {
        size(rows_),           size(ways_), size(matrix_.shapes), size(matrix_.dtypes),   size(matrix_.ops),
        size(matrix_.amounts), roots,       Arrangement::kPlaces, Arrangement::kMemories, Arrangement::kOffsets};
    factors_.fit = [this](int factor, int value, int later, int other) { return fit(factor, value, later, other); };
    factors_.wanted = [this](int factor, int value, int later, int other) {
      return wanted(factor, value, later, other);
    };
  }
  RowFactors(const RowFactors&) = delete;
  RowFactors& operator=(const RowFactors&) = delete;

  const Factors& factors() const { return factors_; }
  const Algorithm& row(const Choice& choice) const { return *rows_[value(choice, kRow)]; }
  std::size_t shape(const Choice& choice) const { return value(choice, kShape); }
  Way way(const Choice& choice) const {
    Way way = ways_[value(choice, kWay)];
    way.algorithm = row(choice).name;
    return way;
  }
  MatrixCase make(const Choice& choice) const {
    CollectiveCase work;
    work.collective = row(choice).collective;
    work.dtype = matrix_.dtypes[value(choice, kDtype)];
    work.op = matrix_.ops[value(choice, kOp)];
    work.ranks = matrix_.shapes[shape(choice)].ranks;
    work.root = choice[kRoot];
    matrix_.amounts[value(choice, kAmount)](work);
    return {work, row(choice).order, Arrangement{choice[kPlace], choice[kMemory], choice[kOffset]}};
  }

 private:
  // Roots beyond this one are tested once each, with each number of ranks that has them. Other factors need to meet
  // only the lower roots.
  static constexpr int kLastRoot = 8;

  static std::size_t value(const Choice& choice, Factor factor) { return static_cast<std::size_t>(choice[factor]); }
  bool fit(int factor, int value, int later, int other) const {
    const auto at = static_cast<std::size_t>(value);
    const auto of_other = static_cast<std::size_t>(other);
    if (factor == kShape) return later != kRoot || other < matrix_.shapes[at].ranks;
    if (factor != kRow) return true;
    const Algorithm& row = *rows_[at];
    switch (later) {
      case kWay: return !ways_[of_other].handwritten || has_loop(row);
      case kShape: return row.supports({row.collective, matrix_.shapes[of_other].ranks, 0});
      case kOp: return reduces(row.collective) || other == 0;
      case kRoot: return has_root(row.collective) || other == 0;
      case kPlace: return CollectiveCase{row.collective}.can_be_in_place() || other == 0;
      default: return true;
    }
  }

  // Returns whether some row takes both values.
  bool wanted(int factor, int value, int later, int other) const {
    const bool late_root = (factor == kRoot && value > kLastRoot) || (later == kRoot && other > kLastRoot);
    if (late_root && factor != kShape) return false;
    if (factor == kRow) return true;
    for (int row = 0; row < factors_.sizes[kRow]; ++row) {
      if (fit(kRow, row, factor, value) && fit(kRow, row, later, other)) return true;
    }
    return false;
  }

  const RowMatrix& matrix_;
  std::vector<const Algorithm*> rows_;
  std::vector<Way> ways_;
  Factors factors_;
};

class RowSuite {
 public:
  explicit RowSuite(RowMatrix matrix) : matrix_(std::move(matrix)) {
    std::vector<const Algorithm*> rows;
    for (const Algorithm& row : algorithms()) {
      const bool fits = row.collective != Collective::Barrier && (row.traits & matrix_.traits) == matrix_.traits;
      if (fits) rows.push_back(&row);
    }
    if (testing_support::kSanitized) {
      parts_.emplace_back(matrix_, rows);
    } else {
      for (const Algorithm* const row : rows) parts_.emplace_back(matrix_, std::vector{row});
    }
    for (Part& part : parts_) part.chosen = pairwise(part.rows.factors());
  }
  RowSuite(const RowSuite&) = delete;
  RowSuite& operator=(const RowSuite&) = delete;

  // Holds some rows, and the cases that are chosen for them.
  struct Part {
    Part(const RowMatrix& matrix, std::vector<const Algorithm*> of) : rows(matrix, std::move(of)) {}
    RowFactors rows;
    std::vector<Choice> chosen;
  };
  const std::deque<Part>& parts() const { return parts_; }

  // Expects every byte of every buffer to be right. Returns false where no row has such a way.
  bool expect_right_by(const Way& way, DataStore& store) const {
    const std::map<std::size_t, std::vector<MatrixCase>> cases =
        testing_support::takes_every_case() ? whole_product(way) : chosen_cases(way);
    for (const auto& [number, some] : cases) {
      const Shape& shape = matrix_.shapes[number];
      LocalRanks ranks(shape.ranks, shape.options(way));
      expect_right(ranks, some, store, {way, shape.text(), matrix_.device});
    }
    return !cases.empty();
  }

 private:
  using CasesByShape = std::map<std::size_t, std::vector<MatrixCase>>;

  CasesByShape chosen_cases(const Way& way) const {
    CasesByShape cases;
    for (const Part& part : parts_) {
      for (const Choice& choice : part.chosen) {
        if (part.rows.way(choice) == way) cases[part.rows.shape(choice)].push_back(part.rows.make(choice));
      }
    }
    return cases;
  }
  CasesByShape whole_product(const Way& way) const {
    CasesByShape cases;
    for (std::size_t i = 0; i < matrix_.shapes.size(); ++i) {
      for (const Algorithm* row : rows_of(way, matrix_.shapes[i].ranks, matrix_.traits)) append_all(*row, i, cases[i]);
      if (cases[i].empty()) cases.erase(i);
    }
    return cases;
  }
  void append_all(const Algorithm& row, std::size_t shape, std::vector<MatrixCase>& cases) const {
    for (const DataType dtype : matrix_.dtypes) {
      for (const ReduceOp op : matrix_.ops) {
        if (op != matrix_.ops.front() && !reduces(row.collective)) continue;
        for (std::size_t amount = 0; amount < matrix_.amounts.size(); ++amount) {
          if (amount >= matrix_.amounts_of_all_types && (op != ReduceOp::Sum || !is_one_of_few(dtype))) continue;
          append_roots({row.collective, dtype, op, matrix_.shapes[shape].ranks}, row.order, amount, cases);
        }
      }
    }
  }
  // Appends sums of float32 from every root; other cases take the next root each time.
  void append_roots(CollectiveCase work, Order order, std::size_t amount, std::vector<MatrixCase>& cases) const {
    matrix_.amounts[amount](work);
    const int roots = has_root(work.collective) ? work.ranks : 1;
    const bool all = work.dtype == DataType::Float32 && work.op == ReduceOp::Sum;
    for (int root = 0; root < roots; ++root) {
      work.root = all ? root : static_cast<Rank>(cases.size()) % roots;
      cases.push_back({work, order, {}});
      if (!all) return;
    }
  }
  static bool is_one_of_few(DataType dtype) {
    constexpr DataType kFew[] = {DataType::Uint8, DataType::Int32, DataType::Float16, DataType::Float32,
                                 DataType::BFloat16};
    return std::find(std::begin(kFew), std::end(kFew), dtype) != std::end(kFew);
  }

  RowMatrix matrix_;
  std::deque<Part> parts_;
};

}  // namespace wreath::test
