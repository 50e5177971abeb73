#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "zoo/text/charsmap.h"
#include "zoo/text/fields.h"
#include "zoo/text/pattern_json.h"
#include "zoo/text/steps.h"
#include "zoo/text/unicode.h"

namespace zoo::text {
namespace {

using core::Error;
using core::ErrorCode;

template <class Keep>
std::string keep_if(std::string_view text, Keep keep) {
  std::string out;
  for (const Point& point : points(text)) {
    if (keep(point.value)) out += text.substr(point.begin, point.end - point.begin);
  }
  return out;
}

std::string clean(std::string_view text) {
  std::string out;
  for (const Point& point : points(text)) {
    if (point.value == 0 || point.value == 0xfffd || is_control(point.value)) continue;
    if (is_space(point.value)) {
      out += ' ';
    } else {
      out += text.substr(point.begin, point.end - point.begin);
    }
  }
  return out;
}

std::string space_ideographs(std::string_view text) {
  std::string out;
  for (const Point& point : points(text)) {
    const std::string_view bytes = text.substr(point.begin, point.end - point.begin);
    out += is_ideograph(point.value) ? " " + std::string(bytes) + " " : std::string(bytes);
  }
  return out;
}

Normalizer bert(const Fields& fields) {
  const bool cleans = fields.flag_or("clean_text", true);
  const bool spaces = fields.flag_or("handle_chinese_chars", true);
  const bool lowers = fields.flag_or("lowercase", true);
  const bool strips = fields.flag_or("strip_accents", lowers);
  return [=](std::string text) {
    if (cleans) text = clean(text);
    if (spaces) text = space_ideographs(text);
    if (strips) text = keep_if(normal_form(text, Form::nfd), [](char32_t c) { return !is_nonspacing_mark(c); });
    return lowers ? lower(text) : text;
  };
}

Normalizer strip(const Fields& fields) {
  const bool left = fields.flag_or("strip_left", true);
  const bool right = fields.flag_or("strip_right", true);
  return [=](std::string text) {
    const std::vector<Point> chars = points(text);
    std::size_t begin = 0;
    std::size_t end = chars.size();
    while (left && begin < end && is_space(chars[begin].value)) ++begin;
    while (right && end > begin && is_space(chars[end - 1].value)) --end;
    if (begin == end) return std::string();
    return text.substr(chars[begin].begin, chars[end - 1].end - chars[begin].begin);
  };
}

/// SentencePiece's rules of machine translation: controls go, and everything that is a space becomes one.
std::string nmt(std::string_view text) {
  std::string out;
  for (const Point& point : points(text)) {
    const char32_t c = point.value;
    const bool goes = (c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f;
    const bool space = c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
                       c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
    if (!goes) out += space ? " " : std::string(text.substr(point.begin, point.end - point.begin));
  }
  return out;
}

Normalizer form_of(Form form) {
  return [form](const std::string& text) { return normal_form(text, form); };
}

Normalizer replace(const Fields& fields) {
  return [pattern = pattern_in(fields), by = fields.text("content")](const std::string& text) {
    return pattern.replace_in(text, by);
  };
}

Normalizer without_fields(const std::string& kind) {
  if (kind == "NFC") return form_of(Form::nfc);
  if (kind == "NFD") return form_of(Form::nfd);
  if (kind == "NFKC") return form_of(Form::nfkc);
  if (kind == "NFKD") return form_of(Form::nfkd);
  if (kind == "Lowercase") return [](const std::string& text) { return lower(text); };
  if (kind == "StripAccents") {
    return [](const std::string& text) { return keep_if(text, [](char32_t c) { return !is_mark(c); }); };
  }
  if (kind == "Nmt") return [](const std::string& text) { return nmt(text); };
  if (kind == "ByteLevel") return [](const std::string& text) { return visible_bytes(text); };
  return {};
}

}  // namespace

Normalizer make_normalizer(ckpt::JsonView json) {
  const std::string kind = Fields(json, "a normalizer").text("type");
  const std::string what = "the normalizer " + core::quote(kind);
  if (Normalizer plain = without_fields(kind)) {
    Fields(json, what, {"type"});
    return plain;
  }
  if (kind == "Sequence") {
    std::vector<Normalizer> steps;
    for (const ckpt::JsonView& one : Fields(json, what, {"type", "normalizers"}).list("normalizers")) {
      steps.push_back(make_normalizer(one));
    }
    return in_turn(std::move(steps));
  }
  if (kind == "BertNormalizer") {
    return bert(Fields(json, what, {"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"}));
  }
  if (kind == "Strip") return strip(Fields(json, what, {"type", "strip_left", "strip_right"}));
  if (kind == "Replace") return replace(Fields(json, what, {"type", "pattern", "content"}));
  if (kind == "Prepend") {
    return [with = Fields(json, what, {"type", "prepend"}).text("prepend")](const std::string& text) {
      return text.empty() ? text : with + text;
    };
  }
  if (kind == "Precompiled") {
    const std::string table = Fields(json, what, {"type", "precompiled_charsmap"}).text_or("precompiled_charsmap", "");
    if (table.empty()) return [](std::string text) { return text; };
    return [map = Charsmap(from_base64(table))](const std::string& text) { return map.apply(text); };
  }
  throw Error(ErrorCode::unsupported, what + " is not here");
}

}  // namespace zoo::text
