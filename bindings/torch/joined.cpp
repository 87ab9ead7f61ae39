// Joins tensors: see joined.hpp. Adjacent tensors, as chunks of one are, need no copy.
#include "bindings/torch/joined.hpp"

#include <algorithm>
#include <utility>

namespace wreath_torch {
namespace {

std::byte* address_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

bool adjacent(const std::vector<at::Tensor>& tensors, c10::ScalarType type) {
  const std::byte* end = nullptr;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.scalar_type() != type || !is_plain(tensor)) return false;
    if (tensor.numel() == 0) continue;
    if (end != nullptr && address_of(tensor) != end) return false;
    end = address_of(tensor) + tensor.nbytes();
  }
  return true;
}

}  // namespace

Joined::Joined(std::vector<at::Tensor> tensors, const Elements& elements, c10::ScalarType type, bool filled)
    : tensors_(std::move(tensors)), type_(type) {
  for (const at::Tensor& tensor : tensors_) {
    counts_.push_back(static_cast<std::size_t>(tensor.numel()) * elements.per_element);
    count_ += counts_.back();
  }
  bytes_ = count_ * wreath::size_of(elements.dtype);
  if (!adjacent(tensors_, type)) copy(filled);
  for (const at::Tensor& tensor : tensors_) {
    // Where there is a copy, `data_` is set already.
    if (data_ == nullptr && tensor.numel() > 0) data_ = address_of(tensor);
  }
}

bool Joined::even() const {
  return std::all_of(counts_.begin(), counts_.end(), [this](std::size_t count) { return count == counts_.front(); });
}

void Joined::copy(bool filled) {
  std::int64_t total = 0;
  for (const at::Tensor& tensor : tensors_) total += tensor.numel();
  copy_ = at::empty({total}, at::TensorOptions(type_));
  data_ = address_of(copy_);
  if (!filled) return;
  std::int64_t first = 0;
  for (const at::Tensor& tensor : tensors_) {
    copy_.narrow(0, first, tensor.numel()).view(tensor.sizes()).copy_(tensor);
    first += tensor.numel();
  }
}

void Joined::keep_apart_from(const Joined& output, bool in_place, std::size_t distance) {
  if (copy_.defined() || output.copy_.defined() || bytes_ == 0 || output.bytes_ == 0) return;
  if (in_place && data_ == output.data_ + distance) return;
  if (data_ < output.data_ + output.bytes_ && output.data_ < data_ + bytes_) copy(true);
}

void Joined::spread() {
  if (!copy_.defined()) return;
  std::int64_t first = 0;
  for (at::Tensor& tensor : tensors_) {
    tensor.copy_(copy_.narrow(0, first, tensor.numel()).view(tensor.sizes()));
    first += tensor.numel();
  }
}

}  // namespace wreath_torch
