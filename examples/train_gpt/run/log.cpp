// This file writes the lines of a run.
#include "examples/train_gpt/run/log.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace wreath::gpt {

namespace {

Error unwritable(const std::string& path) {
  return {ErrorCode::System, path + ": cannot be written: " + std::strerror(errno)};
}

// The part of a log that stays: all whole lines up to the first one about a step from `first` on.
struct Kept {
  std::uintmax_t bytes = 0;
  std::int64_t last_step = -1;
};

// Returns the step of a line "12,3.5" or {"step":12,...}, or -1 for a head.
std::int64_t step_of(const std::string& line) {
  const std::size_t digits = line.find_first_of("0123456789");
  if (digits == std::string::npos) return -1;
  std::int64_t step = -1;
  std::from_chars(line.data() + digits, line.data() + line.size(), step);
  return step;
}

Kept kept_of(const std::string& path, std::int64_t first) {
  Kept kept;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const std::int64_t step = step_of(line);
    if (step >= first) break;
    kept.bytes += line.size() + 1;
    kept.last_step = std::max(kept.last_step, step);
  }
  return kept;
}

// Checks that a file can be written at the end of the run. A file that exists keeps its content.
Status check_writable(const std::string& path) {
  std::error_code ignored;
  const bool was_there = std::filesystem::exists(path, ignored);
  std::FILE* file = std::fopen(path.c_str(), "ae");
  if (file == nullptr) return unwritable(path);
  std::fclose(file);
  if (!was_there) std::filesystem::remove(path, ignored);
  return {};
}

double share(double part, double whole) { return whole > 0 ? part / whole : 0.0; }

}  // namespace

Result<std::unique_ptr<Log>> Log::open(const CommandLine& line, std::int64_t first) {
  std::unique_ptr<Log> log(new Log(line));
  const auto open_into = [&](File& into, const std::string& path) -> Status {
    if (path.empty()) return {};
    Result<File> file = open_file(path, first);
    if (!file) return file.error();
    into = std::move(*file);
    return {};
  };
  if (!line.html.empty()) WREATH_TRY(check_writable(line.html));
  WREATH_TRY(open_into(log->csv_, line.csv));
  WREATH_TRY(open_into(log->jsonl_, line.jsonl));
  if (log->csv_.stream && std::ftell(log->csv_.stream.get()) == 0) {
    std::fputs(
        "step,loss,gradient_norm,learning_rate,tokens_per_s,communication_share,validation_loss,loss_scale,skipped\n",
        log->csv_.stream.get());
  }
  return log;
}

Log::Log(const CommandLine& line) : line_(line), terminal_(isatty(STDOUT_FILENO) != 0) {}

Result<Log::File> Log::open_file(const std::string& path, std::int64_t first) {
  File file;
  std::error_code none;
  if (first > 0 && std::filesystem::is_regular_file(path, none)) {
    const Kept kept = kept_of(path, first);
    std::error_code failed;
    std::filesystem::resize_file(path, kept.bytes, failed);
    if (failed) return Error{ErrorCode::System, path + ": cannot be written: " + failed.message()};
    file.last_step = kept.last_step;
  }
  file.stream.reset(std::fopen(path.c_str(), first > 0 ? "ae" : "we"));
  if (!file.stream) return unwritable(path);
  static_cast<void>(std::setvbuf(file.stream.get(), nullptr, _IOLBF, BUFSIZ));
  std::fseek(file.stream.get(), 0, SEEK_END);
  return file;
}

double Log::tokens_per_second(const StepResult& result) const noexcept {
  return static_cast<double>(line_.train.batch * line_.train.model.context) / result.seconds;
}

void Log::step(const LogLine& line, bool last) {
  const StepResult& result = line.result;
  seconds_ += result.seconds;
  communication_seconds_ += result.communication_seconds;
  ++steps_;
  if (csv_.stream) write_csv(line);
  if (jsonl_.stream) write_jsonl(line);
  say_what_is_lost(csv_, line_.csv);
  say_what_is_lost(jsonl_, line_.jsonl);
  const bool due = line_.log_every > 0 && (result.step + 1) % line_.log_every == 0;
  if (line.validation)
    std::printf("%sstep %6lld  validation loss %.4f\n", terminal_ ? "\r" : "", static_cast<long long>(result.step),
                *line.validation);
  skipped_ += result.skipped ? 1 : 0;
  if (due || last) show(result, last);
}

// Reports a lost line once, and at once, since a run may take days.
void Log::say_what_is_lost(File& file, const std::string& path) {
  if (file.lost || !file.stream || std::ferror(file.stream.get()) == 0) return;
  file.lost = true;
  fmt::print(stderr, "wreath: warning: {}: a line could not be written: {}\n", path, std::strerror(errno));
}

void Log::complete(const LogLine& line) {
  if (csv_.stream && csv_.last_step < line.result.step) write_csv(line);
  if (jsonl_.stream && jsonl_.last_step < line.result.step) write_jsonl(line);
}

// Returns the text of the loss scale, which float16 alone has.
std::string Log::scale_text(const StepResult& result) const {
  if (line_.train.precision != "float16") return {};
  return fmt::format("  scale {:.9g}, {} skipped", result.loss_scale, skipped_);
}

void Log::show(const StepResult& result, bool last) {
  const double step_seconds = seconds_ / static_cast<double>(steps_);
  const double left_seconds = static_cast<double>(line_.train.steps - result.step - 1) * step_seconds;
  const double tokens = static_cast<double>(line_.train.batch * line_.train.model.context);
  std::printf("%sstep %6lld of %lld  loss %.4f  norm %6.3f  %8.0f tokens/s  communication %4.1f %%  %5.0f s left%s%s",
              terminal_ ? "\r" : "", static_cast<long long>(result.step + 1), static_cast<long long>(line_.train.steps),
              result.loss, result.gradient_norm, tokens / step_seconds, 100 * share(communication_seconds_, seconds_),
              left_seconds, scale_text(result).c_str(), terminal_ && !last ? "" : "\n");
  std::fflush(stdout);
  seconds_ = communication_seconds_ = 0;
  steps_ = 0;
}

void Log::write_csv(const LogLine& line) {
  const StepResult& result = line.result;
  std::fprintf(csv_.stream.get(), "%lld,%.9g,%.9g,%.9g,%.1f,%.4f,", static_cast<long long>(result.step), result.loss,
               result.gradient_norm, static_cast<double>(result.learning_rate), tokens_per_second(result),
               share(result.communication_seconds, result.seconds));
  if (line.validation) std::fprintf(csv_.stream.get(), "%.9g", *line.validation);
  std::fprintf(csv_.stream.get(), ",%.9g,%d\n", result.loss_scale, result.skipped ? 1 : 0);
}

void Log::write_jsonl(const LogLine& line) {
  const StepResult& result = line.result;
  // JSON has no infinities and no NaN.
  const auto number = [&](const char* name, double value) {
    if (std::isfinite(value)) {
      std::fprintf(jsonl_.stream.get(), ",\"%s\":%.9g", name, value);
    } else {
      std::fprintf(jsonl_.stream.get(), ",\"%s\":null", name);
    }
  };
  std::fprintf(jsonl_.stream.get(), "{\"step\":%lld", static_cast<long long>(result.step));
  number("loss", result.loss);
  number("gradient_norm", result.gradient_norm);
  number("learning_rate", static_cast<double>(result.learning_rate));
  number("tokens_per_s", tokens_per_second(result));
  number("communication_share", share(result.communication_seconds, result.seconds));
  if (line.validation) number("validation_loss", *line.validation);
  number("loss_scale", result.loss_scale);
  number("skipped", result.skipped ? 1 : 0);
  std::fputs("}\n", jsonl_.stream.get());
}

Status Log::close() {
  const auto finish = [](File& file, const std::string& path) -> Status {
    if (!file.stream) return {};
    const bool lost = std::ferror(file.stream.get()) != 0;
    if (std::fclose(file.stream.release()) != 0) return unwritable(path);
    return lost ? Status(Error{ErrorCode::System, path + ": lines are missing: they could not be written"}) : Status();
  };
  WREATH_TRY(finish(csv_, line_.csv));
  return finish(jsonl_, line_.jsonl);
}

}  // namespace wreath::gpt
