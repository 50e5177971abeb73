#include <algorithm>

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

/// What becomes of the spans that match.
enum class Behavior : std::uint8_t { removed, isolated, with_previous, with_next, contiguous };

Behavior behavior_of(const std::string& name, const std::string& what) {
  if (name == "Removed") return Behavior::removed;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "MergedWithPrevious") return Behavior::with_previous;
  if (name == "MergedWithNext") return Behavior::with_next;
  if (name == "Contiguous") return Behavior::contiguous;
  throw Error(ErrorCode::corrupt, core::quote(name) + " is no behavior of " + what);
}

std::vector<Span> joined(const std::vector<Span>& spans, Behavior behavior) {
  std::vector<Span> out;
  if (behavior == Behavior::with_next) {
    bool before = false;
    for (auto span = spans.rbegin(); span != spans.rend(); ++span) {
      if (span->matches && !before && !out.empty()) {
        out.back().begin = span->begin;
      } else {
        out.push_back(*span);
      }
      before = span->matches;
    }
    std::reverse(out.begin(), out.end());
    return out;
  }
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[i];
    const bool before = i > 0 && spans[i - 1].matches;
    bool joins = false;
    if (behavior == Behavior::with_previous) joins = span.matches && !before;
    if (behavior == Behavior::contiguous) joins = span.matches == before;
    if (behavior == Behavior::removed && span.matches) continue;
    if (joins && !out.empty()) {
      out.back().end = span.end;
    } else {
      out.push_back(span);
    }
  }
  return out;
}

using Finder = std::function<std::vector<Span>(std::string_view)>;

PreTokenizer cut_by(Finder find, Behavior behavior) {
  return [find = std::move(find), behavior](const std::vector<Piece>& pieces) {
    std::vector<Piece> out;
    for (const Piece& piece : pieces) {
      for (const Span& span : joined(find(piece.text), behavior)) {
        if (span.begin == span.end) continue;
        out.push_back({piece.text.substr(span.begin, span.end - span.begin), piece.first && span.begin == 0});
      }
    }
    return out;
  };
}

/// Every character that `is` takes is a match of its own.
template <class Is>
Finder chars_that(Is is) {
  return [is](std::string_view text) {
    std::vector<Span> spans;
    for (const Point& point : points(text)) {
      const bool matches = is(point.value);
      if (!matches && !spans.empty() && !spans.back().matches) {
        spans.back().end = point.end;
      } else {
        spans.push_back({point.begin, point.end, matches});
      }
    }
    return spans;
  };
}

Finder regex_finder(Pattern pattern, bool invert = false) {
  return [pattern = std::move(pattern), invert](std::string_view text) {
    std::vector<Span> spans = pattern.find_in(text);
    for (Span& span : spans) span.matches = span.matches != invert;
    return spans;
  };
}

template <class Change>
PreTokenizer changed(Change change) {
  return [change](std::vector<Piece> pieces) {
    for (Piece& piece : pieces) piece.text = change(std::move(piece.text));
    return pieces;
  };
}

PreTokenizer byte_level(const Fields& fields) {
  std::vector<PreTokenizer> steps;
  if (fields.flag_or("add_prefix_space", true)) {
    steps.push_back(changed([](const std::string& text) { return text.starts_with(' ') ? text : " " + text; }));
  }
  if (fields.flag_or("use_regex", true)) {
    static const Pattern words =
        Pattern::regex("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+");
    steps.push_back(cut_by(regex_finder(words), Behavior::isolated));
  }
  steps.push_back(changed([](const std::string& text) { return visible_bytes(text); }));
  return in_turn(std::move(steps));
}

PreTokenizer metaspace(const Fields& fields) {
  const std::string mark = fields.text_or("replacement", "▁");
  const std::string otherwise = fields.flag_or("add_prefix_space", true) ? "always" : "never";
  const std::string scheme = fields.text_or("prepend_scheme", otherwise);
  if (scheme != "always" && scheme != "never" && scheme != "first") {
    throw Error(ErrorCode::unsupported,
                "the prepend_scheme " + core::quote(scheme) + " of " + fields.what() + " is not here");
  }
  std::vector<PreTokenizer> steps;
  const Pattern space = Pattern::literal(" ");
  steps.push_back([=](std::vector<Piece> pieces) {
    for (Piece& piece : pieces) {
      piece.text = space.replace_in(piece.text, mark);
      const bool wanted = scheme == "always" || (scheme == "first" && piece.first);
      if (wanted && !piece.text.starts_with(mark)) piece.text.insert(0, mark);
    }
    return pieces;
  });
  if (fields.flag_or("split", true)) {
    steps.push_back(cut_by(regex_finder(Pattern::literal(mark)), Behavior::with_next));
  }
  return in_turn(std::move(steps));
}

PreTokenizer bert() {
  std::vector<PreTokenizer> steps{cut_by(chars_that(is_space), Behavior::removed),
                                  cut_by(chars_that(is_punctuation), Behavior::isolated)};
  return in_turn(std::move(steps));
}

/// Runs of word characters, and runs of what is neither that nor space.
std::vector<Span> words_and_others(std::string_view text) {
  std::vector<Span> spans;
  int before = -1;
  for (const Point& point : points(text)) {
    const int kind = is_space(point.value) ? 0 : is_word(point.value) ? 1 : 2;
    if (kind == before) {
      spans.back().end = point.end;
    } else {
      spans.push_back({point.begin, point.end, kind == 0});
    }
    before = kind;
  }
  return spans;
}

PreTokenizer fixed_length(const Fields& fields) {
  const std::uint64_t length = fields.count_or("length", 5);
  if (length == 0) throw Error(ErrorCode::corrupt, "pieces of " + fields.what() + " have no characters");
  return cut_by(
      [length](std::string_view text) {
        std::vector<Span> spans;
        std::uint64_t count = 0;
        for (const Point& point : points(text)) {
          if (count++ % length == 0) spans.push_back({point.begin, point.end, false});
          spans.back().end = point.end;
        }
        return spans;
      },
      Behavior::isolated);
}

PreTokenizer cutter(const std::string& kind, ckpt::JsonView json, const std::string& what) {
  if (kind == "Split") {
    const Fields fields(json, what, {"type", "pattern", "behavior", "invert"});
    return cut_by(regex_finder(pattern_in(fields), fields.flag_or("invert", false)),
                  behavior_of(fields.text("behavior"), what));
  }
  if (kind == "Digits") {
    const bool alone = Fields(json, what, {"type", "individual_digits"}).flag_or("individual_digits", false);
    return cut_by(chars_that(is_number), alone ? Behavior::isolated : Behavior::contiguous);
  }
  if (kind == "Punctuation") {
    const std::string behavior = Fields(json, what, {"type", "behavior"}).text_or("behavior", "Isolated");
    return cut_by(chars_that(is_punctuation), behavior_of(behavior, what));
  }
  if (kind == "CharDelimiterSplit") {
    const std::string delimiter = Fields(json, what, {"type", "delimiter"}).text("delimiter");
    return cut_by(regex_finder(Pattern::literal(delimiter)), Behavior::removed);
  }
  if (kind == "FixedLength") return fixed_length(Fields(json, what, {"type", "length"}));
  return {};
}

}  // namespace

PreTokenizer make_pre_tokenizer(ckpt::JsonView json) {
  const std::string kind = Fields(json, "a pre-tokenizer").text("type");
  const std::string what = "the pre-tokenizer " + core::quote(kind);
  if (kind == "Sequence") {
    std::vector<PreTokenizer> steps;
    for (const ckpt::JsonView& one : Fields(json, what, {"type", "pretokenizers"}).list("pretokenizers")) {
      steps.push_back(make_pre_tokenizer(one));
    }
    return in_turn(std::move(steps));
  }
  if (kind == "ByteLevel")
    return byte_level(Fields(json, what, {"type", "add_prefix_space", "trim_offsets", "use_regex"}));
  if (kind == "Metaspace") {
    return metaspace(
        Fields(json, what, {"type", "replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"}));
  }
  if (PreTokenizer cuts = cutter(kind, json, what)) return cuts;
  PreTokenizer plain;
  if (kind == "Whitespace") plain = cut_by(words_and_others, Behavior::removed);
  if (kind == "WhitespaceSplit") plain = cut_by(chars_that(is_space), Behavior::removed);
  if (kind == "BertPreTokenizer") plain = bert();
  if (!plain) throw Error(ErrorCode::unsupported, what + " is not here");
  Fields(json, what, {"type"});
  return plain;
}

}  // namespace zoo::text
