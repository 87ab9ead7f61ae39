// This file declares tensors over the files of a set, divided as HF's transformers divide them:
// model-00001-of-00002.safetensors ... and model.safetensors.index.json.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "training/checkpoint/safetensors.hpp"

namespace wreath::training {

inline constexpr std::string_view kModelFiles = "model";
inline constexpr std::string_view kOptimizerFiles = "optimizer";

struct FileSet {
  std::string stem;                        // "model"
  std::vector<std::string> names;          // of its files
  std::vector<SafetensorsHeader> headers;  // one for each
  // The file and the tensor of a name.
  struct Place {
    std::size_t file = 0;
    const StoredTensor* tensor = nullptr;
  };
  std::map<std::string, Place, std::less<>> places() const;
};

// Divides tensors by name over files, each of up to `file_bytes` of tensors, but at least one tensor. Without tensors
// there are no files.
Result<FileSet> divide(std::string_view stem, std::vector<StoredTensor> tensors, std::uint64_t file_bytes);
// Returns "model.safetensors.index.json".
std::string index_name(std::string_view stem);
// Returns the index's content: {"metadata": {"total_size": bytes}, "weight_map": {name: file}}.
std::string index_text(const FileSet& set);
// Reads the index (or, where there is none, the single file model.safetensors) and every header. Errors name the file
// and the tensor. They are a malformed index, a file that is missing, torn or foreign, and a tensor that only one of
// index and file has.
Result<FileSet> open_file_set(const std::string& folder, std::string_view stem);

}  // namespace wreath::training
