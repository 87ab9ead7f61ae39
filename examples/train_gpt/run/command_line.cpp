// This file parses train_gpt's options.
#include "examples/train_gpt/run/command_line.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "src/command_line/numbers.hpp"
#include "src/command_line/program.hpp"

namespace wreath::gpt {

namespace {

using command_line::add_number;

struct Preset {
  std::string_view name;
  void (*apply)(CommandLine& line);
};

void shakespeare_char(CommandLine&) {}  // the defaults

void shakespeare_char_gpu(CommandLine& line) {
  line.train.model.layers = 6;
  line.train.model.heads = 6;
  line.train.model.width = 384;
  line.train.model.context = 256;
  line.train.model.dropout = 0.2f;
  line.train.batch = 64;
  line.train.steps = 5000;
  line.train.decay_steps = 5000;
}

// A preset that trains in seconds, not minutes.
void tiny(CommandLine& line) {
  line.train.model.layers = 2;
  line.train.model.heads = 2;
  line.train.model.width = 32;
  line.train.model.context = 32;
  line.train.batch = 8;
  line.train.steps = 100;
  line.train.decay_steps = 100;
  line.train.warmup_steps = 10;
}

constexpr std::array<Preset, 3> kPresets = {
    {{"shakespeare-char", shakespeare_char}, {"shakespeare-char-gpu", shakespeare_char_gpu}, {"tiny", tiny}}};

// Applies the preset. Presets set defaults, so they come before the other options, wherever they stand.
bool apply_preset(int argc, char** argv, CommandLine& line) {
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    if (argument == "--preset" && i + 1 < argc) {
      argument = argv[i + 1];
    } else if (argument.starts_with("--preset=")) {
      argument.remove_prefix(9);
    } else {
      continue;
    }
    for (const Preset& preset : kPresets) {
      if (preset.name != argument) continue;
      preset.apply(line);
      return true;
    }
    command_line::complain_of_usage(
        fmt::format("--preset {}: there are shakespeare-char, shakespeare-char-gpu, tiny", argument));
    return false;
  }
  return true;
}

void add_mesh(const command_line::Command& app, TrainOptions& train) {
  constexpr const char* kGroup = "Mesh";
  add_number(app, "--dp", train.mesh.dp, {1}, "data-parallel ranks: each sees other samples").group(kGroup);
  add_number(app, "--pp", train.mesh.pp, {1}, "pipeline ranks: each has other layers").group(kGroup);
  add_number(app, "--cp", train.mesh.cp, {1}, "context-parallel ranks: each has other parts of every sequence")
      .group(kGroup);
  add_number(app, "--tp", train.mesh.tp, {1}, "tensor-parallel ranks: each has parts of every weight").group(kGroup);
  add_number(app, "--zero", train.zero_stage, {0},
             "divide over replicas: 1 optimizer state, 2 gradients too, 3 weights too (FullyShardedDataParallel)")
      .group(kGroup);
  add_number(app, "--hybrid-shards", train.hybrid_shards, {0},
             "with --zero 3: divide over so many replicas, repeat over the rest")
      .group(kGroup);
  app.add_flag("--sequence-parallel", train.sequence_parallel, "tensor ranks divide rows between divided layers")
      .group(kGroup);
  app.add_option("--context-attention", train.context_attention, "ring or ulysses").group(kGroup);
  app.add_option("--schedule", train.schedule, "of the pipeline: gpipe, 1f1b, interleaved, zb_h1").group(kGroup);
  add_number(app, "--chunks", train.chunks, {1}, "model stages a pipeline rank (interleaved: 2 or more)").group(kGroup);
  add_number(app, "--micro-batches", train.micro_batches, {1}, "of a step on one rank: they are accumulated")
      .group(kGroup);
  app.add_option("--precision", train.precision,
                 "float32; bfloat16, float16: weights of 2 bytes, activations of that format, float32 master weights; "
                 "fp8: as bfloat16, and linear layers multiply 8-bit values (emulated)")
      .group(kGroup);
  add_number(app, "--loss-scale", train.loss_scale, {0},
             "with --precision float16, at first: halved where gradients overflow, doubled after 2000 good steps")
      .group(kGroup);
  app.add_flag("--recompute", train.recompute, "keep only each block's input, run it forward again for backward")
      .group(kGroup);
  app.add_flag("--overlap,!--no-overlap", train.overlap, "gradients move while backward goes on (default)")
      .group(kGroup);
  app.add_option("--offload", train.offload_folder,
                 "a folder for mapped files that hold the optimizer state, and with --zero 3 the weights")
      .group(kGroup);
  add_number(app, "--threads", train.threads, {1}, "of a rank, for the layers' mathematics").group(kGroup);
  add_number(app, "--stage-sleep-ms", train.stage_sleep_ms, {0},
             "sleep so long in each pass of a pipeline stage: few cores then show what many would (--html)")
      .group(kGroup);
}

void add_model(const command_line::Command& app, TrainOptions& train) {
  constexpr const char* kGroup = "Model and recipe";
  app.add_option("--preset",
                 "shakespeare-char (default: nanoGPT's CPU line), shakespeare-char-gpu, tiny; other options win")
      .type_name("NAME")
      .group(kGroup);
  add_number(app, "--layers", train.model.layers, {1}, "transformer blocks").group(kGroup);
  add_number(app, "--heads", train.model.heads, {1}, "attention heads").group(kGroup);
  add_number(app, "--width", train.model.width, {1}, "features, a multiple of the heads").group(kGroup);
  add_number(app, "--context", train.model.context, {1}, "tokens of a sequence").group(kGroup);
  app.add_flag("--bias", train.model.bias, "biases in linear layers and layer norms, as GPT-2 has them").group(kGroup);
  app.add_flag(
         "--tanh-gelu", [&train] { train.model.gelu = training::Gelu::Tanh; }, "GELU as GPT-2 has it")
      .group(kGroup);
  add_number(app, "--dropout", train.model.dropout, {0}, "share of values dropped").group(kGroup);
  add_number(app, "--batch", train.batch, {1}, "sequences of a step, over all ranks: the same ones on every mesh")
      .group(kGroup);
  add_number(app, "--steps", train.steps, {0}, "optimizer steps").group(kGroup);
  add_number(app, "--learning-rate", train.learning_rate, {0}, "highest").group(kGroup);
  add_number(app, "--lowest-learning-rate", train.lowest_learning_rate, {0}, "at --decay-steps and after")
      .group(kGroup);
  add_number(app, "--warmup-steps", train.warmup_steps, {0}, "of rising learning rate").group(kGroup);
  add_number(app, "--decay-steps", train.decay_steps, {0}, "of falling learning rate (default: --steps)").group(kGroup);
  add_number(app, "--clip", train.clip, {0}, "highest norm of the gradient; 0: none").group(kGroup);
  add_number(app, "--weight-decay", train.weight_decay, {0}, "of matrices").group(kGroup);
  app.add_flag(
         "--sgd", [&train] { train.optimizer = OptimizerKind::Sgd; }, "plain gradient descent instead of AdamW")
      .group(kGroup);
  add_number(app, "--seed", train.seed, {0}, "of weights, batches and dropout").group(kGroup);
}

void add_run(const command_line::Command& app, CommandLine& line) {
  constexpr const char* kGroup = "Data and results";
  app.add_option("--data", line.data, "a text to train on (default: the sources of this project)").group(kGroup);
  app.add_option("--csv", line.csv, "a line a step").group(kGroup);
  app.add_option("--jsonl", line.jsonl, "an object a step").group(kGroup);
  app.add_option("--html", line.html, "a report with plots, in one file").group(kGroup);
  app.add_option("--checkpoint", line.checkpoint, "a folder for checkpoints (safetensors); SIGTERM saves one, too")
      .group(kGroup);
  add_number(app, "--checkpoint-writers", line.checkpoint_writers, {1}, "ranks that write at the same time")
      .group(kGroup);
  add_number(app, "--save-every", line.save_every, {0}, "steps between checkpoints (default: only at the end)")
      .group(kGroup);
  app.add_flag("--resume", line.resume, "go on from the latest checkpoint of --checkpoint, of whatever mesh")
      .group(kGroup);
  add_number(app, "--validate-every", line.validate_every, {0}, "steps; 0: at the end alone").group(kGroup);
  app.add_flag(
         "--no-final-validation", [&line] { line.validate_at_end = false; }, "end without a validation of all")
      .group(kGroup);
  add_number(app, "--validation-windows", line.validation_windows, {0},
             "sequences of a validation within the run; 0: all")
      .group(kGroup);
  add_number(app, "--log-every", line.log_every, {0}, "steps between lines on the screen").group(kGroup);
  add_number(app, "--sample", line.sample, {0}, "letters that the model writes at the end").group(kGroup);
}

// Refuses an empty value, which mostly comes from a variable of the shell that is not set.
Status check_not_empty(const command_line::Command& app) {
  const std::string empty = app.first_empty();
  return empty.empty() ? Status() : Error{ErrorCode::InvalidArgument, empty + ": its value is empty"};
}

Status check_folder(const CommandLine& line) {
  for (const auto& [name, given] :
       {std::pair("--resume", line.resume), std::pair("--save-every", line.save_every > 0)}) {
    if (given && line.checkpoint.empty()) {
      return Error{ErrorCode::InvalidArgument, std::string(name) + ": needs --checkpoint FOLDER"};
    }
  }
  return {};
}

Status check_all(const command_line::Command& app, const CommandLine& line) {
  WREATH_TRY(check_not_empty(app));
  WREATH_TRY(check(line.train));
  return check_folder(line);
}

}  // namespace

std::optional<int> parse(int argc, char** argv, CommandLine& into) {
  if (!apply_preset(argc, argv, into)) return 2;
  const command_line::Program app(
      "Trains a small GPT on a text, over ranks in any mesh of data, pipeline, context and tensor parallelism.\n"
      "Every mesh sees the same batches and follows the same loss curve. It starts its own ranks, or joins those of a\n"
      "launcher (wreath run, torchrun, Slurm). Examples:\n"
      "  train_gpt --preset tiny --dp 2\n"
      "  train_gpt --data input.txt --dp 2 --tp 2 --zero 1 --csv loss.csv\n"
      "  train_gpt --dp 2 --device cuda --precision bfloat16\n"
      "  wreath run -n 4 train_gpt --pp 4 --schedule zb_h1 --micro-batches 12\n"
      "  wreath run --elastic --min 2 --max 4 --spares 1 train_gpt --dp 4 --checkpoint saved --save-every 100\n"
      "The last one goes on when ranks die, with fewer data-parallel ranks or with spares; it takes up its latest\n"
      "checkpoint by itself, where it needs one, and its logs have each step once.",
      "train_gpt");
  app.capture_defaults();
  add_mesh(app, into.train);
  app.add_option("--device", into.device,
                 "where ranks compute: cuda (the GPU of the rank's number on its host, modulo how many there are), "
                 "cuda:N, or host (a device made of threads, slow: to try it); default: on the CPU")
      .group("Mesh");
  add_model(app, into.train);
  add_run(app, into);
  if (const auto code = app.parse(argc, argv)) return code;
  if (app.count("--decay-steps") == 0) into.train.decay_steps = into.train.steps;
  if (const Status fits = check_all(app, into); !fits) {
    command_line::complain_of_usage(fits.error().message);
    return 2;
  }
  return std::nullopt;
}

}  // namespace wreath::gpt
