// This file computes the parts of parameters and their initial values.
#include "training/parameters/parameter.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "training/random/philox.hpp"
#include "wreath/result.hpp"

namespace wreath::training {

namespace {

std::int64_t product(std::span<const std::int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

Range part_of(std::int64_t count, int parts, int index) noexcept {
  const std::int64_t length = count / parts;
  const std::int64_t longer = count % parts;
  return {index * length + std::min<std::int64_t>(index, longer), length + (index < longer ? 1 : 0)};
}

std::vector<std::int64_t> Parameter::local_shape() const {
  std::vector<std::int64_t> local = shape;
  if (sharded_axis >= 0) {
    std::int64_t held = 0;
    for (const Range& range : ranges) held += range.count;
    local[static_cast<std::size_t>(sharded_axis)] = held;
  }
  return local;
}

std::int64_t Parameter::local_count() const { return product(local_shape()); }
std::int64_t Parameter::count() const { return product(shape); }

namespace {

std::span<float> expect_here(const Parameter& parameter, std::span<float> elements, const char* what,
                             const char* steps) {
  if (static_cast<std::int64_t>(elements.size()) == parameter.local_count()) return elements;
  throw Exception({ErrorCode::InvalidUsage, parameter.name + ": its " + what + " is not here: " + steps + " of unit " +
                                                std::to_string(parameter.unit) + " was left out"});
}

}  // namespace

std::span<float> Parameter::value_here() const {
  return expect_here(*this, value, "value", "before_forward or before_backward");
}

std::span<float> Parameter::gradient_here() const {
  return expect_here(*this, gradient, "gradient", "before_backward");
}

void for_each_run(const Parameter& parameter, const std::function<void(const Run&)>& visit) {
  if (parameter.sharded_axis < 0) {
    visit({0, 0, parameter.count()});
    return;
  }
  const auto axis = static_cast<std::size_t>(parameter.sharded_axis);
  const std::span<const std::int64_t> shape(parameter.shape);
  const std::int64_t outer = product(shape.first(axis));
  const std::int64_t inner = product(shape.subspan(axis + 1));
  std::int64_t local = 0;
  for (std::int64_t row = 0; row < outer; ++row) {
    for (const Range& range : parameter.ranges) {
      const std::int64_t held = std::clamp<std::int64_t>(shape[axis] - range.begin, 0, range.count);
      if (held > 0) visit({local, (row * shape[axis] + range.begin) * inner, held * inner});
      local += range.count * inner;
    }
  }
}

Parameter& ParameterList::add(Parameter parameter) { return parameters_.emplace_back(std::move(parameter)); }

Parameter* ParameterList::find(const std::string& name) noexcept {
  const auto found =
      std::find_if(parameters_.begin(), parameters_.end(), [&](const Parameter& p) { return p.name == name; });
  return found == parameters_.end() ? nullptr : &*found;
}

int ParameterList::units() const noexcept {
  int units = 0;
  for (const Parameter& parameter : parameters_) units = std::max(units, parameter.unit + 1);
  return units;
}

std::int64_t ParameterList::count() const {
  std::int64_t sum = 0;
  for (const Parameter& parameter : parameters_) sum += parameter.count();
  return sum;
}

std::int64_t ParameterList::local_count() const {
  std::int64_t sum = 0;
  for (const Parameter& parameter : parameters_) sum += parameter.local_count();
  return sum;
}

Initializer::Initializer(const Parameter& parameter, std::uint64_t seed) : parameter_(parameter), seed_(seed) {}

void Initializer::fill(std::int64_t local_begin, std::span<float> out) const {
  std::fill(out.begin(), out.end(), 0.0f);
  const RandomStream stream(seed_, parameter_.name);
  const std::int64_t local_end = local_begin + static_cast<std::int64_t>(out.size());
  for_each_run(parameter_, [&](const Run& run) {
    const std::int64_t begin = std::max(run.local, local_begin);
    const std::int64_t end = std::min(run.local + run.count, local_end);
    for (std::int64_t local = begin; local < end; ++local) {
      float& value = out[static_cast<std::size_t>(local - local_begin)];
      value = parameter_.initial_mean;
      if (parameter_.initial_deviation == 0) continue;
      value += parameter_.initial_deviation * stream.normal(static_cast<std::uint64_t>(run.global + local - run.local));
    }
  });
}

}  // namespace wreath::training
