// This file makes the files beside a checkpoint's weights with which HF's transformers open it directly.
#pragma once

#include <map>
#include <string>

#include "examples/train_gpt/data/text.hpp"
#include "examples/train_gpt/model/config.hpp"

namespace wreath::gpt {

// Returns the files by name, for training::CheckpointOptions::documents. They are config.json (of GPT2LMHeadModel),
// tokenizer.json and tokenizer_config.json (of PreTrainedTokenizerFast). A token is a byte of the text, so the
// tokenizer is GPT-2's of bytes with no merges. Bytes that the text does not have are left out of its encodings.
std::map<std::string, std::string> hub_files(const GptConfig& model, const Text& text);

}  // namespace wreath::gpt
