// This file loads checkpoints: each rank reads its runs out of whole tensors.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "training/checkpoint/agreement.hpp"
#include "training/checkpoint/checkpoint.hpp"
#include "training/checkpoint/file_set.hpp"
#include "training/checkpoint/folder.hpp"
#include "training/checkpoint/header_text.hpp"
#include "training/checkpoint/plan.hpp"
#include "training/checkpoint/shard.hpp"
#include "training/checkpoint/state_text.hpp"
#include "training/compute/compute.hpp"

namespace wreath::training {

namespace {

Error wrong_file(const std::string& file, const std::string& what) {
  return {ErrorCode::InvalidArgument, fmt::format("{}: {}", file, what)};
}

// An open checkpoint.
struct Source {
  std::string folder;
  const LoadOptions* options;
  StoredState stored;
  FileSet model;
  FileSet optimizer;
};

Status check_tensor(const std::string& file, const StoredTensor& found, const StoredTensor& wanted) {
  if (found.type != wanted.type) {
    return wrong_file(
        file, fmt::format("tensor {} is {}, not {}", in_quotes(found.name), name(found.type), name(wanted.type)));
  }
  if (found.shape == wanted.shape) return {};
  return wrong_file(file, fmt::format("tensor {} has shape [{}], the model's has [{}]", in_quotes(found.name),
                                      fmt::join(found.shape, ", "), fmt::join(wanted.shape, ", ")));
}

// Checks that the files hold the wanted tensors, and no others except those of `ignored` endings.
Status check_set(const std::string& folder, const FileSet& set, const std::vector<StoredTensor>& wanted,
                 const std::vector<std::string>& ignored) {
  auto places = set.places();
  for (const StoredTensor& tensor : wanted) {
    const auto place = places.find(tensor.name);
    if (place == places.end()) {
      return wrong_file(folder, fmt::format("no {} file has tensor {}", set.stem, in_quotes(tensor.name)));
    }
    WREATH_TRY(check_tensor(folder + "/" + set.names[place->second.file], *place->second.tensor, tensor));
    places.erase(place);
  }
  for (const auto& place : places) {
    const std::string& name = place.first;
    const bool may = std::any_of(ignored.begin(), ignored.end(), [&](const auto& end) { return name.ends_with(end); });
    if (!may) {
      return wrong_file(folder + "/" + set.names[place.second.file],
                        fmt::format("the model has no tensor {}", in_quotes(name)));
    }
  }
  return {};
}

std::string state_file(const std::string& checkpoint) { return checkpoint + "/" + kStateFile; }

Result<StoredState> read_stored(const std::string& checkpoint) {
  constexpr std::uint64_t kMaximumBytes = 64 << 20;
  const Result<std::string> text = read_text(state_file(checkpoint), kMaximumBytes);
  if (!text) return text.error();
  return parse_state(*text, state_file(checkpoint));
}

Status open_state(Source& source, const ShardLayout& layout) {
  const std::string file = state_file(source.folder);
  std::error_code ignored;
  if (source.options->weights_only && !std::filesystem::exists(file, ignored)) return {};
  Result<StoredState> stored = read_stored(source.folder);
  if (!stored) return stored.error();
  source.stored = std::move(*stored);
  if (source.options->weights_only || source.stored.moments == layout.moments()) return {};
  return wrong_file(file, fmt::format("its moments are '{}', the optimizer's '{}'",
                                      fmt::join(source.stored.moments, ","), fmt::join(layout.moments(), ",")));
}

// Reads and checks all but the tensors' values.
Status open(Source& source, const ShardLayout& layout, const ShardPlan& plan) {
  WREATH_TRY(open_state(source, layout));
  Result<FileSet> model = open_file_set(source.folder, kModelFiles);
  if (!model) return model.error();
  source.model = std::move(*model);
  WREATH_TRY(check_set(source.folder, source.model, layout.tensors(plan, 0, 1), source.options->ignored_endings));
  if (layout.arrays() == 1) return {};
  Result<FileSet> optimizer = open_file_set(source.folder, kOptimizerFiles);
  if (!optimizer) return optimizer.error();
  source.optimizer = std::move(*optimizer);
  return check_set(source.folder, source.optimizer, layout.tensors(plan, 1, layout.arrays()), {});
}

// Reads one array of the shard.
Status read_array(const Source& source, const ShardLayout& layout, const ShardPlan& plan, const Shard& shard,
                  std::size_t array) {
  const FileSet& set = array == 0 ? source.model : source.optimizer;
  const auto places = set.places();
  std::map<std::size_t, SafetensorsReader> files;
  for (const PieceRuns& held : plan.held) {
    const FileSet::Place place = places.at(layout.tensor_name(plan.tensors[held.tensor].name, array));
    auto file = files.find(place.file);
    if (file == files.end()) {
      auto opened = SafetensorsReader::open(source.folder + "/" + set.names[place.file]);
      if (!opened) return opened.error();
      file = files.emplace(place.file, std::move(*opened)).first;
    }
    const std::span<float> piece(layout.data(shard, array, held.piece), shard.pieces[held.piece].value.size());
    std::vector<float> read(compute_of(piece) != nullptr ? piece.size() : 0);  // for a device
    const std::span<float> out = read.empty() ? piece : std::span<float>(read);
    std::fill(out.begin(), out.end(), 0.0f);
    for (const Run& run : held.runs) {
      const auto values = out.subspan(static_cast<std::size_t>(run.local), static_cast<std::size_t>(run.count));
      const std::uint64_t offset = static_cast<std::uint64_t>(run.global) * sizeof(float);
      WREATH_TRY(file->second.read(*place.tensor, offset, std::as_writable_bytes(values)));
    }
    copy<float>(out, piece);
  }
  return {};
}

}  // namespace

Result<std::optional<std::string>> latest_checkpoint(const std::string& folder) {
  const Result<std::map<std::int64_t, std::string>> found = checkpoints_in(folder);
  if (!found) return found.error();
  if (found->empty()) return std::optional<std::string>();
  return std::optional<std::string>(found->rbegin()->second);
}

Result<TrainingState> read_state(const std::string& checkpoint) {
  Result<StoredState> stored = read_stored(checkpoint);
  if (!stored) return stored.error();
  return std::move(stored->state);
}

Result<TrainingState> load_checkpoint(Communicator& world, const std::string& checkpoint, const Shard& shard,
                                      const LoadOptions& options) {
  Result<Agreement> ranks = Agreement::create(world);
  if (!ranks) return ranks.error();
  const Result<std::vector<std::string>> folders = ranks->gather(checkpoint);
  if (!folders) return folders.error();
  Status same;
  if (checkpoint != folders->front()) {
    same = Error{ErrorCode::Mismatch, fmt::format("checkpoint: it loads {}, rank 0 {}", checkpoint, folders->front())};
  }
  const Result<ShardLayout> layout = agree_on_layout(*ranks, shard, same);
  if (!layout) return layout.error();
  const Result<ShardPlan> plan = plan_load(*ranks, shard.pieces);
  if (!plan) return plan.error();
  Source source{checkpoint, &options, {}, {}, {}};
  WREATH_TRY(ranks->agree(guarded([&] { return open(source, *layout, *plan); })));
  const Status read = guarded([&]() -> Status {
    for (std::size_t array = 0; array < layout->arrays(); ++array) {
      WREATH_TRY(read_array(source, *layout, *plan, shard, array));
    }
    return {};
  });
  WREATH_TRY(ranks->agree(read));
  return source.stored.state;
}

}  // namespace wreath::training
