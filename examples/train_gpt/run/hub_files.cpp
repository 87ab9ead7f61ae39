// This file writes configuration and tokenizer as JSON.
#include "examples/train_gpt/run/hub_files.hpp"

#include <nlohmann/json.hpp>

namespace wreath::gpt {

namespace {

using Json = nlohmann::ordered_json;

Json config_of(const GptConfig& model, std::int64_t vocabulary) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", vocabulary},
          {"n_positions", model.context},
          {"n_embd", model.width},
          {"n_layer", model.layers},
          {"n_head", model.heads},
          {"n_inner", 4 * model.width},
          {"activation_function", model.gelu == training::Gelu::Tanh ? "gelu_new" : "gelu"},
          {"layer_norm_epsilon", 1e-5},
          {"embd_pdrop", model.dropout},
          {"attn_pdrop", model.dropout},
          {"resid_pdrop", model.dropout},
          {"scale_attn_weights", true},
          {"tie_word_embeddings", true},
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr},
          {"torch_dtype", "float32"}};
}

bool is_printable(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

// Returns a byte as GPT-2's tokenizer writes it, in UTF-8. A byte that Latin-1 prints is itself; another one is the
// next letter from U+0100 on.
std::string written(unsigned char byte) {
  unsigned code = byte;
  if (!is_printable(byte)) {
    code = 0x100;
    for (unsigned before = 0; before < byte; ++before) code += is_printable(before) ? 0U : 1U;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3f))};
}

Json tokenizer_of(const Text& text) {
  Json vocabulary = Json::object();
  for (std::int32_t token = 0; token < text.vocabulary(); ++token) {
    vocabulary[written(static_cast<unsigned char>(text.letter(token)))] = token;
  }
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", bytes},
          {"post_processor", nullptr},
          {"decoder", bytes},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"vocab", vocabulary},
            {"merges", Json::array()}}}};
}

}  // namespace

std::map<std::string, std::string> hub_files(const GptConfig& model, const Text& text) {
  const Json tokenizer_config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                 {"model_max_length", model.context},
                                 {"clean_up_tokenization_spaces", false}};
  return {{"config.json", config_of(model, text.vocabulary()).dump(2) + "\n"},
          {"tokenizer.json", tokenizer_of(text).dump(2) + "\n"},
          {"tokenizer_config.json", tokenizer_config.dump(2) + "\n"}};
}

}  // namespace wreath::gpt
