// This file computes the places of tensors in a file, writes its header as text, and reads and writes files by range.
#include "training/checkpoint/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <utility>

#include "training/checkpoint/header_text.hpp"

namespace wreath::training {

static_assert(std::endian::native == std::endian::little, "the format's bytes are this machine's");

namespace {

struct TypeRow {
  std::string_view name;
  int bits;
};
constexpr std::array<TypeRow, 20> kTypes = {{{"BOOL", 8}, {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
                                             {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
                                             {"U16", 16}, {"F16", 16},    {"BF16", 16},   {"I32", 32},    {"U32", 32},
                                             {"F32", 32}, {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64}}};

Error refused(const std::string& what) { return {ErrorCode::InvalidArgument, "safetensors: " + what}; }

// Returns the text as JSON, or nullopt where it is no UTF-8.
std::optional<std::string> json_text(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

// Returns the header as JSON. All names must be ones that json_text() takes.
std::string header_json(const SafetensorsHeader& header) {
  std::string text = "{";
  const auto add = [&](const std::string& key, const nlohmann::ordered_json& value) {
    if (text.size() > 1) text += ',';
    text += fmt::format("{}:{}", nlohmann::json(key).dump(), value.dump());
  };
  if (!header.metadata.empty()) add("__metadata__", header.metadata);
  for (const StoredTensor& tensor : header.tensors) {
    add(tensor.name,
        {{"dtype", name(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {tensor.begin, tensor.end}}});
  }
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

// Checks that [offset, offset + bytes) is inside the tensor.
Status check_range(const std::string& file, const StoredTensor& tensor, std::uint64_t offset, std::size_t bytes) {
  const std::uint64_t size = tensor.end - tensor.begin;
  if (offset <= size && bytes <= size - offset) return {};
  return Error{ErrorCode::InvalidArgument, fmt::format("{}: tensor {} has {} bytes, not {} from {} on", file,
                                                       in_quotes(tensor.name), size, bytes, offset)};
}

}  // namespace

std::string_view name(TensorType type) noexcept { return kTypes[static_cast<std::size_t>(type)].name; }
int bits_of(TensorType type) noexcept { return kTypes[static_cast<std::size_t>(type)].bits; }

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 200;
  const nlohmann::json shown(std::string(text.substr(0, kLongest)));
  return shown.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::optional<TensorType> parse_tensor_type(std::string_view text) noexcept {
  const auto row = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& type) { return type.name == text; });
  if (row == kTypes.end()) return std::nullopt;
  return static_cast<TensorType>(row - kTypes.begin());
}

std::optional<std::uint64_t> bytes_of(TensorType type, std::span<const std::int64_t> shape) noexcept {
  std::uint64_t bits = static_cast<std::uint64_t>(bits_of(type));
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bits, static_cast<std::uint64_t>(size), &bits)) return std::nullopt;
  }
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

const StoredTensor* SafetensorsHeader::find(std::string_view wanted) const noexcept {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == wanted; });
  return found == tensors.end() ? nullptr : &*found;
}

Result<SafetensorsHeader> lay_out_safetensors(std::vector<StoredTensor> tensors,
                                              std::map<std::string, std::string> metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return a.type != b.type ? a.type > b.type : a.name < b.name;
  });
  if (const std::optional<std::string> twice = repeated_name(tensors)) {
    return refused(fmt::format("tensor {} is there twice", in_quotes(*twice)));
  }
  std::uint64_t end = 0;
  for (StoredTensor& tensor : tensors) {
    if (tensor.name == "__metadata__" || !json_text(tensor.name)) {
      return refused(fmt::format("{} cannot be a tensor's name", in_quotes(tensor.name)));
    }
    const std::optional<std::uint64_t> bytes = bytes_of(tensor.type, tensor.shape);
    tensor.begin = end;
    if (!bytes || __builtin_add_overflow(end, *bytes, &end)) {
      return refused(fmt::format("tensor {} has an impossible shape", in_quotes(tensor.name)));
    }
    tensor.end = end;
  }
  for (const auto& [key, value] : metadata) {
    if (!json_text(key) || !json_text(value)) return refused("metadata " + in_quotes(key) + " is not UTF-8");
  }
  SafetensorsHeader header{std::move(tensors), std::move(metadata), 0};
  const std::size_t text_bytes = header_json(header).size();
  if (text_bytes > kMaximumHeaderBytes) return refused(fmt::format("a header of {} bytes is too long", text_bytes));
  header.header_bytes = sizeof(std::uint64_t) + text_bytes;
  return header;
}

std::string encode_safetensors(const SafetensorsHeader& header) {
  const std::string text = header_json(header);
  const auto length = std::bit_cast<std::array<char, sizeof(std::uint64_t)>>(std::uint64_t{text.size()});
  return std::string(length.begin(), length.end()) + text;
}

Result<SafetensorsReader> SafetensorsReader::open(const std::string& path) {
  Result<File> file = File::open_to_read(path);
  if (!file) return file.error();
  const Result<std::uint64_t> bytes = file->bytes();
  if (!bytes) return bytes.error();
  std::string start(std::min<std::uint64_t>(*bytes, sizeof(std::uint64_t)), '\0');
  WREATH_TRY(file->read(0, std::as_writable_bytes(std::span(start))));
  const Result<std::uint64_t> header_bytes = header_bytes_of(start, *bytes, path);
  if (!header_bytes) return header_bytes.error();
  start.resize(*header_bytes);
  WREATH_TRY(file->read(0, std::as_writable_bytes(std::span(start))));
  Result<SafetensorsHeader> header = parse_safetensors(start, *bytes, path);
  if (!header) return header.error();
  SafetensorsReader reader;
  reader.file_ = std::move(*file);
  reader.header_ = std::move(*header);
  return reader;
}

Status SafetensorsReader::read(const StoredTensor& tensor, std::uint64_t offset, std::span<std::byte> out) const {
  WREATH_TRY(check_range(path(), tensor, offset, out.size()));
  return file_.read(header_.header_bytes + tensor.begin + offset, out);
}

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& path, const SafetensorsHeader& header) {
  Result<File> file = File::create(path, header.file_bytes());
  if (!file) return file.error();
  const std::string start = encode_safetensors(header);
  WREATH_TRY(file->write(0, std::as_bytes(std::span(start))));
  SafetensorsWriter writer;
  writer.file_ = std::move(*file);
  writer.header_bytes_ = header.header_bytes;
  return writer;
}

Result<SafetensorsWriter> SafetensorsWriter::open(const std::string& path, const SafetensorsHeader& header) {
  Result<File> file = File::open_to_write(path);
  if (!file) return file.error();
  const Result<std::uint64_t> bytes = file->bytes();
  if (!bytes) return bytes.error();
  if (*bytes != header.file_bytes()) {
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("{}: it has {} bytes, not {}", path, *bytes, header.file_bytes())};
  }
  SafetensorsWriter writer;
  writer.file_ = std::move(*file);
  writer.header_bytes_ = header.header_bytes;
  return writer;
}

Status SafetensorsWriter::write(const StoredTensor& tensor, std::uint64_t offset,
                                std::span<const std::byte> bytes) const {
  WREATH_TRY(check_range(file_.path(), tensor, offset, bytes.size()));
  return file_.write(header_bytes_ + tensor.begin + offset, bytes);
}

}  // namespace wreath::training
