// This file writes the report: rank 0 gathers the rows of each rank, and writes the page.
#include "examples/train_gpt/run/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "examples/train_gpt/run/curves.hpp"
#include "examples/train_gpt/run/pipeline_section.hpp"
#include "examples/train_gpt/run/traffic_table.hpp"
#include "src/base/text_file.hpp"
#include "src/page/markup.hpp"
#include "src/page/page.hpp"

namespace wreath::gpt {

using training::MemoryTag;

namespace {

// Returns this rank's rows for the tables of phases, traffic and memory, separated by line feeds.
std::string own_rows(Trainer& trainer, std::uint64_t steps) {
  const training::MeshPlace place = trainer.mesh().place();
  const std::string rank = fmt::format("<td>{}</td><td class=text>dp {} pp {} cp {} tp {}</td>", trainer.mesh().rank(),
                                       place.dp, place.pp, place.cp, place.tp);
  std::string phases = "<tr>" + rank;
  for (const double seconds : trainer.phases().all()) phases += fmt::format("<td>{:.2f}</td>", seconds);
  std::string memory = "<tr>" + rank;
  for (std::size_t tag = 0; tag < training::kMemoryTags; ++tag) {
    memory += fmt::format("<td>{:.2f}</td>",
                          static_cast<double>(trainer.memory().peak_bytes(static_cast<MemoryTag>(tag))) / 1048576.0);
  }
  memory += fmt::format("<td>{:.2f}</td>", static_cast<double>(trainer.memory().pool().peak_bytes()) / 1048576.0);
  return phases + "</tr>\n" + traffic_rows(trainer, steps) + "\n" + memory + "</tr>";
}

// Returns, at rank 0, the texts of all ranks.
std::vector<std::string> gather_texts(const std::string& own, Communicator& world) {
  const auto ranks = static_cast<std::size_t>(world.ranks());
  const std::uint64_t size = own.size();
  std::vector<std::uint64_t> sizes(ranks);
  world.all_gather(&size, sizes.data(), 1, DataType::Uint64).value();
  const std::vector<std::size_t> counts(sizes.begin(), sizes.end());
  std::string all(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}), '\0');
  world.all_gather_v(own.data(), all.data(), Blocks{counts}, DataType::Uint8).value();
  std::vector<std::string> texts;
  std::size_t begin = 0;
  for (const std::size_t count : counts) {
    texts.push_back(all.substr(begin, count));
    begin += count;
  }
  return texts;
}

// Returns the `part`-th line of every rank's rows.
std::string rows_of(const std::vector<std::string>& ranks, int part) {
  std::string rows;
  for (const std::string& text : ranks) {
    std::size_t begin = 0;
    for (int i = 0; i < part; ++i) begin = text.find('\n', begin) + 1;
    rows += text.substr(begin, text.find('\n', begin) - begin);
  }
  return rows;
}

std::string table(const std::string& title, const std::string& head, const std::string& rows) {
  return fmt::format("<h2>{}</h2><div class=\"scroll\"><table><thead><tr>{}</tr></thead>{}</table></div>\n", title,
                     head, rows);
}

std::string curves_of(const History& history) {
  Curve loss{"training loss", {}, {}}, validation{"validation loss", {}, {}}, norm{"gradient norm", {}, {}};
  for (const StepResult& step : history.steps) {
    loss.x.push_back(static_cast<double>(step.step));
    loss.y.push_back(step.loss);
    norm.x.push_back(static_cast<double>(step.step));
    norm.y.push_back(step.gradient_norm);
  }
  for (const ValidationPoint& point : history.validation) {
    validation.x.push_back(static_cast<double>(point.step));
    validation.y.push_back(point.loss);
  }
  return "<h2>Loss</h2><div class=\"card\">" + plot_svg("step", "loss", {loss, validation}) +
         "</div><h2>Gradient norm</h2><div class=\"card\">" + plot_svg("step", "norm", {norm}) + "</div>";
}

std::string memory_head() {
  std::string head = "<th>rank</th><th class=text>place</th>";
  for (std::size_t tag = 0; tag < training::kMemoryTags; ++tag) {
    head += fmt::format("<th>{}</th>", training::name(static_cast<MemoryTag>(tag)));
  }
  return head + "<th>all at once, in host memory</th>";
}

// Returns the precision, with the final loss scale where there is one.
std::string precision_of(const TrainOptions& train, const History& history) {
  if (train.precision != "float16") return train.precision;
  const auto skipped =
      std::count_if(history.steps.begin(), history.steps.end(), [](const StepResult& step) { return step.skipped; });
  return fmt::format("float16 (loss scale {:.9g} in the last step, {} of {} steps skipped)",
                     history.steps.back().loss_scale, skipped, history.steps.size());
}

// Returns the name of rank 0's device.
std::string device_of(const TrainOptions& train) {
  return train.device == nullptr ? "the CPU" : "device " + std::string(train.device->name());
}

std::string report_page(const CommandLine& line, const History& history, const std::vector<std::string>& ranks,
                        const std::string& pipeline) {
  const TrainOptions& train = line.train;
  const std::string about = fmt::format(
      "{} layers, {} heads, width {}, context {}; {} sequences a step, {} micro-batches, ZeRO stage {}, schedule {}, "
      "precision {}, on {}; text: {}.",
      train.model.layers, train.model.heads, train.model.width, train.model.context, train.batch, train.micro_batches,
      train.zero_stage, train.schedule, precision_of(train, history), device_of(train),
      line.data.empty() ? "the project's sources" : line.data);
  std::string html = curves_of(history);
  html += table("Seconds by phase",
                "<th>rank</th><th class=text>place</th><th>forward and "
                "backward</th><th>gradients</th><th>norm</th><th>optimizer</th>"
                "<th>weights</th>",
                rows_of(ranks, 0));
  html += pipeline;
  html += table("Communication", traffic_head(), rows_of(ranks, 1));
  html += table("Highest memory, MiB", memory_head(), rows_of(ranks, 2));
  const std::string title = fmt::format("train_gpt: {}", name(train.mesh));
  return page(title, title, escape_markup(about), html);
}

}  // namespace

Status write_report(const std::string& path, const CommandLine& line, const History& history, Trainer& trainer,
                    Communicator& world) {
  const std::vector<std::string> ranks = gather_texts(own_rows(trainer, history.steps.size()), world);
  std::string pipeline;
  if (line.train.mesh.pp > 1) {
    pipeline = pipeline_section(trainer.pipeline().schedule(), trainer.pipeline().gather_timelines());
  }
  if (world.rank() != 0) return {};
  return write_output(path, report_page(line, history, ranks, pipeline));
}

}  // namespace wreath::gpt
