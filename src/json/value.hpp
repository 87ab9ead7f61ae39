// JSON as a value that is built, read, written as text and parsed from it. The library that writes and parses takes
// seconds to compile wherever it is included; value.cpp alone includes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace wreath {

// A text is no JSON, or a value is not what was asked for.
class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct JsonStyle {
  int indent = -1;      // spaces of a level; -1: all on one line
  bool sorted = false;  // members by name; else in the order in which they were added
  bool strict = true;   // text that is not UTF-8 throws JsonError; else U+FFFD takes the place of what is wrong
};

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;  // each name once

  Json();  // null, which becomes an object or an array by what is added to it
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();  // takes values of any depth

  Json(std::nullptr_t);
  Json(const char* text);
  Json(std::string_view text);
  Json(std::string text);
  template <typename T>
  requires std::is_arithmetic_v<T> Json(T value) : Json(Exact<Stored<T>>{static_cast<Stored<T>>(value)}) {}
  template <typename T>
  Json(const std::vector<T>& list) : Json(array()) {
    for (const T& each : list) push_back(each);
  }
  // An object where each entry is a pair that begins with a text, as in {{"rank", 0}, {"host", host}}; else an array.
  Json(std::initializer_list<Json> list);

  static Json array();
  static Json object();
  // Throws JsonError, which says where it stops being JSON.
  static Json parse(std::string_view text);
  static Json parse(std::istream& text);
  // Nothing where the text is no JSON.
  static std::optional<Json> read(std::string_view text);
  static std::optional<Json> read(std::istream& text);
  std::string dump(const JsonStyle& style = {}) const;

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
  bool is_boolean() const { return std::holds_alternative<bool>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  bool is_number() const;

  // Entries of an array, members of an object; 0 of null, 1 of anything else.
  std::size_t size() const;
  bool empty() const { return size() == 0; }

  // These look up a member. They give nullptr, or null, where there is no such member or this is no object.
  const Json* find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  const Json& operator[](std::string_view name) const;
  // The member, which is made where there is none. Throws JsonError where this is neither an object nor null.
  Json& operator[](std::string_view name);
  // These throw JsonError where there is no such value.
  const Json& at(std::string_view name) const;
  const Json& at(std::size_t index) const;
  const Object& items() const;
  // The member's text; `otherwise` where there is none.
  std::string text_or(std::string_view name, std::string_view otherwise) const;

  // These give the entries of an array; anything else has none.
  const Json* begin() const;
  const Json* end() const;
  const Json& operator[](std::size_t index) const { return at(index); }
  // Throws JsonError where this is neither an array nor null.
  void push_back(Json value);

  // A truth value, number, text, or list of them. Throws JsonError where it is another, or out of the type's range.
  template <typename T>
  T get() const;
  template <typename T>
  void get_to(T& target) const {
    target = get<T>();
  }
  // Nothing where this is no whole number, or none that fits.
  std::optional<std::int64_t> integer() const;

 private:
  friend class JsonCodec;
  template <typename T>
  struct Exact {
    T value;
  };
  template <typename T>
  using Stored =
      std::conditional_t<std::is_same_v<T, bool>, bool,
                         std::conditional_t<std::is_floating_point_v<T>, double,
                                            std::conditional_t<std::is_unsigned_v<T>, std::uint64_t, std::int64_t>>>;
  explicit Json(Exact<bool> value);
  explicit Json(Exact<std::int64_t> value);
  explicit Json(Exact<std::uint64_t> value);
  explicit Json(Exact<double> value);

  [[noreturn]] void refuse(std::string_view wanted) const;
  bool boolean() const;
  double number() const;
  const std::string& text() const;
  const Array& list() const;
  std::uint64_t unsigned_integer() const;
  void move_parts(Array& parts);

  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> value_;
};

template <typename T>
T Json::get() const {
  if constexpr (std::is_same_v<T, bool>) {
    return boolean();
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(number());
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    return unsigned_integer();
  } else if constexpr (std::is_integral_v<T>) {
    const std::optional<std::int64_t> value = integer();
    if (!value || !std::in_range<T>(*value)) refuse("a whole number in range");
    return static_cast<T>(*value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return text();
  } else {
    T values;
    for (const Json& each : list()) values.push_back(each.get<typename T::value_type>());
    return values;
  }
}

}  // namespace wreath
