// A libFuzzer target. A file of tensors may be any bytes; an accepted one fills the file exactly and gives the same
// header again.
#include "training/checkpoint/safetensors.hpp"

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "training/checkpoint/header_text.hpp"

namespace {

void require(bool fine) {
  if (!fine) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace wreath::training;
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto header = parse_safetensors(file, size, "input");
  if (!header) return 0;
  require(header->file_bytes() == size);
  std::uint64_t end = 0;
  for (const StoredTensor& tensor : header->tensors) {
    require(tensor.begin == end && bytes_of(tensor.type, tensor.shape) == tensor.end - tensor.begin);
    end = tensor.end;
  }
  const auto laid_out = lay_out_safetensors(header->tensors, header->metadata);
  // The header had the largest length that is allowed.
  if (!laid_out) return 0;
  const auto again = parse_safetensors(encode_safetensors(*laid_out), laid_out->file_bytes(), "again");
  require(again && again->tensors.size() == header->tensors.size() && again->metadata == header->metadata);
  return 0;
}
