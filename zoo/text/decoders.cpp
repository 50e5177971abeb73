#include <charconv>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "zoo/text/fields.h"
#include "zoo/text/pattern_json.h"
#include "zoo/text/steps.h"
#include "zoo/text/unicode.h"

namespace zoo::text {
namespace {

using core::Error;
using core::ErrorCode;
using Tokens = std::vector<std::string>;

std::string replaced(const std::string& text, std::string_view what, std::string_view by) {
  return Pattern::literal(what).replace_in(text, by);
}

/// Spaces that English has not where tokens begin.
std::string without_extra_spaces(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  for (const auto& [from, to] : kPairs) text = replaced(text, from, to);
  return text;
}

Tokens byte_level(const Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) {
    std::string own;
    bytes += try_bytes_of(token, own) ? own : token;
  }
  return {mend(bytes)};
}

/// The byte that a token "<0x0A>" stands for, else -1.
int byte_in(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return -1;
  int byte = 0;
  const char* end = token.data() + 5;
  const auto [at, error] = std::from_chars(token.data() + 3, end, byte, 16);
  return error == std::errc() && at == end && byte >= 0 ? byte : -1;
}

/// Bytes that follow each other are a text where they are UTF-8, else one U+FFFD each.
Tokens byte_fallback(const Tokens& tokens) {
  Tokens out;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (core::is_utf8(bytes)) {
      out.push_back(bytes);
    } else {
      out.insert(out.end(), bytes.size(), "\xEF\xBF\xBD");
    }
    bytes.clear();
  };
  for (const std::string& token : tokens) {
    const int byte = byte_in(token);
    if (byte >= 0) {
      bytes += static_cast<char>(byte);
      continue;
    }
    flush();
    out.push_back(token);
  }
  flush();
  return out;
}

Decoder word_piece(const Fields& fields) {
  const std::string prefix = fields.text_or("prefix", "##");
  const bool cleans = fields.flag_or("cleanup", true);
  return [=](Tokens tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i != 0) token = token.starts_with(prefix) ? token.substr(prefix.size()) : " " + token;
      if (cleans) token = without_extra_spaces(std::move(token));
    }
    return tokens;
  };
}

Decoder metaspace(const Fields& fields) {
  const std::string mark = fields.text_or("replacement", "▁");
  const std::string otherwise = fields.flag_or("add_prefix_space", true) ? "always" : "never";
  const bool prepends = fields.text_or("prepend_scheme", otherwise) != "never";
  return [=](Tokens tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = replaced(tokens[i], mark, i == 0 && prepends ? "" : " ");
    }
    return tokens;
  };
}

Decoder strip(const Fields& fields) {
  const std::string content = fields.text("content");
  const std::uint64_t start = fields.count_or("start", 0);
  const std::uint64_t stop = fields.count_or("stop", 0);
  if (content.empty()) throw Error(ErrorCode::corrupt, "'content' of " + fields.what() + " is empty");
  return [=](Tokens tokens) {
    for (std::string& token : tokens) {
      for (std::uint64_t i = 0; i < start && token.starts_with(content); ++i) token.erase(0, content.size());
      for (std::uint64_t i = 0; i < stop && token.ends_with(content); ++i) token.erase(token.size() - content.size());
    }
    return tokens;
  };
}

Decoder bpe(const Fields& fields) {
  return [suffix = fields.text_or("suffix", "</w>")](Tokens tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = replaced(tokens[i], suffix, i + 1 == tokens.size() ? "" : " ");
    }
    return tokens;
  };
}

Decoder replace(const Fields& fields) {
  return [pattern = pattern_in(fields), by = fields.text("content")](Tokens tokens) {
    for (std::string& token : tokens) token = pattern.replace_in(token, by);
    return tokens;
  };
}

Tokens fuse(const Tokens& tokens) {
  return {core::join(tokens, "")};
}

}  // namespace

Decoder make_decoder(ckpt::JsonView json) {
  const std::string kind = Fields(json, "a decoder").text("type");
  const std::string what = "the decoder " + core::quote(kind);
  if (kind == "Sequence") {
    std::vector<Decoder> steps;
    for (const ckpt::JsonView& one : Fields(json, what, {"type", "decoders"}).list("decoders")) {
      steps.push_back(make_decoder(one));
    }
    return in_turn(std::move(steps));
  }
  if (kind == "WordPiece") return word_piece(Fields(json, what, {"type", "prefix", "cleanup"}));
  if (kind == "Metaspace") {
    return metaspace(
        Fields(json, what, {"type", "replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"}));
  }
  if (kind == "BPEDecoder") return bpe(Fields(json, what, {"type", "suffix"}));
  if (kind == "Strip") return strip(Fields(json, what, {"type", "content", "start", "stop"}));
  if (kind == "Replace") return replace(Fields(json, what, {"type", "pattern", "content"}));
  if (kind == "ByteLevel") {
    Fields(json, what, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return byte_level;
  }
  if (kind != "ByteFallback" && kind != "Fuse") throw Error(ErrorCode::unsupported, what + " is not here");
  Fields(json, what, {"type"});
  if (kind == "Fuse") return fuse;
  return byte_fallback;
}

}  // namespace zoo::text
