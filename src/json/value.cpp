// Implements the tree, and its text by nlohmann's parser and writer.
#include "src/json/value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <istream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

namespace wreath {

// Converts between this tree and the library's. Parsing needs no stack of its own for a text's levels.
class JsonCodec : public nlohmann::json_sax<nlohmann::ordered_json> {
 public:
  using Tree = nlohmann::ordered_json;

  static Tree tree_of(const Json& json, bool sorted);

  bool null() override { return add(Json()); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool key(string_t& value) override;
  bool end_object() override;
  bool end_array() override;
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override;

  Json take() { return std::move(root_); }
  const std::string& error() const { return error_; }

 private:
  bool add(Json value);
  bool open(Json value);

  Json root_;
  // Holds arrays, objects, and members that wait for their value, the outermost first.
  std::vector<Json*> open_;
  std::string error_;
};

namespace {

constexpr const char* kKinds[] = {"null",     "a truth value", "a number", "a number",
                                  "a number", "a text",        "an array", "an object"};

using Members = std::vector<const Json::Object::value_type*>;

// Returns the members by name; members of one name stay in the order in which they were added.
Members by_name(const Json::Object& object) {
  Members members;
  members.reserve(object.size());
  for (const auto& member : object) members.push_back(&member);
  std::stable_sort(members.begin(), members.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  return members;
}

// Merges members of one name. The member stands where the text has the name first, with the name's last value.
void merge_members(Json::Object& object) {
  Members members = by_name(object);
  bool merged = false;
  for (std::size_t i = members.size(); i-- > 1;) {
    auto& later = object[static_cast<std::size_t>(members[i] - object.data())];
    auto& earlier = object[static_cast<std::size_t>(members[i - 1] - object.data())];
    if (later.first != earlier.first) continue;
    earlier.second = std::move(later.second);
    members[i] = nullptr;
    merged = true;
  }
  if (!merged) return;
  std::vector<bool> stays(object.size());
  for (const auto* member : members) {
    if (member != nullptr) stays[static_cast<std::size_t>(member - object.data())] = true;
  }
  Json::Object kept;
  for (std::size_t i = 0; i < object.size(); ++i) {
    if (stays[i]) kept.push_back(std::move(object[i]));
  }
  object = std::move(kept);
}

// Returns the value of `text`; where there is none, `error` gets the reason. A byte 0 is an error, for the library
// takes it for the end of the text, whatever comes behind it.
std::optional<Json> decode(std::string_view text, std::string* error) {
  const std::size_t zero = text.find('\0');
  JsonCodec codec;
  if (zero == std::string_view::npos && JsonCodec::Tree::sax_parse(text, &codec)) return codec.take();
  if (error != nullptr) {
    *error = zero == std::string_view::npos ? codec.error() : fmt::format("a byte 0 at {}, which JSON never has", zero);
  }
  return std::nullopt;
}

std::string all_of(std::istream& stream) {
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

}  // namespace

JsonCodec::Tree JsonCodec::tree_of(const Json& json, bool sorted) {
  if (const auto* list = std::get_if<Json::Array>(&json.value_)) {
    Tree tree = Tree::array();
    for (const Json& each : *list) tree.push_back(tree_of(each, sorted));
    return tree;
  }
  if (const auto* object = std::get_if<Json::Object>(&json.value_)) {
    Tree::object_t tree;
    tree.reserve(object->size());
    const auto copy = [&](const auto& member) {
      tree.Container::emplace_back(member.first, tree_of(member.second, sorted));
    };
    if (!sorted) std::for_each(object->begin(), object->end(), copy);
    const Members members = sorted ? by_name(*object) : Members{};
    for (const auto* member : members) copy(*member);
    return tree;
  }
  return std::visit(
      [](const auto& value) -> Tree {
        using Value = std::remove_cvref_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, Json::Array> || std::is_same_v<Value, Json::Object>)
          return nullptr;
        else
          return value;
      },
      json.value_);
}

bool JsonCodec::add(Json value) {
  if (open_.empty()) {
    root_ = std::move(value);
    return true;
  }
  Json& parent = *open_.back();
  if (auto* list = std::get_if<Json::Array>(&parent.value_)) {
    list->push_back(std::move(value));
  } else {
    std::get<Json::Object>(parent.value_).back().second = std::move(value);
  }
  return true;
}

bool JsonCodec::open(Json value) {
  add(std::move(value));
  if (open_.empty()) {
    open_.push_back(&root_);
    return true;
  }
  Json& parent = *open_.back();
  auto* list = std::get_if<Json::Array>(&parent.value_);
  open_.push_back(list != nullptr ? &list->back() : &std::get<Json::Object>(parent.value_).back().second);
  return true;
}

bool JsonCodec::key(string_t& value) {
  std::get<Json::Object>(open_.back()->value_).emplace_back(std::move(value), Json());
  return true;
}

bool JsonCodec::end_object() {
  merge_members(std::get<Json::Object>(open_.back()->value_));
  return end_array();
}

bool JsonCodec::end_array() {
  open_.pop_back();
  return true;
}

bool JsonCodec::parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) {
  error_ = error.what();
  return false;
}

Json::Json() = default;
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;

// Destroys values level by level: a text of 100 000 open brackets must not take a stack of 100 000 calls.
Json::~Json() {
  Array parts;
  move_parts(parts);
  while (!parts.empty()) {
    Json last = std::move(parts.back());
    parts.pop_back();
    last.move_parts(parts);
  }
}

// Moves the arrays and objects within this one to the end of `parts`.
void Json::move_parts(Array& parts) {
  const auto take = [&](Json& each) {
    if ((each.is_array() || each.is_object()) && !each.empty()) parts.push_back(std::move(each));
  };
  if (auto* list = std::get_if<Array>(&value_)) std::for_each(list->begin(), list->end(), take);
  if (auto* object = std::get_if<Object>(&value_)) {
    for (auto& member : *object) take(member.second);
  }
}

Json::Json(std::nullptr_t) {}
Json::Json(const char* text) : value_(std::string(text)) {}
Json::Json(std::string_view text) : value_(std::string(text)) {}
Json::Json(std::string text) : value_(std::move(text)) {}
Json::Json(Exact<bool> value) : value_(value.value) {}
Json::Json(Exact<std::int64_t> value) : value_(value.value) {}
Json::Json(Exact<std::uint64_t> value) : value_(value.value) {}
Json::Json(Exact<double> value) : value_(value.value) {}

Json::Json(std::initializer_list<Json> list) {
  const bool pairs = std::all_of(list.begin(), list.end(), [](const Json& each) {
    return each.is_array() && each.size() == 2 && each.at(std::size_t{0}).is_string();
  });
  if (!pairs) {
    value_ = Array(list);
    return;
  }
  Object& object = value_.emplace<Object>();
  for (const Json& each : list) object.emplace_back(each.at(std::size_t{0}).text(), each.at(std::size_t{1}));
}

Json Json::array() {
  Json json;
  json.value_.emplace<Array>();
  return json;
}

Json Json::object() {
  Json json;
  json.value_.emplace<Object>();
  return json;
}

Json Json::parse(std::string_view text) {
  std::string error;
  std::optional<Json> json = decode(text, &error);
  if (!json) throw JsonError(error);
  return *std::move(json);
}
Json Json::parse(std::istream& text) { return parse(all_of(text)); }
std::optional<Json> Json::read(std::string_view text) { return decode(text, nullptr); }
std::optional<Json> Json::read(std::istream& text) { return decode(all_of(text), nullptr); }

std::string Json::dump(const JsonStyle& style) const {
  using Handler = JsonCodec::Tree::error_handler_t;
  try {
    return JsonCodec::tree_of(*this, style.sorted)
        .dump(style.indent, ' ', false, style.strict ? Handler::strict : Handler::replace);
  } catch (const JsonCodec::Tree::exception& error) {
    throw JsonError(error.what());
  }
}

bool Json::is_number() const {
  return std::holds_alternative<std::int64_t>(value_) || std::holds_alternative<std::uint64_t>(value_) ||
         std::holds_alternative<double>(value_);
}

std::size_t Json::size() const {
  if (const auto* list = std::get_if<Array>(&value_)) return list->size();
  if (const auto* object = std::get_if<Object>(&value_)) return object->size();
  return is_null() ? 0 : 1;
}

const Json* Json::find(std::string_view name) const {
  const auto* object = std::get_if<Object>(&value_);
  if (object == nullptr) return nullptr;
  const auto found = std::find_if(object->begin(), object->end(), [&](const auto& each) { return each.first == name; });
  return found == object->end() ? nullptr : &found->second;
}

const Json& Json::operator[](std::string_view name) const {
  static const Json nothing;
  const Json* found = find(name);
  return found == nullptr ? nothing : *found;
}

Json& Json::operator[](std::string_view name) {
  if (is_null()) value_.emplace<Object>();
  if (const Json* found = find(name)) return const_cast<Json&>(*found);
  auto* object = std::get_if<Object>(&value_);
  if (object == nullptr) refuse("an object");
  return object->emplace_back(name, Json()).second;
}

const Json& Json::at(std::string_view name) const {
  const Json* found = find(name);
  if (found != nullptr) return *found;
  if (!is_object()) refuse("an object");
  throw JsonError(fmt::format("\"{}\" is missing", name));
}

const Json& Json::at(std::size_t index) const {
  const Array& entries = list();
  if (index < entries.size()) return entries[index];
  throw JsonError(fmt::format("entry {} of a list of {}", index, entries.size()));
}

const Json::Object& Json::items() const {
  const auto* object = std::get_if<Object>(&value_);
  if (object == nullptr) refuse("an object");
  return *object;
}

std::string Json::text_or(std::string_view name, std::string_view otherwise) const {
  const Json* found = find(name);
  return found != nullptr && found->is_string() ? found->text() : std::string(otherwise);
}

const Json* Json::begin() const {
  const auto* list = std::get_if<Array>(&value_);
  return list == nullptr ? nullptr : list->data();
}

const Json* Json::end() const {
  const auto* list = std::get_if<Array>(&value_);
  return list == nullptr ? nullptr : list->data() + list->size();
}

void Json::push_back(Json value) {
  if (is_null()) value_.emplace<Array>();
  auto* list = std::get_if<Array>(&value_);
  if (list == nullptr) refuse("an array");
  list->push_back(std::move(value));
}

std::optional<std::int64_t> Json::integer() const {
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return *value;
  const auto* value = std::get_if<std::uint64_t>(&value_);
  if (value == nullptr || !std::in_range<std::int64_t>(*value)) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

std::uint64_t Json::unsigned_integer() const {
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) return *value;
  const auto* value = std::get_if<std::int64_t>(&value_);
  if (value == nullptr || *value < 0) refuse("a whole number in range");
  return static_cast<std::uint64_t>(*value);
}

void Json::refuse(std::string_view wanted) const {
  throw JsonError(fmt::format("{} where {} is expected", kKinds[value_.index()], wanted));
}

bool Json::boolean() const {
  if (!is_boolean()) refuse("a truth value");
  return std::get<bool>(value_);
}

double Json::number() const {
  if (const auto* value = std::get_if<double>(&value_)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*value);
  refuse("a number");
}

const std::string& Json::text() const {
  if (!is_string()) refuse("a text");
  return std::get<std::string>(value_);
}

const Json::Array& Json::list() const {
  if (!is_array()) refuse("an array");
  return std::get<Array>(value_);
}

}  // namespace wreath
