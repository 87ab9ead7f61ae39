// This file reads and divides sets of safetensors files and their index.
#include "training/checkpoint/file_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "training/checkpoint/header_text.hpp"

namespace wreath::training {

namespace {

Error wrong(const std::string& file, const std::string& what) {
  return {ErrorCode::InvalidArgument, fmt::format("{}: {}", file, what)};
}

std::string file_name(std::string_view stem, std::size_t index, std::size_t files) {
  return fmt::format("{}-{:05}-of-{:05}.safetensors", stem, index + 1, files);
}

// The names of tensors by the file that the index puts them in.
using WeightMap = std::map<std::string, std::vector<std::string>>;

Result<WeightMap> read_index(const std::string& path) {
  const Result<std::string> text = read_text(path, kMaximumHeaderBytes);
  if (!text) return text.error();
  const nlohmann::json json = nlohmann::json::parse(*text, nullptr, false);
  // The parser takes a byte 0 for the end of the text.
  if (json.is_discarded() || text->find('\0') != std::string::npos) {
    return wrong(path, "it is not JSON, or cut short");
  }
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || map == json.end() || !map->is_object()) return wrong(path, "it has no weight_map");
  WeightMap files;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : std::string();
    if (name.empty() || name.front() == '.' || name.find_first_of(std::string("/\0", 2)) != std::string::npos) {
      return wrong(path, fmt::format("tensor {} is in no file of this folder", in_quotes(tensor)));
    }
    files[name].push_back(tensor);
  }
  return files;
}

// Checks that a file holds exactly the tensors that the index names for it.
Status check_names(const std::string& path, const SafetensorsHeader& header, const std::vector<std::string>& wanted) {
  std::vector<std::string> held;
  for (const StoredTensor& tensor : header.tensors) held.push_back(tensor.name);
  std::sort(held.begin(), held.end());
  for (const std::string& name : wanted) {
    if (!std::binary_search(held.begin(), held.end(), name)) {
      return wrong(path, fmt::format("it lacks tensor {}, which the index puts there", in_quotes(name)));
    }
  }
  for (const std::string& name : held) {
    if (!std::binary_search(wanted.begin(), wanted.end(), name)) {
      return wrong(path, fmt::format("tensor {} is not in the index", in_quotes(name)));
    }
  }
  return {};
}

}  // namespace

std::map<std::string, FileSet::Place, std::less<>> FileSet::places() const {
  std::map<std::string, Place, std::less<>> places;
  for (std::size_t file = 0; file < headers.size(); ++file) {
    for (const StoredTensor& tensor : headers[file].tensors) places[tensor.name] = {file, &tensor};
  }
  return places;
}

Result<FileSet> divide(std::string_view stem, std::vector<StoredTensor> tensors, std::uint64_t file_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  if (const auto twice = repeated_name(tensors)) {
    return wrong("checkpoint", fmt::format("tensor {} is there twice", in_quotes(*twice)));
  }
  std::vector<std::vector<StoredTensor>> files;
  std::uint64_t held = 0;
  for (StoredTensor& tensor : tensors) {
    // lay_out_safetensors() reports impossible shapes.
    const std::uint64_t bytes = bytes_of(tensor.type, tensor.shape).value_or(0);
    if (files.empty() || held + bytes > file_bytes) {
      files.emplace_back();
      held = 0;
    }
    held += bytes;
    files.back().push_back(std::move(tensor));
  }
  FileSet set{std::string(stem), {}, {}};
  for (std::size_t i = 0; i < files.size(); ++i) {
    // Transformers refuse files that do not say for which framework they are.
    Result<SafetensorsHeader> header = lay_out_safetensors(std::move(files[i]), {{"format", "pt"}});
    if (!header) return header.error();
    set.headers.push_back(std::move(*header));
    set.names.push_back(file_name(stem, i, files.size()));
  }
  return set;
}

std::string index_name(std::string_view stem) { return std::string(stem) + ".safetensors.index.json"; }

std::string index_text(const FileSet& set) {
  nlohmann::ordered_json json;
  std::uint64_t total = 0;
  nlohmann::json map = nlohmann::json::object();
  for (std::size_t i = 0; i < set.headers.size(); ++i) {
    for (const StoredTensor& tensor : set.headers[i].tensors) {
      map[tensor.name] = set.names[i];
      total += tensor.end - tensor.begin;
    }
  }
  json["metadata"]["total_size"] = total;
  json["weight_map"] = map;
  return json.dump(2) + "\n";
}

Result<FileSet> open_file_set(const std::string& folder, std::string_view stem) {
  FileSet set{std::string(stem), {}, {}};
  const std::string index = folder + "/" + index_name(stem);
  const std::string single = std::string(stem) + ".safetensors";
  std::error_code ignored;
  if (!std::filesystem::exists(index, ignored) && std::filesystem::exists(folder + "/" + single, ignored)) {
    Result<SafetensorsReader> reader = SafetensorsReader::open(folder + "/" + single);
    if (!reader) return reader.error();
    set.names.push_back(single);
    set.headers.push_back(reader->header());
    return set;
  }
  const Result<WeightMap> files = read_index(index);
  if (!files) return files.error();
  for (const auto& [name, tensors] : *files) {
    Result<SafetensorsReader> reader = SafetensorsReader::open(folder + "/" + name);
    if (!reader) return reader.error();
    WREATH_TRY(check_names(folder + "/" + name, reader->header(), tensors));
    set.names.push_back(name);
    set.headers.push_back(reader->header());
  }
  return set;
}

}  // namespace wreath::training
