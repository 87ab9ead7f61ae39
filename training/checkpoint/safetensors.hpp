// This file declares the safetensors format: named tensors in one file that Python's safetensors opens.
//
// A file begins with u64 little-endian N. N bytes of JSON {"name": {"dtype", "shape", "data_offsets": [begin, end]},
// ...} follow, padded with spaces to a multiple of 8. The tensors' bytes come last: little-endian, row-major, without
// holes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "training/checkpoint/file.hpp"

namespace wreath::training {

// The element types, in the format's order of alignment.
enum class TensorType : std::uint8_t {
  Bool,
  F4,
  F6_E2M3,
  F6_E3M2,
  U8,
  I8,
  F8_E5M2,
  F8_E4M3,
  F8_E8M0,
  I16,
  U16,
  F16,
  BF16,
  I32,
  U32,
  F32,
  C64,
  F64,
  I64,
  U64,
};
std::string_view name(TensorType type) noexcept;
int bits_of(TensorType type) noexcept;

// A tensor of a file. `begin` and `end` count bytes from the end of the header.
struct StoredTensor {
  std::string name;
  TensorType type = TensorType::F32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;            // by begin
  std::map<std::string, std::string> metadata;  // "__metadata__"
  std::uint64_t header_bytes = 0;               // before the first tensor's
  std::uint64_t file_bytes() const noexcept { return header_bytes + (tensors.empty() ? 0 : tensors.back().end); }
  // Returns null where there is no such tensor.
  const StoredTensor* find(std::string_view name) const noexcept;
};

inline constexpr std::uint64_t kMaximumHeaderBytes = 100'000'000;

// Gives tensors their places: by alignment of the type, highest first, then by name. The error is InvalidArgument and
// names the tensor. It comes where the name is taken, "__metadata__" or no UTF-8, or where the shape is negative or too
// large.
Result<SafetensorsHeader> lay_out_safetensors(std::vector<StoredTensor> tensors,
                                              std::map<std::string, std::string> metadata);
// Returns the file's first header_bytes.
std::string encode_safetensors(const SafetensorsHeader& header);
// Parses the header of a file of `file_bytes` bytes. `start` is the file's first 8 bytes and as much of the header as
// the file has. Anything that the format does not allow is InvalidArgument, which names `file`, the tensor and the
// reason.
Result<SafetensorsHeader> parse_safetensors(std::string_view start, std::uint64_t file_bytes, const std::string& file);

// Reads ranges of a file, and keeps only its header in memory. Any thread may read.
class SafetensorsReader {
 public:
  static Result<SafetensorsReader> open(const std::string& path);
  const std::string& path() const noexcept { return file_.path(); }
  const SafetensorsHeader& header() const noexcept { return header_; }
  // Fills `out` with the tensor's bytes from `offset` on. The tensor must have so many.
  Status read(const StoredTensor& tensor, std::uint64_t offset, std::span<std::byte> out) const;

 private:
  File file_;
  SafetensorsHeader header_;
};

// Writes ranges of a file, whose header and size are there from its start. Several writers may write to one file.
class SafetensorsWriter {
 public:
  static Result<SafetensorsWriter> create(const std::string& path, const SafetensorsHeader& header);
  // Opens a file that create() has made with the same header.
  static Result<SafetensorsWriter> open(const std::string& path, const SafetensorsHeader& header);
  Status write(const StoredTensor& tensor, std::uint64_t offset, std::span<const std::byte> bytes) const;
  Status sync() const { return file_.sync(); }

 private:
  File file_;
  std::uint64_t header_bytes_ = 0;
};

}  // namespace wreath::training
