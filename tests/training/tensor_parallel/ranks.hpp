// Runs ranks of a training group as threads of the test, and gives the tests of divided layers values to compare.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/local_ranks.hpp"
#include "training/compute/memory.hpp"
#include "training/mesh/group.hpp"
#include "training/parameters/parameter.hpp"
#include "training/random/philox.hpp"

namespace wreath::training::test {

struct TestRank {
  Group& group;
  MemoryAccounting& memory;
  CommunicationAccounting& traffic;
};

// Calls `body` on a thread for each rank of a group `name`, or on this thread for one rank. An exception fails the test
// and ends the other ranks' calls.
inline void on_ranks(int ranks, const std::string& name, const std::function<void(TestRank)>& body) {
  const auto guarded = [&](Group group, MemoryAccounting& memory, CommunicationAccounting& traffic) {
    try {
      body({group, memory, traffic});
    } catch (const std::exception& error) {
      ADD_FAILURE() << "rank " << group.rank() << ": " << error.what();
      if (!group.alone()) static_cast<void>(group.communicator().abort());
    }
    for (std::size_t tag = 0; tag < kMemoryTags; ++tag) EXPECT_EQ(memory.bytes(static_cast<MemoryTag>(tag)), 0u);
  };
  if (ranks == 1) {
    MemoryAccounting memory;
    CommunicationAccounting traffic;
    guarded(Group(name, traffic), memory, traffic);
    return;
  }
  wreath::test::LocalRanks local(ranks, {});
  local.run([&](Communicator& communicator) {
    MemoryAccounting memory;
    CommunicationAccounting traffic;
    const std::shared_ptr<Communicator> shared(&communicator, [](Communicator*) {});
    guarded(Group(name, shared, traffic), memory, traffic);
  });
}

inline std::vector<float> normals(std::string_view name, std::int64_t count) {
  const RandomStream stream(11, name);
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(stream.normal(static_cast<std::uint64_t>(i)));
  return values;
}

inline std::vector<float> rows_of(const std::vector<float>& whole, std::int64_t width, const Range& rows) {
  const auto begin = whole.begin() + rows.begin * width;
  return {begin, begin + rows.count * width};
}

inline void put_rows(std::vector<float>& whole, std::int64_t width, const Range& rows, const std::vector<float>& part) {
  std::copy(part.begin(), part.end(), whole.begin() + rows.begin * width);
}

// Returns |a - b| / |b| over all elements. The result is infinite where sizes differ or an element is no number.
inline double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    norm += std::pow(double{b[i]}, 2);
  }
  const double relative = std::sqrt(difference) / std::max(std::sqrt(norm), 1e-30);
  return std::isnan(relative) ? std::numeric_limits<double>::infinity() : relative;
}

// The bound for the difference of float32 sums of some hundred terms that are formed in another order.
inline constexpr double kFloat32Bound = 1e-6;

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// The calls and payload bytes of each operation.
using Payload = std::map<std::string, std::pair<std::uint64_t, std::uint64_t>>;

// Returns what was counted since the last call.
inline Payload take(CommunicationAccounting& traffic) {
  Payload payload;
  for (const auto& [key, counted] : traffic.all()) payload[key.second] = {counted.calls, counted.bytes};
  traffic.reset();
  return payload;
}

// Gives memory to a rank's parameters. Values are drawn by their index in the whole parameter, and gradients are zero.
class Storage {
 public:
  explicit Storage(ParameterList& parameters) {
    for (Parameter& parameter : parameters.all()) {
      const auto count = static_cast<std::size_t>(parameter.local_count());
      parameter.value = values_.emplace_back(count);
      parameter.gradient = gradients_.emplace_back(count);
      Parameter drawn = parameter;
      drawn.initial_deviation = 0.3f;
      Initializer(drawn, 5).fill(0, parameter.value);
    }
  }

 private:
  std::deque<std::vector<float>> values_;
  std::deque<std::vector<float>> gradients_;
};

// The whole gradients, into which ranks put their parts. The parts of a partial gradient are summed; copies must have
// equal bits. Only one thread at a time may use an object.
class WholeGradients {
 public:
  void put(const Parameter& parameter) {
    std::vector<float>& whole = wholes_[parameter.name];
    const bool first = whole.empty();
    whole.resize(static_cast<std::size_t>(parameter.count()));
    for_each_run(parameter, [&](const Run& run) {
      for (std::int64_t i = 0; i < run.count; ++i) {
        float& element = whole[static_cast<std::size_t>(run.global + i)];
        const float share = parameter.gradient[static_cast<std::size_t>(run.local + i)];
        if (parameter.sharded_axis < 0 && !parameter.gradient_is_partial && !first) {
          EXPECT_EQ(element, share) << parameter.name;
        }
        element = parameter.gradient_is_partial ? element + share : share;
      }
    });
  }
  const std::map<std::string, std::vector<float>>& all() const { return wholes_; }

 private:
  std::map<std::string, std::vector<float>> wholes_;
};

// Returns the code and message of the Exception that `call` throws.
inline Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Exception& error) {
    return error.error();
  }
  return {ErrorCode::System, "nothing was thrown", -1};
}

}  // namespace wreath::training::test
