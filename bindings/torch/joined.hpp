// Makes tensors the one buffer that a call takes: themselves where they lie one after the other, else a copy.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <vector>

#include "bindings/torch/elements.hpp"
#include "wreath/call.hpp"

namespace wreath_torch {

class Joined {
 public:
  Joined() = default;
  // `elements` are the tensors', computed in `type`, which may be another dtype than theirs. `filled` says that a copy
  // holds what the tensors hold.
  Joined(std::vector<at::Tensor> tensors, const Elements& elements, c10::ScalarType type, bool filled);

  // Returns the buffer; null without tensors.
  std::byte* data() const { return data_; }
  // Counts Wreath's elements of all tensors.
  std::size_t count() const { return count_; }
  // Counts Wreath's elements of each tensor.
  const std::vector<std::size_t>& counts() const { return counts_; }
  bool even() const;
  // Copies an input that meets the output. A call takes such an input only where it starts `distance` bytes after the
  // output (`in_place`).
  void keep_apart_from(const Joined& output, bool in_place, std::size_t distance);
  // Copies into the tensors, where there is a copy.
  void spread();

 private:
  void copy(bool filled);
  std::vector<at::Tensor> tensors_;
  std::vector<std::size_t> counts_;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
  std::byte* data_ = nullptr;
  c10::ScalarType type_ = c10::ScalarType::Byte;
  at::Tensor copy_;
};

}  // namespace wreath_torch
