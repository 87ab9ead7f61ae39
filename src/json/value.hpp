// Holds JSON as a value that is built, read, written as text and parsed from it. The library that writes and parses
// takes seconds to compile wherever it is included, so value.cpp alone includes it.
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

// Says that a text is no JSON, or that a value is not what was asked for.
class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct JsonStyle {
  // Counts the spaces of a level; with -1 all is on one line.
  int indent = -1;
  // Puts members in the order of their names; else they are in the order in which they were added.
  bool sorted = false;
  // Makes text that is not UTF-8 throw JsonError; else U+FFFD takes the place of what is wrong.
  bool strict = true;
};

class Json {
 public:
  using Array = std::vector<Json>;
  // Holds each name once.
  using Object = std::vector<std::pair<std::string, Json>>;

  // Makes null, which becomes an object or an array by what is added to it.
  Json();
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  // Destroys values of any depth.
  ~Json();

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
  // Makes an object where each entry is a pair that begins with a text, as in {{"rank", 0}, {"host", host}}; else an
  // array.
  Json(std::initializer_list<Json> list);

  static Json array();
  static Json object();
  // Throws JsonError, which says where the text stops being JSON.
  static Json parse(std::string_view text);
  static Json parse(std::istream& text);
  // Returns nothing where the text is no JSON.
  static std::optional<Json> read(std::string_view text);
  static std::optional<Json> read(std::istream& text);
  std::string dump(const JsonStyle& style = {}) const;

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
  bool is_boolean() const { return std::holds_alternative<bool>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  bool is_number() const;

  // Counts the entries of an array or the members of an object. Null has 0, and anything else 1.
  std::size_t size() const;
  bool empty() const { return size() == 0; }

  // Returns the member, or nullptr where there is no such member or this is no object.
  const Json* find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  // Returns the member, or null where there is no such member or this is no object.
  const Json& operator[](std::string_view name) const;
  // Returns the member, which is made where there is none. Throws JsonError where this is neither an object nor null.
  Json& operator[](std::string_view name);
  // Returns the member; throws JsonError where there is none.
  const Json& at(std::string_view name) const;
  // Returns the entry; throws JsonError where there is none.
  const Json& at(std::size_t index) const;
  // Returns all members; throws JsonError where this is no object.
  const Object& items() const;
  // Returns the member's text, or `otherwise` where there is none.
  std::string text_or(std::string_view name, std::string_view otherwise) const;

  // Returns the first entry of an array; anything else has no entries.
  const Json* begin() const;
  // Returns the end of the entries of an array; anything else has no entries.
  const Json* end() const;
  const Json& operator[](std::size_t index) const { return at(index); }
  // Adds an entry; throws JsonError where this is neither an array nor null.
  void push_back(Json value);

  // Returns a truth value, number, text, or list of them. Throws JsonError where the value is another, or out of the
  // type's range.
  template <typename T>
  T get() const;
  template <typename T>
  void get_to(T& target) const {
    target = get<T>();
  }
  // Returns the whole number; nothing where this is none, or none that fits.
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
