// The findings of `wreath doctor`: each says whether something is fine, and how to fix what is not.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/doctor/probes.hpp"
#include "wreath/topology.hpp"

namespace wreath {

// The verdict of a check. A note costs time or names something to know. A problem keeps ranks from starting or from
// finishing.
enum class Verdict { Ok, Note, Problem };
const char* name(Verdict verdict);

struct CheckResult {
  Verdict verdict = Verdict::Ok;
  std::string group;
  std::string subject;
  std::string text;
  // A command or an instruction; empty: nothing needs a fix.
  std::string fix;
};

class Findings {
 public:
  void begin(std::string_view group) { group_ = group; }
  void ok(std::string_view subject, std::string text) { add(Verdict::Ok, subject, std::move(text), {}); }
  void note(std::string_view subject, std::string text, std::string fix) {
    add(Verdict::Note, subject, std::move(text), std::move(fix));
  }
  void problem(std::string_view subject, std::string text, std::string fix) {
    add(Verdict::Problem, subject, std::move(text), std::move(fix));
  }
  const std::vector<CheckResult>& all() const { return all_; }

 private:
  void add(Verdict verdict, std::string_view subject, std::string text, std::string fix) {
    all_.push_back({verdict, group_, std::string(subject), std::move(text), std::move(fix)});
  }

  std::string group_;
  std::vector<CheckResult> all_;
};

// The machine that is examined. Without `probes` these are the files of another machine. Checks then leave out what
// needs a running system, and what belongs to this process.
struct Surroundings {
  std::string root;
  Topology topology;
  std::optional<Probes> probes;
};

// Runs every check of the table, in its order.
std::vector<CheckResult> examine(const Surroundings& surroundings);

// These checks add no finding for a file that they cannot read.
void check_limits(const Surroundings& surroundings, Findings& findings);
void check_memory(const Surroundings& surroundings, Findings& findings);
void check_processors(const Surroundings& surroundings, Findings& findings);
void check_kernel(const Surroundings& surroundings, Findings& findings);
void check_single_copy(const Surroundings& surroundings, Findings& findings);
void check_interfaces(const Surroundings& surroundings, Findings& findings);
void check_tcp(const Surroundings& surroundings, Findings& findings);
void check_gpus(const Surroundings& surroundings, Findings& findings);
void check_rdma(const Surroundings& surroundings, Findings& findings);
void check_libraries(const Surroundings& surroundings, Findings& findings);
void check_build(const Surroundings& surroundings, Findings& findings);
void check_key(const Surroundings& surroundings, Findings& findings);
void check_settings(const Surroundings& surroundings, Findings& findings);

struct ReportStyle {
  bool colour = false;
};
std::string report_text(const std::vector<CheckResult>& findings, const ReportStyle& style);
std::string report_json(const std::vector<CheckResult>& findings);

// Returns 1 where there is a problem, else 0.
int report_code(const std::vector<CheckResult>& findings);

}  // namespace wreath
