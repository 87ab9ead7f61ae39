// Chooses a few of all combinations of some factors' values. Every two values of two factors that may stand together do
// so in one chosen combination. A fixed seed makes the choice the same everywhere.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

namespace wreath::test {

// A choice holds the number of one value of each factor.
using Choice = std::vector<int>;

struct Factors {
  // A test takes a value of a factor and one of a later factor.
  using Test = std::function<bool(int factor, int value, int later, int later_value)>;
  std::vector<int> sizes;  // the number of values of each
  Test fit;                // whether the two may stand together; null: yes
  // Says whether two values that may stand together must do so; null means that all must.
  Test wanted;

  int count() const { return static_cast<int>(sizes.size()); }
  bool may_meet(int factor, int value, int other, int other_value) const {
    if (factor > other) return may_meet(other, other_value, factor, value);
    return !fit || fit(factor, value, other, other_value);
  }
  bool must_meet(int factor, int value, int later, int later_value) const {
    return may_meet(factor, value, later, later_value) && (!wanted || wanted(factor, value, later, later_value));
  }
};

// Calls visit(factor, value, later factor, its value) for all pairs of values.
template <typename Visit>
void for_each_pair(const Factors& factors, const Visit& visit) {
  for (int factor = 0; factor < factors.count(); ++factor) {
    for (int later = factor + 1; later < factors.count(); ++later) {
      for (int value = 0; value < factors.sizes[static_cast<std::size_t>(factor)]; ++value) {
        for (int other = 0; other < factors.sizes[static_cast<std::size_t>(later)]; ++other) {
          visit(factor, value, later, other);
        }
      }
    }
  }
}

// Returns all combinations whose values may stand together.
inline std::vector<Choice> all_combinations(const Factors& factors) {
  std::vector<Choice> all{{}};
  for (int factor = 0; factor < factors.count(); ++factor) {
    std::vector<Choice> longer;
    for (const Choice& start : all) {
      for (int value = 0; value < factors.sizes[static_cast<std::size_t>(factor)]; ++value) {
        bool fits = true;
        for (int before = 0; before < factor && fits; ++before) {
          fits = factors.may_meet(before, start[static_cast<std::size_t>(before)], factor, value);
        }
        if (!fits) continue;
        longer.push_back(start);
        longer.back().push_back(value);
      }
    }
    all = std::move(longer);
  }
  return all;
}

// Counts the pairs that must stand together and do so in none of the combinations.
inline int pairs_missing(const Factors& factors, const std::vector<Choice>& combinations) {
  int missing = 0;
  for_each_pair(factors, [&](int factor, int value, int later, int other) {
    if (!factors.must_meet(factor, value, later, other)) return;
    missing += std::none_of(combinations.begin(), combinations.end(), [&](const Choice& each) {
      return each[static_cast<std::size_t>(factor)] == value && each[static_cast<std::size_t>(later)] == other;
    });
  });
  return missing;
}

// Chooses one combination after the other. Of a few candidates it takes the one with the most pairs that no earlier
// combination has.
class PairwiseChooser {
 public:
  PairwiseChooser(const Factors& factors, std::uint64_t seed) : factors_(factors), random_(seed) {
    for (const int size : factors_.sizes) {
      first_.push_back(total_);
      total_ += static_cast<std::size_t>(size);
    }
    open_.resize(total_ * total_);
    may_.resize(total_ * total_);
    for_each_pair(factors_, [&](int factor, int value, int later, int other) {
      may_[at(factor, value, later, other)] = factors_.may_meet(factor, value, later, other);
      if (!factors_.must_meet(factor, value, later, other)) return;
      open_[at(factor, value, later, other)] = 1;
      ++left_;
    });
  }

  std::vector<Choice> choose() {
    std::vector<Choice> chosen;
    while (left_ > 0) {
      Choice best;
      int best_gain = 0;
      for (int candidate = 0; candidate < kCandidates && left_ > 0; ++candidate) {
        const Choice next = candidate_with_an_open_pair();
        const int gain = next.empty() ? 0 : gain_of(next);
        if (gain > best_gain) best = next, best_gain = gain;
      }
      if (best_gain == 0) continue;
      close_pairs_of(best);
      chosen.push_back(best);
    }
    return chosen;
  }

 private:
  static constexpr int kCandidates = 6;
  static constexpr int kUnset = -1;

  std::size_t place(int factor, int value) const {
    return first_[static_cast<std::size_t>(factor)] + static_cast<std::size_t>(value);
  }
  std::size_t at(int factor, int value, int other, int other_value) const {
    const std::size_t one = place(factor, value);
    const std::size_t two = place(other, other_value);
    return std::min(one, two) * total_ + std::max(one, two);
  }
  std::uint64_t random_below(std::uint64_t end) { return random_() % end; }  // the same in every C++ library
  int set_value(const Choice& choice, int factor) const { return choice[static_cast<std::size_t>(factor)]; }

  // Returns a combination with a pair that is still open. Returns an empty one where that pair is impossible: the pair
  // is then no longer open.
  Choice candidate_with_an_open_pair() {
    std::size_t found = random_below(open_.size());
    while (open_[found] == 0) found = (found + 1) % open_.size();
    Choice choice(factors_.sizes.size(), kUnset);
    for (const std::size_t each : {found / total_, found % total_}) {
      const auto factor =
          static_cast<std::size_t>(std::upper_bound(first_.begin(), first_.end(), each) - first_.begin()) - 1;
      choice[factor] = static_cast<int>(each - first_[factor]);
    }
    std::vector<int> order;
    for (int factor = 0; factor < factors_.count(); ++factor) {
      if (set_value(choice, factor) == kUnset) order.push_back(factor);
    }
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_below(i)]);
    if (fill(choice, order, 0)) return choice;
    open_[found] = 0;
    --left_;
    return {};
  }

  // Sets the factors order[next...]; each factor first tries the value with the most open pairs. Goes back where a
  // factor has no fitting value left.
  bool fill(Choice& choice, const std::vector<int>& order, std::size_t next) {
    if (next == order.size()) return true;
    for (std::size_t i = next; i < order.size(); ++i) {
      if (!has_one_that_fits(choice, order[i])) return false;
    }
    const int factor = order[next];
    struct Option {
      int gain;
      std::uint64_t tie;
      int value;
    };
    std::vector<Option> options;
    for (int value = 0; value < factors_.sizes[static_cast<std::size_t>(factor)]; ++value) {
      if (fits(choice, factor, value)) options.push_back({gain_with(choice, factor, value), random_(), value});
    }
    std::sort(options.begin(), options.end(),
              [](const Option& a, const Option& b) { return a.gain != b.gain ? a.gain > b.gain : a.tie < b.tie; });
    for (const Option& option : options) {
      choice[static_cast<std::size_t>(factor)] = option.value;
      if (fill(choice, order, next + 1)) return true;
    }
    choice[static_cast<std::size_t>(factor)] = kUnset;
    return false;
  }
  bool fits(const Choice& choice, int factor, int value) const {
    for (int other = 0; other < factors_.count(); ++other) {
      const int set = set_value(choice, other);
      if (other != factor && set != kUnset && may_[at(factor, value, other, set)] == 0) return false;
    }
    return true;
  }
  bool has_one_that_fits(const Choice& choice, int factor) const {
    const int values = factors_.sizes[static_cast<std::size_t>(factor)];
    for (int value = 0; value < values; ++value) {
      if (fits(choice, factor, value)) return true;
    }
    return false;
  }
  int gain_with(const Choice& choice, int factor, int value) const {
    int gain = 0;
    for (int other = 0; other < factors_.count(); ++other) {
      const int set = set_value(choice, other);
      if (other != factor && set != kUnset) gain += open_[at(factor, value, other, set)];
    }
    return gain;
  }
  int gain_of(const Choice& choice) const {
    int twice = 0;
    for (int factor = 0; factor < factors_.count(); ++factor)
      twice += gain_with(choice, factor, set_value(choice, factor));
    return twice / 2;
  }
  void close_pairs_of(const Choice& choice) {
    left_ -= gain_of(choice);
    for (int factor = 0; factor < factors_.count(); ++factor) {
      for (int later = factor + 1; later < factors_.count(); ++later) {
        open_[at(factor, set_value(choice, factor), later, set_value(choice, later))] = 0;
      }
    }
  }

  const Factors& factors_;
  std::mt19937_64 random_;
  // The position, by factor, at which its values begin.
  std::vector<std::size_t> first_;
  std::size_t total_ = 0;
  std::vector<std::uint8_t> may_;   // pairs that may stand together
  std::vector<std::uint8_t> open_;  // pairs that are in no combination yet
  int left_ = 0;
};

inline std::vector<Choice> pairwise(const Factors& factors, std::uint64_t seed = 1) {
  return PairwiseChooser(factors, seed).choose();
}

}  // namespace wreath::test
