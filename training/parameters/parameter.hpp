// This file declares parameters: the name of each, the part of it that this rank holds, and the present place of its
// values and gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace wreath::training {

struct Range {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

// Returns part `index` of near-equal contiguous parts of 0 .. count - 1; the first parts are longer.
Range part_of(std::int64_t count, int parts, int index) noexcept;

// A weight of the whole model and this tensor-parallel rank's part of it. Layers add them, in the order of the forward
// pass; a DataParallel (strategy.hpp) gives them memory. Elements are float32, row-major.
struct Parameter {
  // The name that HF's GPT-2 has: "h.0.attn.c_attn.weight".
  std::string name;
  std::vector<std::int64_t> shape;  // of the whole parameter, without padding
  // The axis that tensor parallelism divides (0 or 1). With -1 every tensor rank holds all of it.
  int sharded_axis = -1;
  // The held indices of that axis, in their order here. Indices from shape[axis] on are padding, which stays zero.
  std::vector<Range> ranges;
  // The values are drawn from a normal distribution with this mean and deviation.
  float initial_mean = 0;
  float initial_deviation = 0;
  bool decays = false;  // weight decay applies
  // Each tensor rank has a share of the gradient, and the shares are summed over tp.
  bool gradient_is_partial = false;
  // The first and the last pipeline stage both hold it, and its gradient is summed over both.
  bool tied = false;
  // The number of the part of the model that uses the parameter (strategy.hpp).
  int unit = 0;
  std::span<float> value;     // valid between before_forward/backward and after_*
  std::span<float> gradient;  // backward adds to it

  std::vector<std::int64_t> local_shape() const;  // padding included
  std::int64_t local_count() const;
  std::int64_t count() const;  // of the whole parameter
  // Return `value` and `gradient` where they are here. Otherwise they throw InvalidUsage, which names the step that was
  // left out.
  std::span<float> value_here() const;
  std::span<float> gradient_here() const;
};

// Elements that lie one after the other both here and in the whole parameter.
struct Run {
  std::int64_t local = 0;
  std::int64_t global = 0;
  std::int64_t count = 0;
};

// Visits every element held here except padding, in local order.
void for_each_run(const Parameter& parameter, const std::function<void(const Run&)>& visit);

// The parameters of one model on one rank. Their addresses do not change.
class ParameterList {
 public:
  Parameter& add(Parameter parameter);
  std::deque<Parameter>& all() noexcept { return parameters_; }
  const std::deque<Parameter>& all() const noexcept { return parameters_; }
  // Returns null where there is no parameter of that name.
  Parameter* find(const std::string& name) noexcept;
  // Returns the number of units. They are numbered 0 .. units() - 1 in the order of the forward pass.
  int units() const noexcept;
  // Returns the elements of the whole parameters, each counted once.
  std::int64_t count() const;
  std::int64_t local_count() const;

 private:
  std::deque<Parameter> parameters_;
};

// Computes the elements of a parameter at the start of training. They depend on seed, name and index alone.
class Initializer {
 public:
  Initializer(const Parameter& parameter, std::uint64_t seed);
  // Fills `out` with the local elements [local_begin, local_begin + out.size()); padding is zero.
  void fill(std::int64_t local_begin, std::span<float> out) const;

 private:
  const Parameter& parameter_;
  std::uint64_t seed_;
};

}  // namespace wreath::training
