// Parameters: what each is called, which part of it this rank holds, and where its values and gradients are now.
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

// Near-equal contiguous parts of 0 .. count - 1; the first ones are longer.
Range part_of(std::int64_t count, int parts, int index) noexcept;

// A weight of the whole model and this tensor-parallel rank's part of it. Layers add them, in the order of the forward
// pass; a DataParallel (strategy.hpp) gives them memory. Elements are float32, row-major.
struct Parameter {
  std::string name;                 // as HF's GPT-2 names it: "h.0.attn.c_attn.weight"
  std::vector<std::int64_t> shape;  // of the whole parameter, without padding
  int sharded_axis = -1;            // that tensor parallelism divides (0 or 1); -1: every tensor rank holds all of it
  std::vector<Range> ranges;        // held indices of that axis, in their order here; indices from shape[axis] on are
                                    // padding, which stays zero
  float initial_mean = 0;           // its values are drawn from a normal distribution
  float initial_deviation = 0;
  bool decays = false;               // weight decay applies
  bool gradient_is_partial = false;  // each tensor rank has a share of the gradient: they are summed over tp
  bool tied = false;                 // held by the first and the last pipeline stage: summed over both
  int unit = 0;                      // which part of the model uses it (strategy.hpp)
  std::span<float> value;            // valid between before_forward/backward and after_*
  std::span<float> gradient;         // backward adds to it

  std::vector<std::int64_t> local_shape() const;  // padding included
  std::int64_t local_count() const;
  std::int64_t count() const;  // of the whole parameter
  // `value` and `gradient`, where they are here. Else InvalidUsage is thrown: it names the step that was left out.
  std::span<float> value_here() const;
  std::span<float> gradient_here() const;
};

// Elements that lie one after the other both here and in the whole parameter.
struct Run {
  std::int64_t local = 0;
  std::int64_t global = 0;
  std::int64_t count = 0;
};

// Every element held here but padding, in local order.
void for_each_run(const Parameter& parameter, const std::function<void(const Run&)>& visit);

// One model's, of one rank. Addresses stay.
class ParameterList {
 public:
  Parameter& add(Parameter parameter);
  std::deque<Parameter>& all() noexcept { return parameters_; }
  const std::deque<Parameter>& all() const noexcept { return parameters_; }
  // Null where there is none of that name.
  Parameter* find(const std::string& name) noexcept;
  // Units are numbered 0 .. units() - 1 in the order of the forward pass.
  int units() const noexcept;
  // Elements of the whole parameters, each once.
  std::int64_t count() const;
  std::int64_t local_count() const;

 private:
  std::deque<Parameter> parameters_;
};

// Element `global` of the parameter as the model starts: a function of seed, name and index alone.
class Initializer {
 public:
  Initializer(const Parameter& parameter, std::uint64_t seed);
  // Fills out[0 ..) with the local elements [local_begin, local_begin + out.size()), zero where they are padding.
  void fill(std::int64_t local_begin, std::span<float> out) const;

 private:
  const Parameter& parameter_;
  std::uint64_t seed_;
};

}  // namespace wreath::training
