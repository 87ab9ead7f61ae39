// Collects, prints and writes the findings of gpu_perf.
#include "perf/gpu_perf/results.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "perf/base/streamed.hpp"
#include "src/base/text_file.hpp"

namespace wreath::perf {

Results::Results(Setup setup) : setup_(std::move(setup)) {
  json_["device"] = setup_.device;
  json_["card"] = setup_.card;
  json_["memory"] = setup_.memory;
  json_["note"] = kOneGpu;
  for (const char* const list : {"skipped", "failed"}) json_[list] = Json::array();
}

void Results::begin(std::string_view part) { part_ = part; }

void Results::add(Json row) {
  empty_ = false;
  json_[part_].push_back(std::move(row));
  static_cast<void>(write());
  std::fflush(stdout);
}

void Results::list(const char* key, const std::string& what, const std::string& why) {
  json_[key].push_back({{"part", part_}, {"what", what}, {"why", why}});
  static_cast<void>(write());
  fmt::print("{:<11} {} {}: {}\n", key, part_, what, why);
  std::fflush(stdout);
}

void Results::skip(const std::string& what, const std::string& why) { list("skipped", what, why); }

void Results::fail(const std::string& what, const std::string& why) {
  failed_ = true;
  empty_ = false;
  list("failed", what, why);
}

void Results::note(const std::string& what, const Error& error) {
  const bool memory = error.message.find("OUT_OF_MEMORY") != std::string::npos;
  error.code == ErrorCode::Unavailable || memory ? skip(what, error.message) : fail(what, error.message);
}

bool Results::late() const {
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin_;
  return setup_.budget_s > 0 && taken.count() >= setup_.budget_s;
}

std::string Results::late_text() const {
  return fmt::format("the {:.0f} s that it may take are over", setup_.budget_s);
}

bool Results::time_for(const std::string& what) {
  const bool over = late();
  if (over) skip(what, late_text());
  return !over;
}

Status Results::write() const {
  if (setup_.file.empty()) return {};
  return write_output(setup_.file, json_.dump({.indent = 2, .strict = false}) + "\n");
}

}  // namespace wreath::perf
