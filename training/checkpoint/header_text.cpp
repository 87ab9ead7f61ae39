// This file parses the header of a safetensors file from any bytes. It takes the events of a JSON parser, and checks
// the order in which they may come.
#include "training/checkpoint/header_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace wreath::training {

namespace {

using Json = nlohmann::json;

// Takes the parser's events. The first event that does not fit ends the parse, with the reason in refusal().
class HeaderEvents {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  bool null() { return refuse("null"); }
  bool boolean(bool) { return refuse("a boolean"); }
  bool number_integer(number_integer_t) { return refuse("a negative number"); }
  bool number_float(number_float_t, const string_t&) { return refuse("a number with a fraction"); }
  bool binary(binary_t&) { return refuse("binary"); }

  bool number_unsigned(number_unsigned_t value) {
    if (place_ == Place::Offsets && offsets_ < 2) {
      (offsets_++ == 0 ? tensor_.begin : tensor_.end) = value;
      return true;
    }
    if (place_ != Place::Shape || value > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
      return refuse(fmt::format("the number {}", value));
    }
    tensor_.shape.push_back(static_cast<std::int64_t>(value));
    return true;
  }

  bool string(string_t& text) {
    if (place_ == Place::Metadata) {
      if (!header_.metadata.emplace(key_, std::move(text)).second) return refuse("a second " + in_quotes(key_));
      return true;
    }
    if (place_ != Place::Tensor || key_ != "dtype") return refuse("the text " + in_quotes(text));
    const std::optional<TensorType> type = parse_tensor_type(text);
    if (!type) return fail(fmt::format("its dtype is {}, which is not known", in_quotes(text)));
    tensor_.type = *type;
    return true;
  }

  bool start_object(std::size_t) {
    if (place_ == Place::Start) return go(Place::Names);
    if (place_ != Place::Names) return refuse("an object");
    if (key_ != "__metadata__") {
      tensor_ = StoredTensor{key_, TensorType::F32, {}, 0, 0};
      has_type_ = has_shape_ = has_offsets_ = false;
      return go(Place::Tensor);
    }
    if (std::exchange(has_metadata_, true)) return refuse("a second __metadata__");
    return go(Place::Metadata);
  }

  bool key(string_t& text) {
    key_ = std::move(text);
    if (place_ != Place::Tensor) return true;
    bool* seen = key_ == "dtype" ? &has_type_ : key_ == "shape" ? &has_shape_ : nullptr;
    if (key_ == "data_offsets") seen = &has_offsets_;
    if (seen == nullptr) return refuse("the key " + in_quotes(key_));
    if (std::exchange(*seen, true)) return refuse("a second " + key_);
    return true;
  }

  bool start_array(std::size_t) {
    if (place_ == Place::Tensor && key_ == "shape") return go(Place::Shape);
    if (place_ != Place::Tensor || key_ != "data_offsets") return refuse("an array");
    offsets_ = 0;
    return go(Place::Offsets);
  }

  bool end_array() {
    if (place_ == Place::Offsets && offsets_ != 2) return fail("its data_offsets are not two numbers");
    return go(Place::Tensor);
  }

  bool end_object() {
    if (place_ == Place::Names) return go(Place::End);
    if (place_ == Place::Tensor) {
      if (!has_type_ || !has_shape_ || !has_offsets_) return fail("it lacks dtype, shape or data_offsets");
      header_.tensors.push_back(std::move(tensor_));
    }
    return go(Place::Names);
  }

  bool parse_error(std::size_t position, const std::string&, const Json::exception&) {
    refusal_ = fmt::format("its header is not JSON, or cut short, at byte {}", position);
    return false;
  }

  const std::string& refusal() const noexcept { return refusal_; }
  SafetensorsHeader& header() noexcept { return header_; }

 private:
  enum class Place { Start, Names, Metadata, Tensor, Shape, Offsets, End };

  bool go(Place place) {
    place_ = place;
    return true;
  }
  bool refuse(const std::string& what) {
    return fail(fmt::format("{} does not belong in {}", what,
                            place_ == Place::Shape     ? "its shape"
                            : place_ == Place::Offsets ? "its data_offsets"
                                                       : "the header"));
  }
  bool fail(const std::string& reason) {
    const bool in_tensor = place_ == Place::Tensor || place_ == Place::Shape || place_ == Place::Offsets;
    refusal_ = in_tensor ? fmt::format("tensor {}: {}", in_quotes(tensor_.name), reason) : reason;
    return false;
  }

  Place place_ = Place::Start;
  std::string key_;
  StoredTensor tensor_;
  int offsets_ = 0;
  bool has_type_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
  bool has_metadata_ = false;
  SafetensorsHeader header_;
  std::string refusal_;
};

// Sorts tensors by place. Returns the reason where they do not fill `data_bytes` exactly.
std::optional<std::string> wrong_places(std::vector<StoredTensor>& tensors, std::uint64_t data_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t end = 0;
  for (const StoredTensor& tensor : tensors) {
    const std::optional<std::uint64_t> bytes = bytes_of(tensor.type, tensor.shape);
    const auto wrong = [&](const std::string& reason) {
      return fmt::format("tensor {}: {}", in_quotes(tensor.name), reason);
    };
    if (!bytes) return wrong("its shape is too large, or no whole number of bytes");
    if (tensor.end < tensor.begin || tensor.end - tensor.begin != *bytes) {
      return wrong(fmt::format("its data_offsets [{}, {}] do not fit its {} bytes", tensor.begin, tensor.end, *bytes));
    }
    if (tensor.begin != end) {
      return wrong(fmt::format("it begins at {}, where the one before ends at {}", tensor.begin, end));
    }
    end = tensor.end;
    if (end > data_bytes) return wrong(fmt::format("it ends at {}, and the file holds {}: cut short", end, data_bytes));
  }
  if (end != data_bytes) return fmt::format("its tensors end at {} of {} bytes", end, data_bytes);
  return std::nullopt;
}

}  // namespace

std::optional<std::string> repeated_name(const std::vector<StoredTensor>& tensors) {
  std::vector<std::string_view> names;
  for (const StoredTensor& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return std::nullopt;
  return std::string(*twice);
}

Result<std::uint64_t> header_bytes_of(std::string_view start, std::uint64_t file_bytes, const std::string& file) {
  const auto wrong = [&](const std::string& reason) {
    return Error{ErrorCode::InvalidArgument, fmt::format("{}: {}", file, reason)};
  };
  std::uint64_t length = 0;
  if (file_bytes < sizeof length || start.size() < sizeof length) {
    return wrong(fmt::format("it is no safetensors file: it has {} bytes", file_bytes));
  }
  std::memcpy(&length, start.data(), sizeof length);
  if (length > kMaximumHeaderBytes) {
    return wrong(fmt::format("it is no safetensors file: its header would have {} bytes", length));
  }
  if (length > file_bytes - sizeof length) {
    return wrong(fmt::format("it is cut short: its header has {} bytes, the file {}", length, file_bytes));
  }
  return sizeof length + length;
}

Result<SafetensorsHeader> parse_safetensors(std::string_view start, std::uint64_t file_bytes, const std::string& file) {
  const Result<std::uint64_t> header_bytes = header_bytes_of(start, file_bytes, file);
  if (!header_bytes) return header_bytes.error();
  const auto wrong = [&](const std::string& reason) {
    return Error{ErrorCode::InvalidArgument, fmt::format("{}: {}", file, reason)};
  };
  if (start.size() < *header_bytes) return wrong("its header is not all there");
  const std::string_view text = start.substr(sizeof(std::uint64_t), *header_bytes - sizeof(std::uint64_t));
  if (text.empty() || text.front() != '{') return wrong("it is no safetensors file: its header does not begin with {");
  // The parser takes a byte 0 for the end of the text.
  if (const auto zero = text.find('\0'); zero != std::string_view::npos) {
    return wrong(fmt::format("a byte 0 at {} of its header, which JSON never has", zero));
  }
  HeaderEvents events;
  if (!Json::sax_parse(text, &events)) return wrong(events.refusal());
  SafetensorsHeader& header = events.header();
  header.header_bytes = *header_bytes;
  if (const auto twice = repeated_name(header.tensors)) {
    return wrong(fmt::format("tensor {} is there twice", in_quotes(*twice)));
  }
  if (const auto reason = wrong_places(header.tensors, file_bytes - *header_bytes)) return wrong(*reason);
  return std::move(header);
}

}  // namespace wreath::training
