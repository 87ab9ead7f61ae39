// Words around an error: which library, which group, which rank of all.
#include "bindings/torch/errors.hpp"

#include <c10/util/Exception.h>

namespace wreath_torch {
namespace {

std::string text_of(const wreath::Error& error, const GroupNames& group) {
  std::string text = "wreath: " + error.message;
  if (group.global_ranks.empty()) return text;
  text += " (group " + group.name;
  const auto rank = static_cast<std::size_t>(error.failed_rank);
  if (error.failed_rank >= 0 && rank < group.global_ranks.size()) {
    text += ", whose rank " + std::to_string(rank) + " is rank " + std::to_string(group.global_ranks[rank]) + " of all";
  }
  return text + ")";
}

}  // namespace

std::exception_ptr as_torch_error(const wreath::Error& error, const GroupNames& group) {
  return std::make_exception_ptr(
      c10::DistBackendError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, text_of(error, group)));
}

std::string sentence_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of an unknown kind";
  }
}

}  // namespace wreath_torch
